package dshtest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/labmodel"
)

// goalRef is what names one revision of a goal on the wire.
type goalRef struct {
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
}

type goalAnswer struct{ Ref goalRef }

// newGoal gives a session a goal.
func newGoal(t *testing.T, h *Host, session string, rounds int) goalRef {
	t.Helper()
	return call[goalAnswer](t, h, "goal.create", object{"sessionId": session, "objective": "all is well", "maxGoalRounds": rounds}).Ref
}

// goalStory is the log of a session as far as goals and turns go.
func goalStory(h *Host, session string) (story []string) {
	for _, ev := range h.Events(session) {
		data := gjson.ParseBytes(ev.Data)
		switch ev.Type {
		case eventGoal:
			story = append(story, data.Get("operation").String())
		case eventUser:
			if data.Get("source.kind").String() == "goal" {
				story = append(story, "round "+data.Get("source.round").String())
			}
		case eventTurnEnd:
			story = append(story, data.Get("reason.kind").String())
		}
	}
	return story
}

// slowly is a script whose turns, rounds included, can be held behind a word.
func slowly() string { return Script(labmodel.Step{Say: "one two three", DelayMs: 1}) }

// A goal goes on after a turn that completed, and after no other.
func TestGoalRounds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		script string
		during func(t *testing.T, h *Host, session string)
		want   string
	}{
		{"to their limit", Script(labmodel.Step{Say: "x"}), nil, "completed create round 1 completed round 2 completed block"},
		{"a failing one", Script(labmodel.Step{Status: 400}), nil, "error create round 1 error"},
		{"a cancelled one", slowly(), func(t *testing.T, h *Host, session string) {
			if _, err := h.WaitEvent(within(t), session, eventTurnStart, 2); err != nil {
				t.Fatal(err)
			}
			h.until(within(t), "words", func() bool {
				s := h.sessions[session]
				return s.turns == 2 && s.records[len(s.records)-1].kind == eventChunk
			})
			call[object](t, h, "session.cancel", object{"sessionId": session})
		}, "completed create round 1 aborted pause"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := started(t, Options{})
			id := newRoot(t, h)
			tell(t, h, id, "queue", tt.script)
			if err := h.WaitIdle(within(t), id); err != nil {
				t.Fatal(err)
			}
			if tt.during != nil {
				h.HoldWork(2)
			}
			newGoal(t, h, id, 2)
			if tt.during != nil {
				tt.during(t, h, id)
			}
			if err := h.WaitIdle(within(t), id); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Join(goalStory(h, id), " ")); diff != "" {
				t.Errorf("the story (-want +got):\n%s", diff)
			}
		})
	}
}

// Neither a host that was started anew nor a fork goes on with a goal by itself.
func TestGoalIsTakenUpByNobody(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	tell(t, h, id, "queue", slowly())
	if err := h.WaitIdle(within(t), id); err != nil {
		t.Fatal(err)
	}
	h.HoldWork(2)
	ref := newGoal(t, h, id, 3)
	if _, err := h.WaitEvent(within(t), id, eventTurnStart, 2); err != nil {
		t.Fatal(err)
	}
	fork := call[struct{ SessionID string }](t, h, "session.fork", object{"sessionId": id}).SessionID
	if err := h.Restart(); err != nil {
		t.Fatal(err)
	}
	for session, want := range map[string]string{id: "completed create round 1 interrupted resume", fork: "completed"} {
		call[object](t, h, "session.models", object{"sessionId": session}) // takes it up
		if session == id {
			call[goalAnswer](t, h, "goal.resume", object{"sessionId": session, "ref": ref})
			if _, err := h.WaitEvent(within(t), id, eventTurnStart, 3); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(goalStory(h, session), " "); !strings.HasPrefix(got, want) {
			t.Errorf("the story is %s, want %s", got, want)
		}
	}
}
