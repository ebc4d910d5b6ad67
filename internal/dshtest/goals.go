package dshtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

const eventGoal = "goal/change"

// Phases of a goal.
const (
	goalActive   = "active"
	goalPaused   = "paused"
	goalBlocked  = "blocked"
	goalComplete = "complete"
)

// defaultRounds is how many rounds a goal has when its maker does not say.
const defaultRounds = 256

// goal is what a session works on by itself, one turn (a round) after the other.
type goal struct {
	ID        string         `json:"id"`
	Revision  int64          `json:"revision"`
	Objective string         `json:"objective"`
	Phase     string         `json:"phase"`
	Blocked   *blockedReason `json:"blockedReason,omitempty"`
	MaxRounds int64          `json:"maxGoalRounds"`
}

type blockedReason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// pursuit is a session's goal and how far it is.
type pursuit struct {
	Goal      goal  `json:"goal"`
	Rounds    int64 `json:"roundsStarted"`
	CreatedAt int64 `json:"createdAt"`
	UpdatedAt int64 `json:"updatedAt"`
}

// goalChange is the data of a goal/change event that leaves a goal.
type goalChange struct {
	Kind      string `json:"kind"`
	Version   int    `json:"version"`
	Operation string `json:"operation"`
	pursuit
}

// goalFailure is a refusal in the words of a real host.
func goalFailure(code, message string) *failure {
	return &failure{Code: "internal", Message: "GoalError: " + message, Details: object{"goalCode": code}}
}

// createGoal gives a session a goal, and sets out to reach it.
func createGoal(h *Host, req request) (any, *failure) {
	objective := req.payload.name("objective", required)
	rounds, limited := req.payload.integer("maxGoalRounds", 1)
	s, f := h.find(&req)
	if f != nil {
		return nil, f
	}
	h.attach(s)
	if s.aim != nil && s.aim.Goal.Phase != goalComplete {
		return nil, goalFailure("GOAL_ALREADY_EXISTS", fmt.Sprintf("goal %q already exists with phase %q", s.aim.Goal.ID, s.aim.Goal.Phase))
	}
	if !limited {
		rounds = defaultRounds
	}
	at := now()
	s.aim = &pursuit{Goal: goal{ID: "goal-" + newID(), Objective: objective, Phase: goalActive, MaxRounds: rounds}, CreatedAt: at}
	s.armed = true
	return h.goalMoved(s, "create"), nil
}

// currentGoal finds the goal that a call addresses.
func (h *Host) currentGoal(req *request) (*session, *failure) {
	ref := parseFields(req.payload.object["ref"], []any{"ref"})
	id := ref.name("id", required)
	revision, given := ref.integer("revision", 1)
	if !given {
		ref.missing("revision", "number", required)
	}
	req.payload.issues = append(req.payload.issues, ref.issues...)
	s, f := h.find(req)
	if f != nil {
		return nil, f
	}
	h.attach(s)
	switch {
	case s.aim == nil:
		return nil, goalFailure("GOAL_NOT_FOUND", "no current goal")
	case s.aim.Goal.ID != id || s.aim.Goal.Revision != revision:
		return nil, goalFailure("GOAL_STALE_REVISION", fmt.Sprintf("stale goal ref %q revision %d; current is %q revision %d", id, revision, s.aim.Goal.ID, s.aim.Goal.Revision))
	}
	return s, nil
}

func editGoal(h *Host, req request) (any, *failure) {
	objective := req.payload.name("objective", optional)
	rounds, limited := req.payload.integer("maxGoalRounds", 1)
	s, f := h.currentGoal(&req)
	if f != nil {
		return nil, f
	}
	if objective == "" && !limited {
		return nil, goalFailure("GOAL_INVALID_EDIT", "goal edit requires objective and/or maxGoalRounds")
	}
	if objective != "" {
		s.aim.Goal.Objective = objective
	}
	if limited {
		s.aim.Goal.MaxRounds = rounds
	}
	return h.goalMoved(s, "edit"), nil
}

// moveGoal makes the method that takes a goal from one of some phases to another.
func moveGoal(operation, phase string, from ...string) func(*Host, request) (any, *failure) {
	return func(h *Host, req request) (any, *failure) {
		s, f := h.currentGoal(&req)
		if f != nil {
			return nil, f
		}
		g := &s.aim.Goal
		refuse := func(why string) *failure {
			return goalFailure("GOAL_INVALID_TRANSITION", fmt.Sprintf(why, g.ID))
		}
		switch {
		case !slices.Contains(from, g.Phase):
			return nil, refuse("cannot " + operation + " goal %q from phase " + quote(g.Phase) + "; expected " + strings.Join(from, " or "))
		case operation == "resume" && g.Phase == goalActive && s.armed:
			return nil, refuse("goal %q is already active and armed")
		case operation == "resume" && s.aim.Rounds >= g.MaxRounds:
			return nil, refuse("goal %q exhausted its goal rounds; increase maxGoalRounds before resuming")
		}
		g.Phase, g.Blocked = phase, nil
		s.armed = operation == "resume"
		return h.goalMoved(s, operation), nil
	}
}

func clearGoal(h *Host, req request) (any, *failure) {
	s, f := h.currentGoal(&req)
	if f != nil {
		return nil, f
	}
	ref := object{"id": s.aim.Goal.ID, "revision": s.aim.Goal.Revision + 1}
	s.aim, s.goal, s.armed = nil, nil, false
	h.project(s, "goal", nil, s.lastSeq()+1)
	h.emit(s, eventGoal, object{"kind": eventGoal, "version": 1, "operation": "clear", "cleared": ref, "clearedAt": now()})
	return object{"cleared": true}, nil
}

// goalMoved records a change of a session's goal, and begins a round when one is due.
func (h *Host) goalMoved(s *session, operation string) object {
	h.noteGoal(s, operation)
	if s.turn == nil && h.nextRound(s) {
		h.startTurn(s)
	}
	return object{"ref": object{"id": s.aim.Goal.ID, "revision": s.aim.Goal.Revision}}
}

func (h *Host) noteGoal(s *session, operation string) {
	s.aim.Goal.Revision++
	s.aim.UpdatedAt = now()
	s.goal = encode(s.aim)
	h.project(s, "goal", s.goal, s.lastSeq()+1)
	h.emit(s, eventGoal, goalChange{Kind: eventGoal, Version: 1, Operation: operation, pursuit: *s.aim})
}

// nextRound puts the next round's message into the inbox of an idle session, if its goal has one; a goal that is out of
// rounds is blocked. A message that waits goes first.
func (h *Host) nextRound(s *session) bool {
	if s.aim == nil || s.aim.Goal.Phase != goalActive || !s.armed || len(s.inbox.turn) > 0 {
		return false
	}
	g := &s.aim.Goal
	if s.aim.Rounds >= g.MaxRounds {
		g.Phase, s.armed = goalBlocked, false
		g.Blocked = &blockedReason{Code: "round-limit", Message: fmt.Sprintf("Goal reached its configured limit of %d rounds.", g.MaxRounds)}
		h.noteGoal(s, "block")
		return false
	}
	round := s.aim.Rounds + 1
	// A script in the objective is escaped, here as on a real host, and plays nothing.
	text := fmt.Sprintf("<goal_round>\nObjective: %s\nRound: %d/%d\n\nGo on.\n</goal_round>", encode(g.Objective), round, g.MaxRounds)
	h.enqueue(s, nextTurn, newMessage(textBlocks(text), object{"kind": "goal", "goalId": g.ID, "revision": g.Revision, "round": round}))
	return true
}

// roundBegins follows the goal over a message that enters the conversation, and reports whether it begins a round.
func (s *session) roundBegins(m *message) bool {
	if m.kind() != "goal" {
		return false
	}
	round := gjson.GetBytes(m.Source, "round").Int()
	if s.aim != nil && s.aim.Goal.ID == gjson.GetBytes(m.Source, "goalId").String() {
		s.aim.Rounds = max(s.aim.Rounds, round)
	}
	return round > 0
}

// turnOver tells the goal how a turn ended. Only after a turn that completed the next round begins by itself; a round
// that is cancelled aloud pauses the goal.
func (t *turn) turnOver(kind string, silent bool) {
	s := t.s
	if s.aim == nil || !s.armed || kind == endCompleted {
		return
	}
	s.armed = false
	if t.round && kind == endAborted && !silent && s.aim.Goal.Phase == goalActive {
		s.aim.Goal.Phase = goalPaused
		t.h.noteGoal(s, "pause")
	}
}

// recallGoal rebuilds from the log what a session pursues. Whoever takes up a log does not go on by itself.
func (s *session) recallGoal() {
	s.aim, s.goal, s.armed = nil, nil, false
	for i := range s.records {
		switch r := &s.records[i]; r.kind {
		case eventGoal:
			var change goalChange
			if r.member("operation") == "clear" || json.Unmarshal(r.data, &change) != nil {
				s.aim, s.goal = nil, nil
				continue
			}
			s.aim = &change.pursuit
			s.goal = encode(s.aim)
		case eventUser:
			var m message
			if json.Unmarshal(r.data, &m) == nil {
				s.roundBegins(&m)
			}
		}
	}
}
