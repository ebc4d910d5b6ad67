package dsh

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const activeGoal = `{"goal":{"id":"goal-1","revision":2,"objective":"Make the tests pass","phase":"blocked","maxGoalRounds":3,
	"blockedReason":{"code":"round-limit","message":"3 rounds"}},"roundsStarted":3,"createdAt":1,"updatedAt":2}`

var blockedGoal = Goal{Ref: GoalRef{"goal-1", 2}, Objective: "Make the tests pass", Phase: GoalBlocked, Reason: "3 rounds", ReasonCode: "round-limit", MaxRounds: 3, Rounds: 3}

func TestGoalOfASession(t *testing.T) {
	c := clientOf(t, Options{}, answering(t, `{"ok":true,"value":{"items":[
		{"sessionId":"a","updatedAt":1,"running":false,"blank":false,"projections":{"asOfSeq":1,"values":{"goal":`+activeGoal+`}}},
		{"sessionId":"b","updatedAt":1,"running":false,"blank":false,"projections":{"asOfSeq":1,"values":{"goal":null}}},
		{"sessionId":"c","updatedAt":1,"running":false,"blank":false,"projections":{"asOfSeq":1,"values":{"goal":{"goal":{"id":7}}}}}]}}`))
	rows, err := c.Sessions(t.Context())
	if err != nil || len(rows) != 3 {
		t.Fatal(rows, err)
	}
	if diff := cmp.Diff(&blockedGoal, rows[0].Goal); diff != "" || rows[1].Goal != nil || rows[2].Goal != nil {
		t.Error(diff, rows[1].Goal, rows[2].Goal)
	}
}

func TestGoalChangeOf(t *testing.T) {
	body := strings.Replace(activeGoal, "{", `{"kind":"goal/change","operation":"block",`, 1)
	for raw, want := range map[string]GoalChange{
		body: {Operation: "block", Goal: blockedGoal},
		`{"operation":"clear","cleared":{"id":"goal-1","revision":3}}`: {Operation: "clear", Goal: Goal{Ref: GoalRef{"goal-1", 3}}},
		`[]`: {},
	} {
		if diff := cmp.Diff(want, GoalChangeOf(Event{Type: EventGoal, Data: []byte(raw)})); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
	}
}

func TestChangesOfGoals(t *testing.T) {
	const ref = `{"ok":true,"value":{"ref":{"id":"goal-1","revision":3}}}`
	at, next := GoalRef{"goal-1", 2}, GoalRef{"goal-1", 3}
	for _, tt := range []struct {
		name, result string
		call         func(*Client) (GoalRef, error)
		want         GoalRef
		path, body   string
	}{
		{"create", ref, func(c *Client) (GoalRef, error) { return c.CreateGoal(t.Context(), "s", "do it", 0) }, next,
			"goal.create", `{"sessionId":"s","objective":"do it"}`},
		{"edit", ref, func(c *Client) (GoalRef, error) { return c.EditGoal(t.Context(), "s", at, "", 5) }, next,
			"goal.edit", `{"sessionId":"s","ref":{"id":"goal-1","revision":2},"maxGoalRounds":5}`},
		{"pause", ref, func(c *Client) (GoalRef, error) { return c.MoveGoal(t.Context(), "s", at, PauseGoal) }, next,
			"goal.pause", `{"sessionId":"s","ref":{"id":"goal-1","revision":2}}`},
		{"clear", `{"ok":true,"value":{"cleared":true}}`, func(c *Client) (GoalRef, error) { return c.MoveGoal(t.Context(), "s", at, ClearGoal) }, GoalRef{},
			"goal.clear", `{"sessionId":"s","ref":{"id":"goal-1","revision":2}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked string
			c := clientOf(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				req := readRequest(t, r)
				asked = string(req.Payload)
				if req.Method != tt.path {
					t.Errorf("called %s, want %s", req.Method, tt.path)
				}
				writeResult(t, w, req.RPCID, json.RawMessage(tt.result))
			})
			got, err := tt.call(c)
			if err != nil || got != tt.want || asked != tt.body {
				t.Errorf("%+v %v, sent %s", got, err, asked)
			}
		})
	}
}

func TestGoalCode(t *testing.T) {
	c := clientOf(t, Options{}, answering(t, `{"ok":false,"error":{"code":"internal","message":"stale","details":{"goalCode":"GOAL_STALE_REVISION"}}}`))
	_, err := c.MoveGoal(t.Context(), "s", GoalRef{"goal-1", 1}, ClearGoal)
	if GoalCode(err) != GoalStaleRevision || GoalCode(nil) != "" || GoalCode(&Error{Kind: NotSent}) != "" {
		t.Errorf("%v has code %q", err, GoalCode(err))
	}
}

func TestForksAndSubagentPrompts(t *testing.T) {
	fork := clientOf(t, Options{}, answering(t, `{"ok":true,"value":{"sessionId":"fork-1"}}`))
	if id, err := fork.Fork(t.Context(), "s", 20); err != nil || id != "fork-1" {
		t.Error(id, err)
	}
	prompt := clientOf(t, Options{}, answering(t, `{"ok":true,"value":{"messageId":"m"}}`))
	if err := prompt.PromptSubagent(t.Context(), SubagentPrompt{RPCID: "r-1", ParentSessionID: "s", SessionID: "c", Text: "x"}); err != nil {
		t.Error(err)
	}
	if err := prompt.PromptSubagent(t.Context(), SubagentPrompt{ParentSessionID: "s", SessionID: "c"}); KindOf(err) != NotSent {
		t.Errorf("a prompt without an id: %v", err)
	}
	interrupt := clientOf(t, Options{}, answering(t, `{"ok":true,"value":{"accepted":true}}`))
	if err := interrupt.InterruptSubagent(t.Context(), "s", "c"); err != nil {
		t.Error(err)
	}
}
