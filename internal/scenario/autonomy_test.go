package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/labmodel"
)

// autonomyScenarios are about what goes on beside the supervisor: subagents, background jobs, and people.
var autonomyScenarios = []scenario{
	{name: "a subagent", run: subagent},
	{name: "a background job wakes a new turn", run: backgroundJob},
	{name: "a question", run: question},
	{name: "an approval", run: approval},
	{name: "a person's message", run: personsMessage},
	{name: "a person takes a message out of the queue", run: personsRemoval},
	{name: "a person's fork", run: personsFork},
}

// subagent lets the model start another agent. It goes on at once, and the other's result comes by itself.
func subagent(e *env) {
	b := e.bridge()
	child := e.prompt(e.bash("echo "+e.canary), e.say("words of the child"))
	t := e.delegate(b, e.prompt(
		e.tool("subagent", args{"description": e.text("child"), "prompt": child}),
		e.say("words of the root"),
	), nil)
	b.ended(t, t.cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("words of the root")})
	s := e.until(b, t, "done with its subagent", func(a answer) bool {
		return a.str("execution") == "turn_completed" && a.get("subagents.0.state").String() == "completed"
	})
	s.want(args{"subagents.#": 1, "subagents.0.parentSessionId": nil, "finalMessage.sessionId": nil})
	session := s.str("subagents.0.sessionId")
	if below := e.person().subagents(t.session); len(below) != 1 || below[0] != session {
		e.t.Errorf("the subagent is %s, the host has %v", session, below)
	}

	events := b.tail(t, 0)
	if from := b.one(events, "user/message", args{"sessionId": session, "text": child}).Get("from").String(); from != "agent" {
		e.t.Errorf("the subagent's prompt is from %q, want agent", from)
	}
	b.one(events, "tool/call", args{"sessionId": session, "tool": "bash"})
	b.one(events, "tool/result", args{"sessionId": session})
	b.one(events, "assistant/message", args{"sessionId": session, "text": e.text("words of the child")})
	b.one(events, "turn/end", args{"sessionId": session, "reason": "completed"})
	b.one(events, "tool/call", args{"sessionId": "", "tool": "subagent"})
}

func backgroundJob(e *env) {
	b := e.bridge()
	job := e.bashWith(until("go")+"; echo "+e.canary, args{"run_in_background": true})
	t := e.delegate(b, e.prompt(job, e.say("the job runs")), nil)
	a := b.ended(t, t.cursor)
	a.want(args{"execution": "turn_completed", "jobs.#": 1, "jobs.0.status": "running"})
	if !strings.Contains(a.str("jobs.0.label"), e.canary) {
		e.t.Errorf("the job's label is not its command: %s", a.text)
	}
	b.status(t).want(args{"turn.number": 1, "jobs.#": 1})
	if err := os.WriteFile(filepath.Join(t.cwd, "go"), nil, 0o600); err != nil {
		e.t.Fatal(err)
	}
	// The task counts as done, and yet a supervisor that waits on is told of the turn that the job's end starts.
	a = b.ended(t, a.num("nextCursor"))
	a.want(args{"execution": "turn_completed", "jobs": nil})
	b.status(t).want(args{"turn.number": 2, "jobs": nil})
	events := b.tail(t, 0)
	b.one(events, "turn/end", args{"turn": "2", "reason": "completed"})
	for _, ev := range pick(events, "user/message", nil) {
		if from := ev.Get("from").String(); from != "bridge" && !strings.HasPrefix(from, "plugin") {
			e.t.Errorf("nobody spoke, but the tail has a message from %q", from)
		}
	}
}

// asked waits until a task wants a person's attention and returns the wait's answer, whose pending request has to be
// the status's, too.
func (b *bridge) asked(t task, since int64) answer {
	b.t.Helper()
	a := b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": since, "until": "attention", "timeoutSec": 30})
	a.want(args{"reason": "attention", "timedOut": false, "pending.#": 1})
	b.status(t).want(args{"execution": a.str("execution"), "pending.#": 1, "pending.0.requestId": a.str("pending.0.requestId")})
	b.call("dsh_list", args{}).want(args{"tasks.#": 1, "tasks.0.pending": 1, "tasks.0.status": a.str("execution")})
	return a
}

func question(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.tool("ask_user_question", args{"questions": []args{{
		"id": "color", "question": e.text("which color?"), "header": "Color", "options": []args{{"label": e.text("red")}, {"label": e.text("blue")}},
	}}}), e.say("thank you")), nil)
	a := b.asked(t, t.cursor)
	a.want(args{
		"execution": "awaiting_input", "status": "awaiting_input", "pending.0.type": "question", "pending.0.sessionId": nil,
		"pending.0.questions.#": 1, "pending.0.questions.0.id": "color", "pending.0.questions.0.question": e.text("which color?"),
		"pending.0.questions.0.options.1.label": e.text("blue"), "pending.0.unavailable": nil,
	})
	// It outlives the process.
	b.kill()
	b = e.bridge()
	b.asked(t, t.cursor).want(args{"pending.0.requestId": a.str("pending.0.requestId"), "pending.0.questions.0.question": e.text("which color?")})

	e.person().respond(a.str("pending.0.requestId"), args{"sessionId": t.session, "answer": args{
		"answers": []args{{"id": "color", "selected": []string{e.text("blue")}}},
	}})
	b.ended(t, a.num("nextCursor")).want(args{"execution": "turn_completed", "pending": nil, "finalMessage.text": e.text("thank you")})
	b.status(t).want(args{"pending": nil})
}

func approval(e *env) {
	b := e.bridge()
	risky := e.bashWith("echo "+e.canary, args{"sandbox_permissions": "danger-full-access", "justification": e.text("because")})
	t := e.delegate(b, e.prompt(risky, e.say("over")), nil)
	a := b.asked(t, t.cursor)
	a.want(args{
		"execution": "awaiting_approval", "pending.0.type": "approval", "pending.0.toolName": "bash",
		"pending.0.command": "echo " + e.canary, "pending.0.unavailable": nil,
	})
	if !strings.Contains(a.str("pending.0.reason"), e.text("because")) {
		e.t.Errorf("the reason is not told: %s", a.text)
	}
	approvalID := ""
	book, err := e.readLedger(t.id)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, r := range book.Records {
		if r.Type == "approval/requested" {
			approvalID = r.Coordination.ApprovalID
		}
	}
	e.person().respond(a.str("pending.0.requestId"), args{"sessionId": t.session, "approvalId": approvalID, "outcome": "rejected"})
	b.ended(t, a.num("nextCursor")).want(args{"execution": "turn_completed", "pending": nil, "finalMessage.text": e.text("over")})
	b.one(b.tail(t, 0), "approval/decided", args{"outcome": "rejected"})
}

func personsMessage(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("first")), nil)
	b.ended(t, t.cursor)
	said := e.prompt(e.say("second"))
	e.person().prompt(t.session, "queue", said)
	e.until(b, t, "done with the person's turn", func(a answer) bool {
		return a.num("turn.number") == 2 && a.str("execution") == "turn_completed"
	}).want(args{"finalMessage.text": e.text("second")})
	events := b.tail(t, 0)
	if from := b.one(events, "user/message", args{"text": said}).Get("from").String(); from != "person" {
		e.t.Errorf("the person's message is from %q", from)
	}
	if n := len(pick(events, "user/message", args{"from": "bridge"})); n != 1 {
		e.t.Errorf("%d messages are from the bridge, want the first prompt", n)
	}
}

func personsRemoval(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.endless(), nil)
	e.running(b, t)
	b.followup(t, "queue", e.prompt(e.say("never said")))
	e.until(b, t, "holding the message", func(a answer) bool { return a.num("queue.total") == 1 })
	item := ""
	book, err := e.readLedger(t.id)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, r := range book.Records {
		for _, q := range r.Coordination.Queue {
			item = q.ID
		}
	}
	e.person().call("session.updateQueue", args{"sessionId": t.session, "itemId": item, "action": args{"kind": "remove"}})
	e.until(b, t, "without the message", func(a answer) bool { return a.num("queue.total") == 0 })
	cursor := b.followup(t, "steer", e.prompt(e.say("said")))
	// Nobody waits for the message that was taken away.
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("said")})
	b.status(t).want(args{"turn.number": 1, "queue.total": 0})
}

// personsFork makes a fork of the task's session, which is a conversation of its own.
func personsFork(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("first")), nil)
	b.ended(t, t.cursor)
	fork := e.person().call("session.fork", args{"sessionId": t.session}).Get("sessionId").String()
	e.person().prompt(fork, "queue", labmodel.Script{Steps: []labmodel.Step{e.say("elsewhere")}}.Prompt(e.canary))
	e.eventually(func() string {
		history := e.person().history(fork)
		if len(history) == 0 || history[len(history)-1].Type == "turn/start" {
			return "the fork does nothing"
		}
		ends := 0
		for _, ev := range history {
			if ev.Type == "turn/end" {
				ends++
			}
		}
		if ends < 2 {
			return fmt.Sprintf("the fork has ended %d turns", ends)
		}
		return ""
	})
	b.status(t).want(args{"turn.number": 1, "execution": "turn_completed", "finalMessage.text": e.text("first"), "subagents": nil})
	for _, ev := range b.tail(t, 0) {
		if ev.Get("sessionId").Exists() {
			e.t.Errorf("the tail has an event of another session: %s", ev)
		}
	}
}

// respond answers a question or an approval, which has to be accepted.
func (p person) respond(requestID string, value any) {
	p.t.Helper()
	text := p.post("respond", args{"type": "client-response", "rpcId": requestID, "result": args{"ok": true, "value": value}})
	if !gjson.Get(text, "accepted").Bool() {
		p.t.Fatalf("the answer was not accepted: %s", text)
	}
}
