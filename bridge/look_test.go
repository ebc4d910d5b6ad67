package bridge

import (
	"encoding/json"
	"errors"
	"testing"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

func TestLookAnswersToolsThatRead(t *testing.T) {
	r := newRig(t)
	var task struct{ TaskID string }
	r.call("dsh_delegate", map[string]any{"prompt": dshtest.Script(labmodel.Step{Say: "done"}), "cwd": r.workspace("w"), "waitSeconds": 10}, &task)
	raw, err := r.b.Look(t.Context(), "dsh_status", map[string]string{"taskId": task.TaskID})
	if err != nil {
		t.Fatal(err)
	}
	var status struct{ Status string }
	if err := json.Unmarshal(raw, &status); err != nil || status.Status != "turn_completed" {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestLookRefusesEverythingElse(t *testing.T) {
	r := newRig(t)
	for name, want := range map[string]Code{
		"dsh_delegate": CodeInvalidArgument, "dsh_followup": CodeInvalidArgument, "dsh_cancel": CodeInvalidArgument,
		"dsh_answer_question": CodeInvalidArgument, "dsh_resolve_approval": CodeInvalidArgument, "dsh_release_workspace": CodeInvalidArgument,
		"nonesuch": CodeInvalidArgument, "dsh_status": CodeTaskNotFound,
	} {
		_, err := r.b.Look(t.Context(), name, map[string]string{"taskId": "dsh_0123456789ab"})
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestTailStartsBeforeTheLastEvents(t *testing.T) {
	r := newRig(t)
	var task struct{ TaskID string }
	r.call("dsh_delegate", map[string]any{"prompt": dshtest.Script(labmodel.Step{Say: "done"}), "cwd": r.workspace("w"), "waitSeconds": 10}, &task)
	type page struct{ Events []struct{ Cursor int64 } }
	var all page
	r.call("dsh_tail", map[string]any{"taskId": task.TaskID}, &all)
	total := len(all.Events)
	for n := 1; n <= total+2; n++ {
		start, err := r.b.TailStart(t.Context(), task.TaskID, n)
		if err != nil {
			t.Fatal(err)
		}
		var last page
		r.call("dsh_tail", map[string]any{"taskId": task.TaskID, "sinceCursor": start}, &last)
		if want := min(n, total); len(last.Events) != want || last.Events[0] != all.Events[total-want] {
			t.Errorf("the last %d are %v of %v", n, last.Events, all.Events)
		}
	}
}
