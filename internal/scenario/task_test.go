package scenario

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/ledger"
)

// task is a task that a scenario has delegated.
type task struct {
	id, session, cwd string
	// cursor is the one that the delegation answered.
	cursor int64
}

// delegate delegates a prompt into a fresh directory. more are further arguments.
func (e *env) delegate(b *bridge, prompt string, more args) task {
	e.t.Helper()
	arguments := args{"prompt": prompt, "cwd": e.workspace()}
	maps.Copy(arguments, more)
	a := b.call("dsh_delegate", arguments)
	a.want(args{"accepted": true, "routable": true, "repeated": nil, "workspace.cwd": arguments["cwd"], "workspaceClaimSemantics.controlsDshSandbox": false})
	return task{id: a.str("taskId"), session: a.str("sessionId"), cwd: a.str("workspace.cwd"), cursor: a.num("cursor")}
}

// followup sends a message that has to be accepted, and returns the cursor of the answer.
func (b *bridge) followup(t task, mode, prompt string) int64 {
	b.t.Helper()
	a := b.call("dsh_followup", args{"taskId": t.id, "mode": mode, "prompt": prompt})
	a.want(args{"taskId": t.id, "accepted": true, "mode": mode, "routable": true, "repeated": nil})
	return a.num("cursor")
}

// ended waits for the end of the work behind a cursor, as a supervisor does.
func (b *bridge) ended(t task, since int64) answer {
	b.t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		a := b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": since, "until": "attention", "timeoutSec": 30})
		switch reason := a.str("reason"); reason {
		case "terminal":
			return a
		case "timeout":
		default:
			b.t.Fatalf("the wait ended by %s instead of the turn's end: %s", reason, a.text)
		}
	}
	b.t.Fatalf("the task did not end in %v: %s", limit, b.call("dsh_status", args{"taskId": t.id}).text)
	return answer{}
}

// status reads a task's status.
func (b *bridge) status(t task) answer {
	b.t.Helper()
	return b.call("dsh_status", args{"taskId": t.id})
}

// until asks for a task's status until it satisfies ok, and returns it.
func (e *env) until(b *bridge, t task, what string, ok func(answer) bool) answer {
	e.t.Helper()
	var a answer
	e.eventually(func() string {
		if a = b.status(t); ok(a) {
			return ""
		}
		return "the task is not " + what + ": " + a.text
	})
	return a
}

// running waits until a task's turn runs.
func (e *env) running(b *bridge, t task) answer {
	e.t.Helper()
	return e.until(b, t, "running", func(a answer) bool { return a.str("execution") == "running" })
}

// inCommand waits until a task's turn runs a command.
func (e *env) inCommand(b *bridge, t task) {
	e.t.Helper()
	e.eventually(func() string {
		if events := b.tail(t, 0); len(pick(events, "tool/call", nil)) == 0 {
			return "the task runs no command"
		}
		return ""
	})
}

// stored waits until the host has surely written down what it had streamed up to a cursor: it does so before it runs
// the next command.
func (e *env) stored(b *bridge, t task, cursor int64) {
	e.t.Helper()
	e.eventually(func() string {
		later := b.tail(t, cursor)
		if calls := pick(later, "tool/call", nil); len(calls) > 0 && len(pick(later, "tool/result", args{"callId": calls[0].Get("callId").String()})) > 0 {
			return ""
		}
		return "no command was run since"
	})
}

// inThought waits until the model has been asked for the first time. Beside that the host asks it for a title, which
// comes while the first request hangs.
func (e *env) inThought(b *bridge, t task) {
	e.t.Helper()
	e.eventually(func() string {
		b.status(t)
		book, err := e.readLedger(t.id)
		if err != nil {
			e.t.Fatal(err)
		}
		if book.count(ledger.TypeEvent, "session/title") < 2 {
			return "the model was not asked"
		}
		return ""
	})
}

// tail reads everything that happened in a task behind a cursor.
func (b *bridge) tail(t task, since int64) []gjson.Result {
	b.t.Helper()
	var events []gjson.Result
	for {
		a := b.call("dsh_tail", args{"taskId": t.id, "sinceCursor": since, "maxEvents": 500, "maxBytes": 1_000_000})
		a.want(args{"contentUnavailable": nil, "fault": nil})
		events = append(events, a.must("events").Array()...)
		since = a.num("nextCursor")
		if !a.must("hasMore").Bool() {
			return events
		}
	}
}

// pick are the events of a type, and with those members.
func pick(events []gjson.Result, kind string, members args) []gjson.Result {
	var picked []gjson.Result
next:
	for _, ev := range events {
		if ev.Get("type").String() != kind {
			continue
		}
		for name, value := range members {
			if ev.Get(name).String() != value {
				continue next
			}
		}
		picked = append(picked, ev)
	}
	return picked
}

// one is the only event of a type with those members.
func (b *bridge) one(events []gjson.Result, kind string, members args) gjson.Result {
	b.t.Helper()
	picked := pick(events, kind, members)
	if len(picked) != 1 {
		b.t.Fatalf("%d events are %s %v, want one: %s", len(picked), kind, members, events)
	}
	return picked[0]
}

// bash is a step in which the model runs a command.
func (e *env) bash(command string) labmodel.Step { return e.bashWith(command, nil) }

func (e *env) bashWith(command string, more args) labmodel.Step {
	arguments := args{"command": command, "description": e.text("command")}
	maps.Copy(arguments, more)
	return e.tool("bash", arguments)
}

// tool is a step in which the model calls a tool.
func (e *env) tool(name string, arguments args) labmodel.Step {
	e.t.Helper()
	data, err := json.Marshal(arguments)
	if err != nil {
		e.t.Fatal(err)
	}
	return labmodel.Step{Tool: name, Args: data}
}

// until is a command that goes on until there is a file of that name in the workspace.
func until(file string) string { return "until [ -e " + file + " ]; do sleep 0.1; done" }

// say is a step in which the model says its last words.
func (e *env) say(words string) labmodel.Step { return labmodel.Step{Say: e.text(words)} }

// thinking is a step in which the model says nothing for as long as a scenario takes.
func (e *env) thinking() labmodel.Step {
	return labmodel.Step{HangMs: 600_000, Say: e.text("too late")}
}

// endless is a prompt whose turn goes on, one command after the other, until a message with another script steers it
// or somebody cancels it.
func (e *env) endless() string {
	step := e.bash("sleep 0.2; echo " + e.canary)
	return labmodel.Script{Loop: 1_000_000, Tool: step.Tool, Args: step.Args}.Prompt(e.canary + " go on")
}
