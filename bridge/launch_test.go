package bridge

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/tasks"
)

// A launch can break off at any of its steps. Whatever it leaves, dsh_status explains it, and the same call with the
// same requestId completes it without a second session or a second prompt.
func TestLaunchBreaksOff(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(*dshtest.Host)
		stage tasks.Stage
		sent  tasks.Sent
		// settled is set when the history tells that all is well, so that there is nothing to explain.
		settled bool
		// open is set when the repeated call cannot tell either.
		open bool
	}{
		{"the session is made and the answer lost", func(h *dshtest.Host) { h.BreakAfter("session.create") }, tasks.Claimed, tasks.SentNo, false, false},
		{"the session is not made and nobody says so", func(h *dshtest.Host) { h.FailNext("session.create", 500, 1) }, tasks.Claimed, tasks.SentNo, false, false},
		{"the model cannot be read", func(h *dshtest.Host) { h.FailNext("session.models", 500, 1) }, tasks.Created, tasks.SentNo, false, false},
		{"the prompt is taken and the answer lost", func(h *dshtest.Host) { h.BreakAfter("session.prompt") }, tasks.Prompted, tasks.SentUnknown, true, false},
		{"the prompt is not taken and nobody says so", func(h *dshtest.Host) { h.FailNext("session.prompt", 500, 1) }, tasks.Prompted, tasks.SentUnknown, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			call := args{"prompt": "Work.", "cwd": r.workspace("project"), "requestId": "launch-1"}
			r.call("dsh_host_status", args{}, nil)
			c.fault(r.host)
			failed := r.fails(CodeDelegationIncomplete, "dsh_delegate", call)
			taskID, _ := failed.Details["taskId"].(string)
			if failed.Details["stage"] != c.stage || failed.Details["promptSent"] != c.sent {
				t.Errorf("the failure says %v", failed.Details)
			}
			var status seen
			r.call("dsh_status", args{"taskId": taskID}, &status)
			if (status.Delegation == nil) != c.settled {
				t.Errorf("dsh_status explains %+v", status.Delegation)
			}
			if status.Delegation != nil && (status.Delegation.Stage != c.stage || status.Delegation.Next == "") {
				t.Errorf("dsh_status explains %+v", status.Delegation)
			}
			if c.open {
				r.fails(CodeDelegationIncomplete, "dsh_delegate", call)
				// The caller has looked: the prompt is not there. What it sends now completes the launch.
				r.call("dsh_followup", args{"taskId": taskID, "prompt": "Work."}, nil)
				r.call("dsh_status", args{"taskId": taskID}, &status)
			} else {
				var again seen
				r.call("dsh_delegate", call, &again)
				if again.TaskID != taskID || !again.Accepted || !again.Repeated {
					t.Errorf("the repeated call made %+v", again)
				}
			}
			r.oneTaskOnce(taskID)
		})
	}
}

// oneTaskOnce checks that there is one session with one prompt in it.
func (r *rig) oneTaskOnce(taskID string) {
	r.t.Helper()
	sessions := r.host.Sessions()
	if len(sessions) != 1 {
		r.t.Fatalf("there are %d sessions", len(sessions))
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	if _, err := r.host.WaitEvent(ctx, sessions[0].ID, "turn/end", 1); err != nil {
		r.t.Fatal(err)
	}
	prompts := 0
	for _, ev := range r.host.Events(sessions[0].ID) {
		var body struct{ Source struct{ Kind string } }
		if ev.Type == "user/message" && json.Unmarshal(ev.Data, &body) == nil && body.Source.Kind == "user" {
			prompts++
		}
	}
	if prompts != 1 {
		r.t.Errorf("%d prompts arrived", prompts)
	}
	var list seen
	r.call("dsh_list", args{"state": "all"}, &list)
	if len(list.Tasks) != 1 || list.Tasks[0].TaskID != taskID {
		r.t.Errorf("the tasks are %+v", list.Tasks)
	}
}

// A process that died between two steps has left what was on disk then; another one takes it up.
func TestLaunchIsTakenUpByAnotherProcess(t *testing.T) {
	for _, c := range []struct {
		name  string
		stage tasks.Stage
		sent  tasks.Sent
		claim bool
	}{
		{"before the claim", tasks.Mapped, tasks.SentNo, false},
		{"between the claim and the note of it", tasks.Mapped, tasks.SentNo, true},
		{"before the session", tasks.Claimed, tasks.SentNo, true},
		{"before the prompt", tasks.Created, tasks.SentNo, true},
		{"between the note of the prompt and the prompt", tasks.Prompted, tasks.SentUnknown, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			call := args{"prompt": "Work.", "cwd": r.workspace("project"), "requestId": "launch-1"}
			r.call("dsh_delegate", call, nil) // as a pattern of what a launch leaves
			var list seen
			r.call("dsh_list", args{"state": "all"}, &list)
			r.b.Close()
			task, err := r.b.tasks.Load(list.Tasks[0].TaskID)
			if err != nil {
				t.Fatal(err)
			}
			r.rebuild(task, c.stage, c.sent, c.claim)
			r.b = r.open()
			var again seen
			r.call("dsh_delegate", call, &again)
			if again.TaskID == task.TaskID || !again.Accepted {
				t.Errorf("the call made %+v", again)
			}
			r.oneTaskOnce(again.TaskID)
		})
	}
}

// rebuild makes the home and the host what they would be had the process died at that stage, under ids of their own.
func (r *rig) rebuild(pattern tasks.Task, stage tasks.Stage, sent tasks.Sent, claim bool) {
	r.t.Helper()
	held, _, err := r.b.claims.Release(r.t.Context(), pattern.TaskID)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.b.tasks.Delete(pattern.TaskID); err != nil {
		r.t.Fatal(err)
	}
	r.host.Close()
	r.host = dshtest.New(dshtest.Options{})
	if err := r.host.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.host.Close)
	task := pattern
	task.TaskID, task.Stage, task.PromptSent = tasks.NewID(), stage, sent
	if err := r.b.tasks.Save(task); err != nil {
		r.t.Fatal(err)
	}
	if claim {
		if err := r.b.claims.Acquire(r.t.Context(), claims.Claim{TaskID: task.TaskID, SessionID: task.SessionID, Cwd: held.Cwd, Mode: held.Mode, CreatedAt: held.CreatedAt}); err != nil {
			r.t.Fatal(err)
		}
	}
	if stage.Reached(tasks.Created) {
		if _, err := r.host.AddSession(dshtest.SessionSpec{ID: task.SessionID, Cwd: held.Cwd}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Two processes with the same requestId make one task.
func TestRequestIDAcrossProcesses(t *testing.T) {
	r := newRig(t)
	other := &rig{t: t, host: r.host, dir: r.dir}
	other.b = other.open()
	call := args{"prompt": "Work.", "cwd": r.workspace("project"), "requestId": "launch-1"}
	ids := make(chan string, 8)
	for i := range 8 {
		side := []*rig{r, other}[i%2]
		go func() {
			text, failed := side.try(t.Context(), "dsh_delegate", call)
			var s seen
			if failed != nil || json.Unmarshal(text, &s) != nil {
				t.Errorf("%v", failed)
			}
			ids <- s.TaskID
		}()
	}
	first := <-ids
	for range 7 {
		if id := <-ids; id != first {
			t.Errorf("there are tasks %s and %s", first, id)
		}
	}
	r.oneTaskOnce(first)
	follow := args{"taskId": first, "prompt": "More.", "requestId": "more-1"}
	done := make(chan *Error, 8)
	for i := range 8 {
		side := []*rig{r, other}[i%2]
		go func() {
			_, failed := side.try(t.Context(), "dsh_followup", follow)
			done <- failed
		}()
	}
	for range 8 {
		if failed := <-done; failed != nil && failed.Details["outcome"] != "unknown" {
			t.Errorf("a follow-up failed: %v", failed)
		}
	}
	if n := r.host.Calls("session.prompt"); n != 2 {
		t.Errorf("%d prompts were sent", n)
	}
}
