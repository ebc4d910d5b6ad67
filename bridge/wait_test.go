package bridge

import (
	"testing"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// What wakes a caller, and what it has seen already.
func TestWakes(t *testing.T) {
	running := mux.Snapshot{Availability: mux.Connected, Execution: ledger.Running, Turn: ledger.Turn{Number: 1}, Cursor: 10}
	ended := mux.Snapshot{Availability: mux.Connected, Execution: ledger.TurnCompleted, Turn: ledger.Turn{Number: 1, Ended: true, EndCursor: 10}, Cursor: 12}
	withJob := ended
	withJob.Jobs = []dsh.Job{{ID: "bash-1", Status: "running"}}
	now := time.UnixMilli(1_000_000)
	doneJob := ended
	doneJob.Jobs = []dsh.Job{{ID: "bash-1", Status: "completed", FinishedAt: 5}}
	justDone := ended
	justDone.Jobs = []dsh.Job{{ID: "bash-1", Status: "completed", FinishedAt: now.UnixMilli() - 10}}
	justReported := ended
	justReported.Subagents = []mux.Subagent{{SessionID: "c", Turn: ledger.Turn{Number: 1, Ended: true, EndedAt: now.UnixMilli() - 10}}}
	withChild := ended
	withChild.Subagents = []mux.Subagent{{SessionID: "c", Turn: ledger.Turn{Number: 1}}}
	asking := running
	asking.Execution = ledger.AwaitingInput
	asking.Requests = []mux.Request{{ID: "q", Cursor: 9}}
	away := running
	away.Availability = mux.HostUnreachable
	gone := running
	gone.Availability = mux.SessionNotFound

	for _, c := range []struct {
		name        string
		first, snap mux.Snapshot
		since       int64
		seen        bool
		until       string
		want        string
	}{
		{"nothing new", running, running, 10, true, untilChange, ""},
		{"a record behind the cursor", running, running, 9, true, untilChange, reasonProgress},
		{"mere progress does not need attention", running, running, 9, true, untilAttention, ""},
		{"the execution changed", ended, running, 10, true, untilChange, reasonProgress},
		{"the turn ended", running, ended, 9, true, untilAttention, reasonTerminal},
		{"an end that was seen, and nothing more will come", ended, ended, 12, true, untilChange, reasonTerminal},
		{"an end that was seen, and a job goes on", withJob, withJob, 12, true, untilChange, ""},
		{"an end that was seen, and a job is done", doneJob, doneJob, 12, true, untilChange, reasonTerminal},
		{"an end that was seen, and a job is done just now", justDone, justDone, 12, true, untilAttention, ""},
		{"an end that was seen, and a subagent is done just now", justReported, justReported, 12, true, untilAttention, ""},
		{"an end that was seen, and a subagent goes on", withChild, withChild, 12, true, untilAttention, ""},
		{"an end that was not seen, though a job goes on", withJob, withJob, 9, true, untilAttention, reasonTerminal},
		{"a caller without a cursor has seen nothing", withJob, withJob, 12, false, untilAttention, reasonTerminal},
		{"a question", running, asking, 8, true, untilAttention, reasonAttention},
		{"a question that was seen", asking, asking, 10, true, untilAttention, ""},
		{"a question for a caller without a cursor", asking, asking, 10, false, untilAttention, reasonAttention},
		{"the host is away", away, away, 10, true, untilAttention, reasonAvailability},
		{"the host went away", running, away, 10, true, untilChange, reasonAvailability},
		{"the host is back", away, running, 10, true, untilAttention, reasonAvailability},
		{"the session is not there", gone, gone, 10, true, untilChange, reasonAvailability},
	} {
		if got := wakes(c.first, c.snap, c.since, c.seen, c.until, now); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Who waits for any change is told of an event that decides nothing when it comes, although the bridge takes its time to
// record it for others.
func TestProgressIsToldAtOnce(t *testing.T) {
	r := newRig(t)
	r.b.Close()
	r.b = r.openWith(24 * time.Hour)
	var task, before, told seen
	r.call("dsh_delegate", args{"prompt": dshtest.Script(labmodel.Step{HangMs: 600_000}), "cwd": r.workspace("project")}, &task)
	r.event(task.SessionID, "turn/start", 1)
	r.event(task.SessionID, "session/title", 2) // the last that comes by itself
	r.call("dsh_status", args{"taskId": task.TaskID}, &before)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		r.call("dsh_wait", args{"taskId": task.TaskID, "sinceCursor": before.Cursor, "timeoutSec": 30, "until": untilChange}, &told)
	}()
	if _, err := r.host.EmitEvent(task.SessionID, "tool/call", args{"turn": 1, "step": 1}); err != nil {
		t.Fatal(err)
	}
	if <-answered; told.Reason != reasonProgress || told.NextCursor != before.Cursor+1 {
		t.Errorf("the wait answers %+v", told)
	}
}

func TestRevisionFollowsDecisionsNotProgress(t *testing.T) {
	base := mux.Snapshot{Execution: ledger.Running, Turn: ledger.Turn{Number: 1}, Cursor: 10, Queue: &mux.Queue{}}
	progress := base
	progress.Cursor = 50
	if revision(base) != revision(progress) {
		t.Error("mere progress changed the revision")
	}
	for name, change := range map[string]func(*mux.Snapshot){
		"execution": func(s *mux.Snapshot) { s.Execution = ledger.TurnCompleted },
		"turn":      func(s *mux.Snapshot) { s.Turn.Number = 2 },
		"request":   func(s *mux.Snapshot) { s.Requests = []mux.Request{{ID: "q"}} },
		"queue":     func(s *mux.Snapshot) { s.Queue = &mux.Queue{Items: []dsh.QueueItem{{ID: "m", Placement: "queued"}}} },
	} {
		changed := base
		change(&changed)
		if revision(base) == revision(changed) {
			t.Errorf("a change of the %s left the revision as it was", name)
		}
	}
}
