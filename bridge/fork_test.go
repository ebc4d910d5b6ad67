package bridge

import (
	"path/filepath"
	"testing"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/tasks"
)

// forked is what the tests look at in an answer of dsh_fork.
type forked struct {
	seen
	ForkedFrom forkedFrom
}

// source is a finished task that holds no workspace any more.
func (r *rig) source() seen {
	r.t.Helper()
	task := r.delegate("Work.")
	r.call("dsh_release_workspace", args{"taskId": task.TaskID}, nil)
	return task
}

// A fork can break off, and the host alone knows its id. The same call finds the fork that was made and makes no second.
func TestForkBreaksOff(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(*dshtest.Host)
		stage tasks.Stage
		forks int // calls of session.fork in the end
	}{
		{"it is made and the answer lost", func(h *dshtest.Host) { h.BreakAfter("session.fork") }, tasks.Claimed, 1},
		{"it is not made and nobody says so", func(h *dshtest.Host) { h.FailNext("session.fork", 500, 1) }, tasks.Claimed, 2},
		{"the model cannot be read", func(h *dshtest.Host) { h.FailNext("session.models", 500, 1) }, tasks.Created, 1},
		{"the prompt is taken and the answer lost", func(h *dshtest.Host) { h.BreakAfter("session.prompt") }, tasks.Prompted, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			source := r.source()
			call := args{"taskId": source.TaskID, "prompt": "Go on.", "requestId": "fork-1"}
			c.fault(r.host)
			failed := r.fails(CodeDelegationIncomplete, "dsh_fork", call)
			taskID, _ := failed.Details["taskId"].(string)
			if _, told := failed.Details["sessionId"]; failed.Details["stage"] != c.stage || told != c.stage.Reached(tasks.Created) {
				t.Errorf("the failure says %v", failed.Details)
			}
			// The task explains itself, and another process completes it.
			var status seen
			r.call("dsh_status", args{"taskId": taskID}, &status)
			if c.stage == tasks.Claimed && (status.Delegation == nil || status.Delegation.Stage != c.stage || status.Recovery == "live" && status.Status != statusUnknown) {
				t.Errorf("dsh_status explains %+v of %+v", status.Delegation, status)
			}
			first := r.b
			r.b = r.open()
			var again forked
			r.call("dsh_fork", call, &again)
			if again.TaskID != taskID || !again.Accepted || !again.Repeated || r.host.Calls("session.fork") != c.forks {
				t.Errorf("the repeated call answers %+v after %d forks", again, r.host.Calls("session.fork"))
			}
			if len(r.host.Sessions()) != 2 || again.SessionID == source.SessionID {
				t.Errorf("there are %d sessions, and the fork is %s of %s", len(r.host.Sessions()), again.SessionID, source.SessionID)
			}
			// Also the process that knew it under no id knows it now.
			for _, b := range []*Bridge{first, r.b} {
				r.b = b
				var now seen
				r.call("dsh_wait", args{"taskId": taskID, "until": "attention"}, &now)
				r.call("dsh_status", args{"taskId": taskID}, &now)
				if now.SessionID != again.SessionID || now.Delegation != nil || now.Status != "turn_completed" || now.Workspace == nil {
					t.Errorf("the task is %+v", now)
				}
			}
		})
	}
}

// Which of several forks is the lost one, nobody can tell.
func TestForkAmongOthers(t *testing.T) {
	r := newRig(t)
	source := r.source()
	call := args{"taskId": source.TaskID, "requestId": "fork-1"}
	r.host.BreakAfter("session.fork")
	r.fails(CodeDelegationIncomplete, "dsh_fork", call)
	if _, err := r.b.host.Fork(t.Context(), source.SessionID, -1); err != nil {
		t.Fatal(err)
	}
	failed := r.fails(CodeDelegationIncomplete, "dsh_fork", call)
	if candidates, _ := failed.Details["candidates"].([]string); len(candidates) != 2 {
		t.Errorf("the failure says %v", failed.Details)
	}
}

// A fork that was not completed is let go of like any task.
func TestForkGivenUp(t *testing.T) {
	r := newRig(t)
	source := r.source()
	r.host.FailNext("session.fork", 500, 1)
	failed := r.fails(CodeDelegationIncomplete, "dsh_fork", args{"taskId": source.TaskID})
	taskID, _ := failed.Details["taskId"].(string)
	r.fails(CodeSessionNotFound, "dsh_followup", args{"taskId": taskID, "prompt": "x"})
	r.call("dsh_release_workspace", args{"taskId": taskID}, nil)
	r.call("dsh_fork", args{"taskId": source.TaskID}, nil)
}

func TestForkAnswer(t *testing.T) {
	r := newRig(t)
	cwd := r.workspace("project")
	var source seen
	r.call("dsh_delegate", args{"prompt": "Greet.", "cwd": cwd, "waitSeconds": 20}, &source)
	failed := r.fails(CodeWorkspaceConflict, "dsh_fork", args{"taskId": source.TaskID})
	if holder, ok := failed.Details["holder"].(heldClaim); !ok || holder.TaskID != source.TaskID || failed.Hint == "" {
		t.Errorf("the failure says %v: %s", failed.Details, failed.Hint)
	}
	r.call("dsh_release_workspace", args{"taskId": source.TaskID}, nil)
	golden(t, "answers/fork.json", r.stable(r.call("dsh_fork", args{"taskId": source.TaskID, "prompt": "Greet again.", "waitSeconds": 20}, nil)))
}

// An older turn is found in the history.
func TestForkTurn(t *testing.T) {
	r := newRig(t)
	task := r.delegate("One.")
	for range 3 {
		r.call("dsh_followup", args{"taskId": task.TaskID, "prompt": "Again.", "waitSeconds": 20}, nil)
	}
	r.call("dsh_release_workspace", args{"taskId": task.TaskID}, nil)
	for turn := 1; turn <= 4; turn++ {
		var f forked
		r.call("dsh_fork", args{"taskId": task.TaskID, "turn": turn}, &f)
		if f.ForkedFrom != (forkedFrom{TaskID: task.TaskID, Turn: turn}) {
			t.Errorf("the fork from turn %d is from %+v", turn, f.ForkedFrom)
		}
		r.call("dsh_release_workspace", args{"taskId": f.TaskID}, nil)
	}
	if failed := r.fails(CodeForkUnavailable, "dsh_fork", args{"taskId": task.TaskID, "turn": 5}); failed.Details["lastTurn"] != 4 {
		t.Errorf("the failure says %v", failed.Details)
	}
	if files, err := filepath.Glob(filepath.Join(r.dir, "bridge", "tasks", "*.json")); err != nil || len(files) != 5 {
		t.Errorf("there are %d tasks (%v)", len(files), err)
	}
}
