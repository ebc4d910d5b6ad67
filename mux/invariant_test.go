package mux

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/ledger"
)

// What the steps of the scripts below do.
var (
	shell = tool("bash", map[string]any{"command": "echo hi", "description": "Say hi"})
	asks  = tool("ask_user_question", map[string]any{"questions": []any{map[string]any{
		"id": "q", "question": "Which?", "options": []any{map[string]any{"label": "a"}, map[string]any{"label": "b"}}}}})
	risky = tool("bash", map[string]any{"command": "rm it", "description": "Remove", "sandbox_permissions": "danger-full-access", "justification": "because"})
	ends  = labmodel.Step{Say: "that is all there is to say"}
)

func tool(name string, args map[string]any) labmodel.Step {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return labmodel.Step{Tool: name, Args: raw}
}

// delegates starts a subagent that follows a script of its own.
func delegates(background bool, steps ...labmodel.Step) labmodel.Step {
	return tool("subagent", map[string]any{"description": "helper", "prompt": dshtest.Script(steps...), "run_in_background": background})
}

func slowly(words int, pause time.Duration) labmodel.Step {
	return labmodel.Step{Say: "word ", Repeat: words, DelayMs: int(pause.Milliseconds())}
}

func hangs() labmodel.Step { return labmodel.Step{HangMs: 600_000} }

// prompt hands the task a script.
func prompt(tb testing.TB, t *Task, steps ...labmodel.Step) {
	tb.Helper()
	if err := t.Prompt(within(tb), promptOf(t, dsh.ModeQueue, steps...), ""); err != nil {
		tb.Fatalf("prompt: %v", err)
	}
}

func promptOf(t *Task, mode dsh.Mode, steps ...labmodel.Step) dsh.PromptRequest {
	return dsh.PromptRequest{RPCID: uuid.NewString(), SessionID: t.Root, Mode: mode, Text: dshtest.Script(steps...)}
}

// rest waits until nothing runs below a session.
func (r *rig) rest(root string) {
	r.tb.Helper()
	ctx := within(r.tb)
	for again := true; again; {
		again = false
		for _, l := range r.logs(root) {
			if err := r.host.WaitIdle(ctx, l.session); err != nil {
				r.tb.Fatal(err)
			}
		}
		// What ended last may have started another turn.
		for _, s := range r.host.Sessions() {
			again = again || s.Running
		}
	}
}

// check waits for the host to rest, and compares the tasks' ledgers with its logs.
func (r *rig) check(tasks ...*Task) {
	r.tb.Helper()
	for _, t := range tasks {
		r.rest(t.Root)
		for deadline := within(r.tb); ; {
			_, _, err := t.Fresh(deadline)
			if err == nil {
				break
			}
			if deadline.Err() != nil {
				r.tb.Fatalf("%s never came up to date: %v\n%s", t.ID, err, r.log.String())
			}
		}
		checkLedger(r.tb, t, r.logs(t.Root))
	}
	if r.tb.Failed() {
		r.tb.Logf("log:\n%s", r.log.String())
	}
}

// answer answers everything the host asks until the test ends, sometimes in the negative.
func (r *rig) answer() {
	client := r.client()
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	r.tb.Cleanup(func() { cancel(); wait.Wait() })
	wait.Go(func() {
		for n := 0; ; n++ {
			pending, err := r.host.WaitPending(ctx, 1)
			if err != nil {
				return
			}
			for _, p := range pending {
				a := dsh.Answer{RPCID: p.RPCID, SessionID: p.SessionID}
				if p.ApprovalID != "" {
					a.Approval = &dsh.ApprovalAnswer{ApprovalID: p.ApprovalID, Allow: n%2 == 0}
				}
				for _, q := range p.Questions {
					a.Questions = append(a.Questions, dsh.QuestionAnswer{ID: q, Selected: []string{"a"}})
				}
				_, _ = client.Respond(ctx, a) // the host may be away just now, and asks again
			}
		}
	})
}

func TestLedgerIsTheHistory(t *testing.T) {
	for name, steps := range map[string][]labmodel.Step{
		"words":                 {ends},
		"tools":                 {shell, shell, shell, ends},
		"a failing command":     {tool("bash", map[string]any{"command": "exit 3", "description": "Fail"}), ends},
		"a failing model":       {shell, {Status: 400}},
		"a question":            {asks, ends},
		"an approval":           {risky, ends},
		"a one-shot subagent":   {delegates(false, shell, ends), ends},
		"continuable subagents": {delegates(true, shell, ends), delegates(true, ends), shell, ends},
		"a subagent's subagent": {delegates(true, delegates(false, shell, ends), ends), ends},
		"a subagent that asks":  {delegates(true, asks, ends), ends},
		"a background job":      {tool("bash", map[string]any{"command": "sleep 0.01", "description": "Job", "run_in_background": true}), ends},
		"a frame above 64 KiB":  {labmodel.Step{Say: strings.Repeat("long", 20_000)}},
		"a hundred tool calls":  manySteps(100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, dshtest.Options{HeaderBytes: 50_000, StatsFrames: true})
			r.answer()
			task := r.start().Track(taskID, r.session())
			prompt(t, task, steps...)
			if name == "a background job" { // which goes on behind the turn, and starts another
				await(t, task, "the end of the job", func(s Snapshot) bool { return len(s.Jobs) == 1 && s.Jobs[0].FinishedAt != 0 })
			}
			r.check(task)
			// One reading when a session comes up, and one or two when the list overtakes the stream.
			if n, most := r.readings(), 3*len(r.logs(task.Root)); n > most {
				t.Errorf("histories were read %d times, at most %d are needed", n, most)
			}
		})
	}
}

// readings counts the readings of histories, each of one page or more.
func (r *rig) readings() (n int) {
	for _, request := range r.host.Requests() {
		if strings.HasSuffix(request.Method, ".history") && !gjson.GetBytes(request.Body, "payload.beforeSeq").Exists() {
			n++
		}
	}
	return n
}

func manySteps(n int) []labmodel.Step {
	steps := make([]labmodel.Step, n)
	for i := range steps {
		steps[i] = shell
	}
	return append(steps, ends)
}

// A frame of any kind that gets lost is found out, at the latest when somebody asks.
func TestLostFrames(t *testing.T) {
	steps := []labmodel.Step{shell, delegates(true, shell, ends), asks, risky, slowly(20, 0)}
	for i, lost := range []struct{ kind, event string }{
		{"session/subscribed", ""},
		{"session/event", "turn/start"},
		{"session/event", "turn/end"},
		{"session/event", "step/start"},
		{"session/event", "user/message"},
		{"session/event", "assistant/chunk"},
		{"session/event", "assistant/message"},
		{"session/event", "tool/call"},
		{"session/event", "tool/result"},
		{"session/event", "agent/inbox/spliced"},
		{"session/event", "approval/asked"},
		{"session/event", "approval/decided"},
		{"session/event", "session/title"},
		{"session/event", "subagent/descriptor"},
		{"question/requested", ""},
		{"question/resolved", ""},
		{"approval/requested", ""},
		{"approval/resolved", ""},
		{"session/queue", ""},
		{"session/jobs", ""},
		{"session/projection", ""},
	} {
		t.Run(lost.kind+" "+lost.event, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, dshtest.Options{})
			r.answer()
			task := r.start().Track(taskID, r.session())
			seen := 0
			r.host.LoseNextFrame(func(kind, event string) bool {
				if kind != lost.kind || event != lost.event {
					return false
				}
				seen++
				return seen > i%2 // the first or the second
			})
			prompt(t, task, steps...)
			r.check(task)
		})
	}
}

// A call that fails, hangs or takes its time delays the ledger and does not harm it.
func TestCallsThatFail(t *testing.T) {
	faults := map[string]func(h *dshtest.Host, method string){
		"500":   func(h *dshtest.Host, method string) { h.FailNext(method, http.StatusInternalServerError, 2) },
		"404":   func(h *dshtest.Host, method string) { h.FailNext(method, http.StatusNotFound, 1) },
		"hangs": func(h *dshtest.Host, method string) { h.HangNext(method, 1) },
		"cut":   func(h *dshtest.Host, method string) { h.BreakAfter(method) },
		"slow":  func(h *dshtest.Host, method string) { h.DelayMethod(method, 100*time.Millisecond) },
	}
	for name, fault := range faults {
		for _, method := range []string{"session.list", "session.history", "subagent.list", "subagent.history"} {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, dshtest.Options{})
				root := r.session()
				fault(r.host, method)
				m := r.open()
				m.Start()
				task := m.Track(taskID, root)
				prompt(t, task, shell, delegates(true, shell, ends), shell, ends)
				r.rest(root)
				r.host.Release()
				fault(r.host, method)
				r.host.DropConnections()
				prompt(t, task, shell, ends)
				r.rest(root)
				r.host.Release()
				r.check(task)
			})
		}
	}
}

// The host dies inside a turn: what it had written is read, together with the end that it writes when it reads its log
// again.
func TestHostRestartsInsideATurn(t *testing.T) {
	for name, steps := range map[string][]labmodel.Step{
		"thinking":                {shell, hangs()},
		"running a command":       {shell, tool("bash", map[string]any{"command": "sleep 600", "description": "Wait"})},
		"streaming":               {shell, slowly(100_000, time.Millisecond)},
		"asking":                  {asks},
		"waiting for an approval": {risky},
		"with a subagent":         {delegates(true, hangs()), hangs()},
		"waiting for a subagent":  {delegates(false, shell, hangs())},
		"over, a subagent runs":   {delegates(true, hangs()), ends},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, dshtest.Options{})
			m := r.start()
			task := m.Track(taskID, r.session())
			prompt(t, task, steps...)
			busy := len(steps)
			if _, err := r.host.WaitEvent(within(t), task.Root, "step/start", busy); err != nil {
				t.Fatal(err)
			}
			await(t, task, "the turn to be followed", func(s Snapshot) bool { return s.Turn.Number == 1 })
			if err := r.host.Restart(); err != nil {
				t.Fatal(err)
			}
			r.check(task)
			snap := look(t, task)
			if name != "over, a subagent runs" && snap.Execution != ledger.Interrupted {
				t.Errorf("the execution is %s", snap.Execution)
			}
			for _, s := range snap.Subagents {
				if s.Turn.Open() {
					t.Errorf("the turn of subagent %s is still open", s.SessionID)
				}
			}
			prompt(t, task, shell, ends)
			r.check(task)
			if snap := look(t, task); snap.Execution != ledger.TurnCompleted || snap.Turn.Number != 2 {
				t.Errorf("after another prompt the execution is %s in turn %d", snap.Execution, snap.Turn.Number)
			}
		})
	}
}

// Processes that share a home and see everything at the same time record everything once.
func TestProcessesShareALedger(t *testing.T) {
	r := newRig(t, dshtest.Options{})
	r.answer()
	root := r.session()
	var tasks []*Task
	for range 3 {
		tasks = append(tasks, r.start().Track(taskID, root))
	}
	prompt(t, tasks[0], shell, asks, risky, delegates(true, shell, shell, ends), shell, ends)
	r.check(tasks...)
	opened := map[string]int{}
	for _, rec := range records(t, tasks[0]) {
		switch rec.Type {
		case ledger.TypeQuestionRequested, ledger.TypeQuestionResolved, ledger.TypeApprovalRequested, ledger.TypeApprovalResolved:
			opened[string(rec.Type)]++
		case ledger.TypeWithdrawn, ledger.TypeReplayed, ledger.TypeGap, ledger.TypeTurnInterrupted:
			t.Errorf("there is a %s", rec.Type)
		}
	}
	// A process that has read the history ahead of the stream leaves out what was asked in a turn that is over by then,
	// so on a busy machine there can be less than one of each.
	for kind, n := range opened {
		if n > 1 {
			t.Errorf("there are %d %s", n, kind)
		}
	}
}

// A process that was started after the others, or whose task was not known to it when the burst came, sees the same.
func TestTaskOfAnotherProcess(t *testing.T) {
	r := newRig(t, dshtest.Options{})
	late := r.start() // knows the host, and nothing of the task
	root := r.session()
	task := r.start().Track(taskID, root)
	prompt(t, task, delegates(true, asks, ends), asks, ends)
	pending, err := r.host.WaitPending(within(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	await(t, task, "both questions", func(s Snapshot) bool { return len(s.Requests) == 2 })
	other := late.Track(taskID, root)
	current(t, other)
	await(t, other, "both questions whole", func(s Snapshot) bool {
		known := 0
		for _, req := range s.Requests {
			if len(req.Questions) == 1 && req.Questions[0].Question == "Which?" {
				known++
			}
		}
		return known == 2
	})
	if n := count(t, task, ledger.TypeWithdrawn); n != 0 {
		t.Errorf("%d requests were withdrawn that are pending", n)
	}
	client := r.client()
	for _, p := range pending {
		if _, err := client.Respond(within(t), dsh.Answer{RPCID: p.RPCID, SessionID: p.SessionID, Questions: []dsh.QuestionAnswer{{ID: "q", Selected: []string{"b"}}}}); err != nil {
			t.Fatal(err)
		}
	}
	r.check(task, other)
}
