package dshtest

import (
	"encoding/json"
	"strings"
	"testing"

	"dsh-agentlink/internal/labmodel"
)

func ptr(s string) *string { return &s }

// Which answers fit a question. All of these were tried on a real host.
func TestAccepts(t *testing.T) {
	single := question{ID: "q", Options: []questionOption{{Label: "red"}, {Label: "blue"}}}
	multi := question{ID: "q", Options: single.Options, Multi: true}
	free := question{ID: "q"}
	tests := []struct {
		name string
		q    question
		a    answered
		want bool
	}{
		{"one label", single, answered{ID: "q", Selected: []string{"red"}}, true},
		{"no label", single, answered{ID: "q", Selected: []string{}}, true},
		{"words instead", single, answered{ID: "q", Selected: []string{}, Custom: ptr("green")}, true},
		{"two labels", single, answered{ID: "q", Selected: []string{"red", "blue"}}, false},
		{"a label and words", single, answered{ID: "q", Selected: []string{"red"}, Custom: ptr("x")}, false},
		{"another label", single, answered{ID: "q", Selected: []string{"green"}}, false},
		{"empty words", single, answered{ID: "q", Selected: []string{"red"}, Custom: ptr("")}, false},
		{"another id", single, answered{ID: "p", Selected: []string{"red"}}, false},
		{"nothing selected at all", free, answered{ID: "q", Custom: ptr("x")}, false},
		{"two of many", multi, answered{ID: "q", Selected: []string{"red", "blue"}}, true},
		{"two and words", multi, answered{ID: "q", Selected: []string{"red", "blue"}, Custom: ptr("x")}, true},
		{"none of many", multi, answered{ID: "q", Selected: []string{}}, true},
		{"one twice", multi, answered{ID: "q", Selected: []string{"red", "red"}}, false},
		{"one that is not offered", multi, answered{ID: "q", Selected: []string{"red", "x"}}, false},
		{"free words", free, answered{ID: "q", Selected: []string{}, Custom: ptr("x")}, true},
		{"no free words", free, answered{ID: "q", Selected: []string{}}, true},
		{"blank free words", free, answered{ID: "q", Selected: []string{}, Custom: ptr("  ")}, false},
		{"a label where none is offered", free, answered{ID: "q", Selected: []string{"x"}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.q.accepts(tt.a); got != tt.want {
				t.Errorf("accepts = %v", got)
			}
		})
	}
}

const (
	accept     = `{"accepted":true}`
	notPending = `{"accepted":false,"reason":"not-pending"}`
	bad        = `{"accepted":false,"reason":"bad-response"}`
)

// An answer that does not fit leaves the request pending; the first that fits ends it.
func TestReceipts(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	tell(t, h, id, "queue", Script(askStep("q"), labmodel.Step{Tool: "bash", Args: []byte(
		`{"command":"echo ran","description":"d","sandbox_permissions":"danger-full-access","justification":"j"}`)}))
	question := pendingOf(t, h)
	dismissal := object{"ok": false, "error": object{"code": "cancelled", "message": "no", "details": object{}}}
	value := func(v object) object { return object{"ok": true, "value": v} }
	words := object{"answers": []object{{"id": "q", "selected": []string{}, "custom": "w"}}}
	for _, tt := range []struct {
		name   string
		rpcID  string
		result any
		want   string
	}{
		{"an unknown request", "unknown", value(object{}), notPending},
		{"no result", question.RPCID, nil, bad},
		{"another session", question.RPCID, value(object{"sessionId": "other", "answer": words}), bad},
		{"no answers", question.RPCID, value(object{"sessionId": id, "answer": object{"answers": []object{}}}), bad},
		{"an approval's answer", question.RPCID, value(object{"sessionId": id, "approvalId": "a", "outcome": "rejected"}), bad},
		{"another error", question.RPCID, object{"ok": false, "error": object{"code": "other", "message": "", "details": object{}}}, bad},
		{"half an error", question.RPCID, object{"ok": false, "error": object{"code": "cancelled"}}, bad},
		{"an answer", question.RPCID, value(object{"sessionId": id, "answer": words}), accept},
		{"the answer again", question.RPCID, value(object{"sessionId": id, "answer": words}), notPending},
	} {
		if got := answer(t, h, tt.rpcID, tt.result); got != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
	approval := pendingOf(t, h)
	decide := func(id, approval, outcome string) object {
		return value(object{"sessionId": id, "approvalId": approval, "outcome": outcome})
	}
	for _, tt := range []struct {
		name   string
		result any
		want   string
	}{
		{"a dismissal", dismissal, bad},
		{"another outcome", decide(id, approval.ApprovalID, "allowed-always"), bad},
		{"another approval", decide(id, "other", "allowed-once"), bad},
		{"a decision", decide(id, approval.ApprovalID, "allowed-once"), accept},
	} {
		if got := answer(t, h, approval.RPCID, tt.result); got != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
	result, err := h.WaitEvent(within(t), id, eventToolResult, 2)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(result.Data), `ran\n`) {
		t.Errorf("the command answered %s", result.Data)
	}
}

// pendingOf waits for the one request that is pending.
func pendingOf(t *testing.T, h *Host) PendingRequest {
	t.Helper()
	all, err := h.WaitPending(within(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func FuzzRespond(f *testing.F) {
	f.Add(`{"type":"client-response","rpcId":"r","result":{"ok":true,"value":{"sessionId":"s","answer":{"answers":[{"id":"q","selected":["a"]}]}}}}`)
	f.Add(`{"type":"client-response","rpcId":"r","result":{"ok":true,"value":{"sessionId":"s","approvalId":"a","outcome":"rejected"}}}`)
	f.Fuzz(func(t *testing.T, body string) {
		var r clientResponse
		if json.Unmarshal([]byte(body), &r) != nil || !r.wellFormed() {
			return
		}
		s := &session{id: "s"}
		for _, p := range []*pending{
			{session: s, questions: []question{{ID: "q", Options: []questionOption{{Label: "a"}}}}},
			{session: s, approval: "a"},
		} {
			got, outcome, ok := p.judge(r)
			if ok && outcome == "" || ok && p.approval != "" && got.outcome != "rejected" && got.outcome != "allowed-once" {
				t.Fatalf("%s passes as %q", body, outcome)
			}
		}
	})
}
