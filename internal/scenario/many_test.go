package scenario

import (
	"context"
	"fmt"
	"strings"
)

// manyScenarios are about several things at once: tasks, calls, processes.
var manyScenarios = []scenario{
	{name: "two tasks at once", run: twoTasks},
	{name: "one wait for several tasks", run: waitForSeveral},
	{name: "many open waits", run: manyWaits},
	{name: "a wait returns for what happened before it", run: waitMissesNothing},
	{name: "two processes on one home", run: twoProcesses},
	{name: "two processes want one workspace", run: oneWorkspace},
}

func twoTasks(e *env) {
	b := e.bridge()
	first, second := e.delegate(b, e.endless(), nil), e.delegate(b, e.endless(), nil)
	e.running(b, first)
	e.running(b, second)
	a := b.call("dsh_list", args{})
	a.want(args{"tasks.#": 2, "tasks.0.status": "running", "tasks.1.status": "running"})
	a = b.call("dsh_list", args{"limit": 1})
	a.want(args{"tasks.#": 1, "more": 1})

	cursor := b.followup(first, "steer", e.prompt(e.say("the first task")))
	b.ended(first, cursor).want(args{"taskId": first.id, "finalMessage.text": e.text("the first task")})
	b.status(second).want(args{"execution": "running", "finalMessage": nil})
	a = b.call("dsh_list", args{})
	a.want(args{"tasks.#": 1, "tasks.0.taskId": second.id})

	cursor = b.followup(second, "steer", e.prompt(e.say("the second task")))
	b.ended(second, cursor).want(args{"taskId": second.id, "finalMessage.text": e.text("the second task")})
	b.one(b.tail(second, 0), "assistant/message", args{"text": e.text("the second task")})
	if got := pick(b.tail(second, 0), "assistant/message", args{"text": e.text("the first task")}); len(got) > 0 {
		e.t.Errorf("the tail of one task shows the other: %s", got)
	}
}

// waitForSeveral is a supervisor that waits for three tasks with one call, and takes them as they come.
func waitForSeveral(e *env) {
	b := e.bridge()
	var ids []string
	cursors := map[string]int64{}
	tasks := map[string]task{}
	for range 3 {
		t := e.delegate(b, e.endless(), nil)
		e.running(b, t)
		ids, tasks[t.id], cursors[t.id] = append(ids, t.id), t, t.cursor
	}
	quiet := b.call("dsh_wait", args{"taskIds": ids, "sinceCursors": cursors, "until": "attention", "timeoutSec": 1})
	quiet.want(args{"timedOut": true, "reason": "timeout", "taskId": nil, "status": nil, "others.#": 3, "others.0.taskId": ids[0], "others.0.status": "running", "others.0.reason": nil})

	waits := b.begin(e.t.Context(), "dsh_wait", args{"taskIds": ids, "sinceCursors": cursors, "until": "attention", "timeoutSec": 30})
	b.followup(tasks[ids[1]], "steer", e.prompt(e.say("the second is done")))
	a := waits.answer()
	a.want(args{"taskId": ids[1], "reason": "terminal", "timedOut": false, "execution": "turn_completed", "finalMessage.text": e.text("the second is done"), "others.#": 2,
		"others.0.taskId": ids[0], "others.0.status": "running", "others.1.taskId": ids[2]})

	// Two that have something to tell: the first is told whole, the other by a line that says so.
	for _, id := range []string{ids[0], ids[2]} {
		cursors[id] = b.followup(tasks[id], "steer", e.prompt(e.say("done "+id)))
		b.ended(tasks[id], cursors[id])
	}
	a = b.call("dsh_wait", args{"taskIds": []string{ids[0], ids[2]}, "sinceCursors": args{ids[0]: cursors[ids[0]], ids[2]: cursors[ids[2]]}, "until": "attention"})
	a.want(args{"taskId": ids[0], "finalMessage.text": e.text("done " + ids[0]), "others.#": 1, "others.0.taskId": ids[2], "others.0.status": "turn_completed", "others.0.reason": "terminal"})

	for field, arguments := range map[string]args{
		"taskIds: taskId is given, too": {"taskId": ids[0], "taskIds": ids},
		"taskIds: 0 tasks":              {"taskIds": []string{}},
		"taskIds: it is given twice":    {"taskIds": []string{ids[0], ids[0]}},
		"taskId: a task id":             {"taskIds": []string{"dsh_x"}},
		"sinceCursor: it goes with":     {"taskIds": ids, "sinceCursor": 1},
		"sinceCursors: it goes with":    {"taskId": ids[0], "sinceCursors": args{ids[0]: 1}},
		"sinceCursors: it is none of":   {"taskIds": ids[:1], "sinceCursors": args{ids[1]: 1}},
		"sinceCursor: cursors begin":    {"taskIds": ids[:1], "sinceCursors": args{ids[0]: -1}},
	} {
		if message := b.mustFail("invalid_argument", "dsh_wait", arguments).str("error.message"); !strings.HasPrefix(message, field) {
			e.t.Errorf("%v: %s", arguments, message)
		}
	}
	b.mustFail("task_not_found", "dsh_wait", args{"taskIds": []string{ids[0], "dsh_ffffffffffff"}})
	b.mustFail("invalid_cursor", "dsh_wait", args{"taskIds": ids, "sinceCursors": args{ids[2]: 1_000_000}}).want(args{"error.details.taskId": ids[2]})
}

func manyWaits(e *env) {
	const waits = 20
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.thinking()), nil)
	e.inThought(b, t)
	ctx, cancel := context.WithCancel(e.t.Context())
	defer cancel()
	var kept, dropped []*pending
	for i := range waits {
		arguments := args{"taskId": t.id, "sinceCursor": t.cursor, "until": "attention", "timeoutSec": 30}
		if i%2 == 0 {
			kept = append(kept, b.begin(e.t.Context(), "dsh_wait", arguments))
		} else {
			dropped = append(dropped, b.begin(ctx, "dsh_wait", arguments))
		}
	}
	e.eventually(func() string {
		if n := strings.Count(b.sent.String(), `"dsh_wait"`); n < waits {
			return fmt.Sprintf("%d of %d waits were sent", n, waits)
		}
		return ""
	})
	for range 3 {
		b.status(t).want(args{"execution": "running"})
	}
	for _, p := range append(kept, dropped...) {
		if p.over() {
			e.t.Fatalf("a wait was over before the status was answered: %+v %v", p.got, p.err)
		}
	}

	// A caller that gives up a call ends the work for it, too.
	cancel()
	for _, p := range dropped {
		<-p.done
		if p.err == nil {
			e.t.Errorf("a wait that was cancelled was answered: %+v", p.got)
		}
	}
	e.eventually(func() string {
		ended := 0
		for line := range strings.Lines(b.stderr.String()) {
			if strings.Contains(line, "tool=dsh_wait") && strings.Contains(line, "code=internal") {
				ended++
			}
		}
		if ended < len(dropped) {
			return fmt.Sprintf("the log tells of %d waits that ended, %d were cancelled", ended, len(dropped))
		}
		return ""
	})
	for _, p := range kept {
		if p.over() {
			e.t.Fatalf("a wait ended that nobody cancelled: %+v %v", p.got, p.err)
		}
	}

	b.call("dsh_cancel", args{"taskId": t.id})
	for _, p := range kept {
		p.answer().want(args{"reason": "terminal", "execution": "canceled", "timedOut": false})
	}
}

func waitMissesNothing(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.bash("echo "+e.canary), e.say("done")), nil)
	// From the first cursor on, change by change, every record is told of without a hole.
	for cursor := int64(0); ; {
		a := b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": cursor, "timeoutSec": 30})
		next := a.num("nextCursor")
		if a.str("reason") == "terminal" {
			a.want(args{"finalMessage.text": e.text("done")})
			break
		}
		a.want(args{"reason": "progress", "timedOut": false})
		if next <= cursor {
			e.t.Fatalf("the wait for what comes behind %d returned %s", cursor, a.text)
		}
		cursor = next
	}
	end := b.status(t).num("cursor")
	// What is over is told at once, however often one asks.
	for _, until := range []string{"change", "attention"} {
		for _, cursor := range []int64{0, t.cursor, end} {
			b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": cursor, "until": until, "timeoutSec": 30}).want(args{"reason": "terminal", "timedOut": false})
		}
	}
	b.call("dsh_observe", args{"taskId": t.id}).want(args{"reason": "terminal", "finalMessage.text": e.text("done")})

	cursor := b.call("dsh_continue", args{"taskId": t.id, "prompt": e.prompt(e.thinking())}).num("cursor")
	e.running(b, t)
	b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": cursor, "until": "attention", "timeoutSec": 0}).want(args{
		"reason": "timeout", "timedOut": true, "execution": "running", "finalMessage": nil,
	})
	b.call("dsh_cancel", args{"taskId": t.id})
}

func twoProcesses(e *env) {
	first, second := e.bridge(), e.bridge()
	t := e.delegate(first, e.endless(), nil)
	e.running(first, t)
	e.running(second, t)
	second.call("dsh_list", args{}).want(args{"tasks.#": 1, "tasks.0.taskId": t.id, "tasks.0.status": "running"})
	second.mustFail("workspace_conflict", "dsh_delegate", args{"prompt": e.prompt(), "cwd": t.cwd}).want(args{"error.details.holder.taskId": t.id})

	waits := []*pending{}
	for _, b := range []*bridge{first, second} {
		waits = append(waits, b.begin(e.t.Context(), "dsh_wait", args{"taskId": t.id, "sinceCursor": t.cursor, "until": "attention", "timeoutSec": 30}))
	}
	second.followup(t, "steer", e.prompt(e.say("from the second process")))
	for _, p := range waits {
		p.answer().want(args{"reason": "terminal", "execution": "turn_completed", "finalMessage.text": e.text("from the second process")})
	}
	// Both have one account of it, and tell their own messages from a person's by it.
	e.eventually(func() string {
		a, b := first.status(t), second.status(t)
		if a.num("cursor") == b.num("cursor") && a.str("revision") == b.str("revision") {
			return ""
		}
		return fmt.Sprintf("the processes see different tasks:\n%s\n%s", a.text, b.text)
	})
	for _, b := range []*bridge{first, second} {
		for _, ev := range pick(b.tail(t, 0), "user/message", args{"from": "person"}) {
			e.t.Errorf("a message of this home is taken for a person's: %s", ev)
		}
	}
	first.call("dsh_release_workspace", args{"taskId": t.id}).want(args{"released": true})
	second.mustFail("workspace_claim_missing", "dsh_followup", args{"taskId": t.id, "prompt": e.prompt()})
}

func oneWorkspace(e *env) {
	cwd := e.workspace()
	var calls []*pending
	for range 2 {
		b := e.bridge()
		calls = append(calls, b.begin(e.t.Context(), "dsh_delegate", args{"prompt": e.prompt(e.say("mine")), "cwd": cwd}))
	}
	a, b := calls[0].answer(), calls[1].answer()
	if a.isError == b.isError {
		e.t.Fatalf("one of two has to get the workspace:\n%s\n%s", a.text, b.text)
	}
	if a.isError {
		a, b = b, a
	}
	b.failed("workspace_conflict").want(args{"error.details.holder.taskId": a.str("taskId")})
	if tasks := e.tasks(); len(tasks) != 1 || tasks[0] != a.str("taskId") {
		e.t.Errorf("the tasks are %v, want that of %s", tasks, a.text)
	}
}
