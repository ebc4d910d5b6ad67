package dsh

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// EventGoal is the event type of a change of a session's goal.
const EventGoal = "goal/change"

// GoalRef names one revision of a goal. Every change of a goal makes the next revision, and needs the present one.
type GoalRef struct {
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
}

// Phases of a goal.
const (
	GoalActive   = "active" // the host starts the next round by itself
	GoalPaused   = "paused"
	GoalBlocked  = "blocked" // the agent or the host cannot go on; see Goal.Reason
	GoalComplete = "complete"
)

// Goal is a session's goal.
type Goal struct {
	Ref       GoalRef
	Objective string
	Phase     string // one of the phases
	// Reason is why the goal is blocked, with the host's code for it; both are empty otherwise.
	Reason, ReasonCode string
	MaxRounds          int // how many rounds the host starts at most
	Rounds             int // how many it has started
}

// GoalAction takes a goal to another phase.
type GoalAction string

// The actions of [Host.MoveGoal].
const (
	PauseGoal    GoalAction = "pause"
	ResumeGoal   GoalAction = "resume"
	CompleteGoal GoalAction = "complete"
	ClearGoal    GoalAction = "clear"
)

// What a host says of a change of a goal that it refuses, see [GoalCode].
const (
	GoalStaleRevision     = "GOAL_STALE_REVISION"
	GoalAlreadyExists     = "GOAL_ALREADY_EXISTS"
	GoalNotFound          = "GOAL_NOT_FOUND"
	GoalInvalidTransition = "GOAL_INVALID_TRANSITION"
)

// GoalCode is why the host refused a change of a goal; empty for any other failure.
func GoalCode(err error) string {
	host, ok := errors.AsType[*Error](err)
	if !ok || host.Kind != Refused {
		return ""
	}
	return stringIn(gjson.GetBytes(host.Details, "goalCode"))
}

// GoalChange is the body of goal/change.
type GoalChange struct {
	Operation string // "create", "edit", "pause", "resume", "complete", "block" or "clear"
	// Goal is the goal after the change; of a cleared one, only Ref.
	Goal Goal
}

// GoalChangeOf reads goal/change.
func GoalChangeOf(e Event) GoalChange {
	b := body(e)
	change := GoalChange{Operation: stringIn(b.Get("operation")), Goal: goalIn(b)}
	if cleared := b.Get("cleared"); cleared.Exists() {
		change.Goal.Ref = refIn(cleared)
	}
	return change
}

// decodeGoal reads a goal projection; nil where there is no goal, or one that makes no sense.
func decodeGoal(v gjson.Result) *Goal {
	if v.Type == gjson.Null { // most sessions of most lists have none
		return nil
	}
	g := goalIn(v)
	if g.Ref.ID == "" || g.Phase == "" {
		return nil
	}
	return &g
}

// goalIn reads a goal as projections and events tell it.
func goalIn(v gjson.Result) Goal {
	goal := v.Get("goal")
	return Goal{
		Ref:        refIn(goal),
		Objective:  stringIn(goal.Get("objective")),
		Phase:      stringIn(goal.Get("phase")),
		Reason:     stringIn(goal.Get("blockedReason.message")),
		ReasonCode: stringIn(goal.Get("blockedReason.code")),
		MaxRounds:  intIn(goal.Get("maxGoalRounds")),
		Rounds:     intIn(v.Get("roundsStarted")),
	}
}

func refIn(v gjson.Result) GoalRef {
	return GoalRef{ID: idIn(v.Get("id")), Revision: int64(intIn(v.Get("revision")))}
}

// CreateGoal implements [Host].
func (c *Client) CreateGoal(ctx context.Context, sessionID, objective string, maxRounds int) (GoalRef, error) {
	return c.changeGoal(ctx, "goal.create", struct {
		SessionID string `json:"sessionId"`
		Objective string `json:"objective"`
		MaxRounds int    `json:"maxGoalRounds,omitempty"`
	}{sessionID, objective, maxRounds})
}

// EditGoal implements [Host].
func (c *Client) EditGoal(ctx context.Context, sessionID string, ref GoalRef, objective string, maxRounds int) (GoalRef, error) {
	return c.changeGoal(ctx, "goal.edit", struct {
		SessionID string  `json:"sessionId"`
		Ref       GoalRef `json:"ref"`
		Objective string  `json:"objective,omitempty"`
		MaxRounds int     `json:"maxGoalRounds,omitempty"`
	}{sessionID, ref, objective, maxRounds})
}

// MoveGoal implements [Host].
func (c *Client) MoveGoal(ctx context.Context, sessionID string, ref GoalRef, action GoalAction) (GoalRef, error) {
	method := "goal." + string(action)
	payload := struct {
		SessionID string  `json:"sessionId"`
		Ref       GoalRef `json:"ref"`
	}{sessionID, ref}
	if action != ClearGoal {
		return c.changeGoal(ctx, method, payload)
	}
	value, err := c.call(ctx, method, uuid.NewString(), payload)
	if err != nil {
		return GoalRef{}, err
	}
	var bad string
	if o := root(value, &bad); !o.flag("cleared") {
		o.fault("cleared", "is not true")
	}
	return GoalRef{}, refusal(method, bad)
}

func (c *Client) changeGoal(ctx context.Context, method string, payload any) (GoalRef, error) {
	value, err := c.call(ctx, method, uuid.NewString(), payload)
	if err != nil {
		return GoalRef{}, err
	}
	var bad string
	ref := root(value, &bad).within("ref")
	return GoalRef{ID: ref.id("id"), Revision: ref.integer("revision")}, refusal(method, bad)
}
