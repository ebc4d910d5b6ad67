package ledger

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// goalIs is a change of the goal g.
func goalIs(operation, phase string, revision int64, rounds int) step {
	return event("goal/change", Coordination{Time: revision * 10, Goal: &GoalChange{ID: "g", Revision: revision, Operation: operation, Phase: phase, Rounds: rounds, MaxRounds: 9}})
}

// round is the message that begins a round of a goal.
func round(goal string, revision int64, n int) step {
	return event("user/message", Coordination{SourceKind: "goal", Time: 500, Goal: &GoalChange{ID: goal, Revision: revision, Operation: GoalRound, Rounds: n}})
}

// writes is a change of the goal that a caller asked for.
func writes(id, outcome string, change GoalChange) step {
	return observe(TypeWriteIssued, Coordination{RequestID: id, Fingerprint: "f", Outcome: outcome, Goal: &change})
}

func TestGoal(t *testing.T) {
	created := goalIs("create", GoalActive, 1, 0)
	for _, tt := range []struct {
		name  string
		steps []step
		want  *Goal // without its places
	}{
		{"none", []step{turnStart(1)}, nil},
		{"created", []step{created}, &Goal{ID: "g", Revision: 1, Phase: GoalActive, MaxRounds: 9}},
		{"in its second round", []step{created, round("g", 1, 1), turnEnd(1, ReasonCompleted), round("g", 1, 2)}, &Goal{ID: "g", Revision: 1, Phase: GoalActive, Rounds: 2, MaxRounds: 9}},
		{"blocked", []step{created, round("g", 1, 1), goalIs("block", GoalBlocked, 2, 1)}, &Goal{ID: "g", Revision: 2, Phase: GoalBlocked, Rounds: 1, MaxRounds: 9}},
		{"edited, the rounds stay", []step{created, round("g", 1, 1), goalIs("edit", GoalActive, 2, 1)}, &Goal{ID: "g", Revision: 2, Phase: GoalActive, Rounds: 1, MaxRounds: 9}},
		{"cleared", []step{created, goalIs("clear", "", 2, 0)}, nil},
		{"created anew", []step{created, round("g", 1, 4), goalIs("clear", "", 2, 0), created}, &Goal{ID: "g", Revision: 1, Phase: GoalActive, MaxRounds: 9}},
		{"a subagent's", []step{in(child, created)}, nil},
		{"without what makes one", []step{event("goal/change", Coordination{}), event("goal/change", Coordination{Goal: &GoalChange{Phase: GoalActive}})}, nil},
		{"in a gap", []step{created, lost(4)}, nil},
		{"in a gap, and a round behind it", []step{created, lost(4), round("h", 3, 7)}, &Goal{ID: "h", Revision: 3, Phase: GoalActive, Rounds: 7}},
		{"in a gap, and its end behind it", []step{lost(4), goalIs("complete", GoalComplete, 5, 3)}, &Goal{ID: "g", Revision: 5, Phase: GoalComplete, Rounds: 3, MaxRounds: 9}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tell(t, tt.steps...).state.RootGoal()
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(Goal{}, "Seq", "Cursor", "ChangedAt")); diff != "" {
				t.Errorf("the goal (-want +got):\n%s", diff)
			}
		})
	}
}

// The places of a goal lead to its texts, and tell who has seen its last change.
func TestGoalPlaces(t *testing.T) {
	s := tell(t, turnStart(1), goalIs("create", GoalActive, 1, 0), round("g", 1, 1), turnEnd(1, ReasonCompleted))
	want := &Goal{ID: "g", Revision: 1, Phase: GoalActive, Rounds: 1, MaxRounds: 9, Seq: 1, Cursor: 2, ChangedAt: 10}
	if diff := cmp.Diff(want, s.state.RootGoal()); diff != "" {
		t.Errorf("the goal (-want +got):\n%s", diff)
	}
	s = tell(t, lost(3), round("g", 1, 1))
	if g := s.state.RootGoal(); g.Seq != -1 || g.Cursor != 2 {
		t.Errorf("a goal that only its round tells of is at %+v", g)
	}
}

// What became of a write whose answer was lost is in the history.
func TestGoalWrites(t *testing.T) {
	pause := GoalChange{ID: "g", Revision: 1, Operation: "pause"}
	created := goalIs("create", GoalActive, 1, 0)
	for _, tt := range []struct {
		name  string
		steps []step
		want  string
	}{
		{"on its way", []step{created, writes("w", PromptSending, pause)}, PromptSending},
		{"unknown", []step{created, writes("w", PromptSending, pause), writes("w", PromptUnknown, pause)}, PromptUnknown},
		{"made", []step{created, writes("w", PromptSending, pause), writes("w", PromptUnknown, pause), goalIs("pause", GoalPaused, 2, 0)}, PromptAccepted},
		{"made, and its answer lost after that", []step{created, writes("w", PromptSending, pause), goalIs("pause", GoalPaused, 2, 0), writes("w", PromptUnknown, pause)}, PromptAccepted},
		{"another change was made at that revision", []step{created, writes("w", PromptUnknown, pause), goalIs("edit", GoalActive, 2, 0)}, PromptUnknown},
		{"the same was made later", []step{created, writes("w", PromptUnknown, pause), goalIs("edit", GoalActive, 2, 0), goalIs("pause", GoalPaused, 3, 0)}, PromptUnknown},
		{"refused", []step{created, writes("w", PromptRefused, pause), goalIs("pause", GoalPaused, 2, 0)}, PromptRefused},
		{"a creation", []step{writes("w", PromptUnknown, GoalChange{Operation: "create"}), created}, PromptAccepted},
		{"in a subagent", []step{writes("w", PromptUnknown, GoalChange{Operation: "create"}), in(child, created)}, PromptUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			issued, known := tell(t, tt.steps...).state.IssuedPrompt("w")
			if !known || issued.Outcome != tt.want {
				t.Errorf("the write counts as %q (%v), want %s", issued.Outcome, known, tt.want)
			}
		})
	}
	// Neither is a prompt, so nobody waits for a turn.
	if got := tell(t, turnStart(1), turnEnd(1, ReasonCompleted), writes("w", PromptAccepted, pause)).state.Execution(); got != TurnCompleted {
		t.Errorf("behind a write the task is %s", got)
	}
}

// A message to a subagent is recognised as one of this home.
func TestMessageToSubagent(t *testing.T) {
	s := tell(t, in(child, turnStart(1), turnEnd(1, ReasonCompleted),
		observe(TypeWriteIssued, Coordination{RequestID: "m", Fingerprint: "f", Outcome: PromptSending}), message("m"), message("theirs")))
	last := s.records[len(s.records)-2:]
	if !last[0].Coordination.Bridge || last[1].Coordination.Bridge {
		t.Errorf("the messages count as %v and %v", last[0].Coordination.Bridge, last[1].Coordination.Bridge)
	}
	if issued, _ := s.state.IssuedPrompt("m"); issued.Outcome != PromptAccepted || !s.state.Arrived("m") {
		t.Errorf("the message counts as %+v", issued)
	}
}

// A host that lost a change of the goal has the goal of before.
func TestGoalRewind(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	change := func(seq, time int64, c GoalChange) Entry {
		return timed(root, seq, "goal/change", time, Coordination{Goal: &c})
	}
	active := change(0, 10, GoalChange{ID: "g", Revision: 1, Operation: "create", Phase: GoalActive})
	appendAll(t, l, active, change(1, 11, GoalChange{ID: "g", Revision: 2, Operation: "pause", Phase: GoalPaused}))
	appendAll(t, l, rewound(root, 1, Mark{Seq: 1, Event: "goal/change", Time: 11}, Prefix(root, []Entry{active})))
	want := &Goal{ID: "g", Revision: 1, Phase: GoalActive, ChangedAt: 10}
	if diff := cmp.Diff(want, held(t, l).RootGoal()); diff != "" {
		t.Errorf("the goal after the rewind (-want +got):\n%s", diff)
	}
	if diff := jsonDiff(stateOf(t, l), stateOf(t, f.open())); diff != "" {
		t.Errorf("another process folds it otherwise:\n%s", diff)
	}
	// What was not lost keeps its place.
	end := timed(root, 1, "turn/end", 12, Coordination{Turn: 1, Reason: ReasonCompleted})
	appendAll(t, l, end, rewound(root, 1, Mark{Seq: 1, Event: "turn/end", Time: 12, Reason: ReasonCompleted}, Prefix(root, []Entry{active})))
	if g := held(t, l).RootGoal(); g == nil || g.Revision != 1 {
		t.Errorf("the goal after the second rewind is %+v", g)
	}
}

// A ledger of before goals were recorded is read as one without a goal.
func TestGoalOfOlderLedgers(t *testing.T) {
	var r Record
	line := `{"cursor":1,"observedAt":1,"sourceSessionId":"session-root","sourceSeq":0,"origin":"root","type":"session/event","coordination":{"event":"goal/change","time":5}}`
	if err := decodeRecord([]byte(line), &r); err != nil {
		t.Fatal(err)
	}
	state := newState(root)
	state.apply(&r)
	if state.RootGoal() != nil || state.Watermark(root) != 0 {
		t.Errorf("the state is %+v", state.Sessions[root])
	}
}

// No text fits into what is kept of a goal.
func TestGoalHoldsNoText(t *testing.T) {
	for _, c := range []GoalChange{{ID: "a text of words"}, {ID: "g", Phase: "all is well"}, {ID: "g", Operation: "make it so"}} {
		r := Record{Type: TypeEvent, SourceSeq: new(int64(1)), Coordination: Coordination{Event: "goal/change", Goal: &c}}
		if r.check() == nil {
			t.Errorf("%+v passes", c)
		}
	}
	r := Record{Type: TypeRewind, Coordination: Coordination{Session: &Session{Watermark: -1, Final: -1, Candidate: -1, Goal: &Goal{ID: "an objective"}}}}
	if r.check() == nil {
		t.Error("a goal of a rewound session may hold a text")
	}
}

// Whatever happens to a goal, the state is that of the last change and of the rounds behind it, and a checkpoint keeps
// all of it.
func TestGoalProperty(t *testing.T) {
	phases := map[string]string{"create": GoalActive, "edit": "", "pause": GoalPaused, "resume": GoalActive, "complete": GoalComplete, "block": GoalBlocked, "clear": ""}
	rapid.Check(t, func(rt *rapid.T) {
		s := tell(t)
		var want *Goal
		for i := range rapid.IntRange(0, 30).Draw(rt, "steps") {
			id := fmt.Sprint("g", rapid.IntRange(0, 2).Draw(rt, "goal"))
			switch operation := rapid.SampledFrom([]string{"round", "turn", "create", "edit", "pause", "resume", "complete", "block", "clear"}).Draw(rt, "operation"); operation {
			case "turn":
				s.tell(turnStart(i + 1))
			case "round":
				n := rapid.IntRange(1, 9).Draw(rt, "n")
				s.tell(round(id, 1, n))
				switch {
				case want == nil || want.ID != id:
					want = &Goal{ID: id, Revision: 1, Phase: GoalActive, Rounds: n}
				default:
					want.Rounds = max(want.Rounds, n)
				}
			default:
				g := Goal{ID: id, Revision: int64(i), Phase: phases[operation], Rounds: rapid.IntRange(0, 9).Draw(rt, "rounds"), MaxRounds: 9}
				if operation == "edit" {
					g.Phase = rapid.SampledFrom([]string{GoalActive, GoalPaused, GoalBlocked, GoalComplete}).Draw(rt, "phase")
				}
				s.tell(event("goal/change", Coordination{Goal: &GoalChange{ID: g.ID, Revision: g.Revision, Operation: operation, Phase: g.Phase, Rounds: g.Rounds, MaxRounds: 9}}))
				want = &g
			}
		}
		var got *Goal
		if session := s.state.Sessions[root]; session != nil {
			got = session.Goal
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Goal{}, "Seq", "Cursor", "ChangedAt")); diff != "" {
			rt.Fatalf("the goal (-want +got):\n%s", diff)
		}
		saved, err := json.Marshal(s.state)
		if err != nil {
			rt.Fatal(err)
		}
		read := newState(root)
		if err := json.Unmarshal(saved, read); err != nil {
			rt.Fatal(err)
		}
		if diff := jsonDiff(toJSON(rt, s.state), toJSON(rt, read)); diff != "" {
			rt.Fatalf("a checkpoint keeps another state:\n%s", diff)
		}
	})
}
