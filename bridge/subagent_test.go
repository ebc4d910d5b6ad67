package bridge

import (
	"encoding/json"
	"strings"
	"testing"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

// withChild is a task with a subagent that is done.
func (r *rig) withChild() (task seen, child string) {
	r.t.Helper()
	// The child is done only when its parent's turn is: before, that turn would hear of it, and there would be no second.
	r.host.HoldWork(1)
	prompt := "Help. " + dshtest.Script(labmodel.Step{Say: "Here is help.", DelayMs: 1})
	arguments, err := json.Marshal(map[string]string{"description": "Help", "prompt": prompt})
	if err != nil {
		r.t.Fatal(err)
	}
	task = r.delegate("Delegate. " + dshtest.Script(labmodel.Step{Tool: "subagent", Args: arguments}, labmodel.Step{Say: "I have help."}))
	r.event(task.SessionID, "turn/end", 1)
	r.host.ReleaseWork()
	r.event(task.SessionID, "turn/end", 2)
	for _, s := range r.host.Sessions() {
		if s.ParentID == task.SessionID {
			child = s.ID
		}
	}
	return task, child
}

func TestSubagentArguments(t *testing.T) {
	r := newRig(t)
	task := r.delegate("Work.")
	for _, c := range []struct {
		field string
		call  args
	}{
		{"subagentSessionId", args{"action": "interrupt"}},
		{"subagentSessionId", args{"action": "interrupt", "subagentSessionId": "../x"}},
		{"action", args{"subagentSessionId": "x"}},
		{"action", args{"subagentSessionId": "x", "action": "stop"}},
		{"prompt", args{"subagentSessionId": "x", "action": "prompt"}},
		{"prompt", args{"subagentSessionId": "x", "action": "interrupt", "prompt": "x"}},
		{"sinceCursor", args{"subagentSessionId": "x", "action": "interrupt", "sinceCursor": -1}},
		{"requestId", args{"subagentSessionId": "x", "action": "interrupt", "requestId": " r"}},
	} {
		c.call["taskId"] = task.TaskID
		if failed := r.fails(CodeInvalidArgument, "dsh_subagent", c.call); !strings.Contains(failed.Message, c.field) {
			t.Errorf("%v: the failure does not name %s: %s", c.call, c.field, failed.Message)
		}
	}
	r.fails(CodeSubagentNotFound, "dsh_subagent", args{"taskId": task.TaskID, "subagentSessionId": "x", "action": "interrupt"})
}

// A message of which the answer was lost is looked for in the subagent's history, and never sent twice.
func TestSubagentAnswerLost(t *testing.T) {
	r := newRig(t)
	task, child := r.withChild()
	call := args{"taskId": task.TaskID, "subagentSessionId": child, "action": "prompt", "prompt": "More.", "requestId": "more"}
	r.host.BreakAfter("subagent.prompt")
	if failed := r.fails(CodeHostUnreachable, "dsh_subagent", call); failed.Details["outcome"] != "unknown" {
		t.Errorf("the failure says %v", failed.Details)
	}
	var again seen
	r.call("dsh_subagent", call, &again)
	if !again.Accepted || !again.Repeated || r.host.Calls("subagent.prompt") != 1 {
		t.Errorf("the repetition answers %+v after %d calls", again, r.host.Calls("subagent.prompt"))
	}
	// One that did not arrive is not sent again by itself.
	call["requestId"] = "never"
	r.host.FailNext("subagent.prompt", 500, 1)
	for range 2 {
		if failed := r.fails(CodeHostUnreachable, "dsh_subagent", call); failed.Details["outcome"] != "unknown" {
			t.Errorf("the failure says %v", failed.Details)
		}
	}
	if r.host.Calls("subagent.prompt") != 2 {
		t.Errorf("%d messages were sent", r.host.Calls("subagent.prompt"))
	}
}

func TestSubagentAnswers(t *testing.T) {
	r := newRig(t)
	task, child := r.withChild()
	id := args{"taskId": task.TaskID}
	r.call("dsh_wait", id, nil)
	golden(t, "answers/subagent_interrupt.json", r.stable(r.call("dsh_subagent", args{"taskId": task.TaskID, "subagentSessionId": child, "action": "interrupt"}, nil)))
	golden(t, "answers/subagent_prompt.json", r.stable(r.call("dsh_subagent", args{"taskId": task.TaskID, "subagentSessionId": child, "action": "prompt", "prompt": "More."}, nil)))
	r.event(task.SessionID, "turn/end", 3)
	var status struct{ Subagents []subagentView }
	r.call("dsh_status", id, &status)
	if len(status.Subagents) != 1 || status.Subagents[0].Label != "Help" || status.Subagents[0].LastMessageSeq == nil || status.Subagents[0].Mode != "continuable" {
		t.Errorf("the subagents are %+v", status.Subagents)
	}
}
