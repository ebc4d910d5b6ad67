package scenario

import (
	"strings"
	"unicode/utf8"
)

// turnScenarios are about the turns of one task: how they begin, follow each other and end.
var turnScenarios = []scenario{
	{name: "delegate and complete", run: delegateAndComplete},
	{name: "follow up by queue", run: followUpByQueue},
	{name: "follow up by steer", run: followUpBySteer},
	{name: "cancel a turn with messages queued", run: cancelWithQueue},
	{name: "cancel before the model said anything", run: cancelSilent},
	{name: "cancel at once", run: cancelAtOnce},
	{name: "a parked message is revived by the next follow-up", run: parkedMessage},
	{name: "a failed turn", run: failedTurn},
	{name: "a long answer", run: longAnswer},
}

func delegateAndComplete(e *env) {
	b := e.bridge()
	prompt := e.prompt(e.bash("echo "+e.canary), e.say("all is done"))
	t := e.delegate(b, prompt, args{"title": e.text("title")})
	b.ended(t, t.cursor).want(args{
		"taskId": t.id, "availability": "connected", "execution": "turn_completed", "status": "turn_completed", "timedOut": false,
		"finalMessage.text": e.text("all is done"), "failure": nil, "pending": nil, "jobs": nil, "subagents": nil,
	})

	s := b.status(t)
	s.want(args{
		"taskId": t.id, "sessionId": t.session, "title": e.text("title"), "availability": "connected",
		"execution": "turn_completed", "status": "turn_completed", "lastKnownExecutionStatus": nil, "delegation": nil,
		"turn.number": 1, "turn.reason": "completed", "failure": nil, "finalMessage.text": e.text("all is done"),
		"finalMessage.chars": nil, "finalMessageStatus": nil, "pending": nil, "queue.total": 0, "jobs": nil, "subagents": nil,
		"routable": true, "workspace.cwd": t.cwd, "workspace.mode": "exclusive-write",
		"workspaceClaimSemantics.controlsDshSandbox": false, "earliestCursor": nil, "recovery": "live", "gaps": nil,
		"fault": nil, "contentUnavailable": nil,
	})
	s.str("turn.startedAt")
	s.str("turn.endedAt")
	s.str("model")
	s.str("revision")

	events := b.tail(t, 0)
	if from := b.one(events, "user/message", args{"text": prompt}).Get("from").String(); from != "bridge" {
		e.t.Errorf("the prompt is from %q, want bridge", from)
	}
	call := b.one(events, "tool/call", args{"tool": "bash"})
	result := b.one(events, "tool/result", args{"callId": call.Get("callId").String()})
	if !strings.Contains(call.Get("args").String(), e.canary) || !strings.Contains(result.Get("text").String(), e.canary) {
		e.t.Errorf("the tail does not show the command and its output: %s %s", call, result)
	}
	b.one(events, "assistant/message", args{"text": e.text("all is done")})
	b.one(events, "turn/start", args{"turn": "1"})
	b.one(events, "turn/end", args{"turn": "1", "reason": "completed"})
	e.pagesTell(b, t, len(events))

	if rows := b.call("dsh_list", args{}).must("tasks").Array(); len(rows) != 0 {
		e.t.Errorf("a finished task counts as active: %s", rows)
	}
	b.call("dsh_list", args{"state": "all"}).want(args{
		"tasks.#": 1, "tasks.0.taskId": t.id, "tasks.0.sessionId": t.session, "tasks.0.title": e.text("title"),
		"tasks.0.status": "turn_completed", "tasks.0.workspace.cwd": t.cwd, "tasks.0.behind": nil, "more": nil,
		"workspaceClaimSemantics.controlsDshSandbox": false,
	})
	host := b.call("dsh_host_status", args{})
	host.want(args{"url": e.host.URL(), "tasks": 1})
	host.str("model")
}

// pagesTell reads the tail in small pages, which have to tell the same.
func (e *env) pagesTell(b *bridge, t task, want int) {
	e.t.Helper()
	seen, since := 0, int64(0)
	for {
		a := b.call("dsh_tail", args{"taskId": t.id, "sinceCursor": since, "maxEvents": 2, "maxBytes": 2048})
		page := a.must("events").Array()
		if len(page) > 2 {
			e.t.Fatalf("a page of at most 2 events has %d", len(page))
		}
		seen, since = seen+len(page), a.num("nextCursor")
		if !a.must("hasMore").Bool() {
			break
		}
	}
	if seen != want {
		e.t.Errorf("the pages of the tail have %d events, the whole has %d", seen, want)
	}
}

func followUpByQueue(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.endless(), nil)
	e.running(b, t)
	cursor := b.followup(t, "queue", e.prompt(e.say("the second turn")))
	e.until(b, t, "holding the message", func(a answer) bool {
		return a.get("queue.nextTurn").Int() == 1 && a.str("execution") == "running" && a.num("turn.number") == 1
	}).want(args{"queue.known": true, "queue.stale": nil, "queue.total": 1})

	b.followup(t, "steer", e.prompt(e.say("the first turn")))
	// The end of the first turn is not the end: a message waits.
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("the second turn")})
	b.status(t).want(args{"turn.number": 2, "queue.total": 0})
	events := b.tail(t, 0)
	b.one(events, "assistant/message", args{"text": e.text("the first turn")})
	b.one(events, "turn/end", args{"turn": "1", "reason": "completed"})
	b.one(events, "turn/end", args{"turn": "2", "reason": "completed"})
}

func followUpBySteer(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.endless(), nil)
	e.running(b, t)
	steering := e.prompt(e.say("steered"))
	cursor := b.followup(t, "steer", steering)
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("steered")})
	b.status(t).want(args{"turn.number": 1, "turn.reason": "completed", "queue.total": 0})
	events := b.tail(t, 0)
	if from := b.one(events, "user/message", args{"text": steering}).Get("from").String(); from != "bridge" {
		e.t.Errorf("the steering message is from %q, want bridge", from)
	}
	b.one(events, "turn/end", args{"turn": "1", "reason": "completed"})

	// To steer an idle session starts a turn.
	cursor = b.followup(t, "steer", e.prompt(e.say("once more")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("once more")})
	b.status(t).want(args{"turn.number": 2})
}

func cancelWithQueue(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.bash("sleep 600")), nil)
	e.inCommand(b, t)
	b.followup(t, "queue", e.prompt(e.say("never said")))
	cursor := b.followup(t, "queue", e.prompt(e.say("nor this")))
	e.until(b, t, "holding both messages", func(a answer) bool { return a.get("queue.nextTurn").Int() == 2 })

	b.call("dsh_cancel", args{"taskId": t.id}).want(args{
		"taskId": t.id, "scope": "turn", "accepted": true, "wasRunning": true, "execution": "canceled", "queued": 2,
	})
	b.ended(t, cursor).want(args{"execution": "canceled", "status": "canceled", "timedOut": false, "failure": nil})
	b.status(t).want(args{"execution": "canceled", "turn.number": 1, "turn.reason": "aborted", "queue.nextTurn": 2, "queue.total": 2})

	a := b.call("dsh_cancel", args{"taskId": t.id, "scope": "queue"})
	a.want(args{"scope": "queue", "requested.#": 2, "removed.#": 2, "alreadyClaimed.#": 0, "failed.#": 0})
	if a.must("requested").Raw != a.must("removed").Raw {
		e.t.Errorf("what was removed is not what was requested: %s", a.text)
	}
	b.status(t).want(args{"execution": "canceled", "queue.known": true, "queue.total": 0})
	b.call("dsh_cancel", args{"taskId": t.id, "scope": "queue"}).want(args{"requested.#": 0, "removed.#": 0})
	// To cancel what does not run is no failure.
	b.call("dsh_cancel", args{"taskId": t.id, "scope": "turn"}).want(args{"accepted": true, "wasRunning": false, "execution": "canceled"})
}

// cancelAtOnce cancels in the moment in which the host takes a message up. The message may be lost with that, but
// nobody waits for it.
func cancelAtOnce(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("first")), nil)
	b.ended(t, t.cursor)
	for range 5 {
		message := b.begin(e.t.Context(), "dsh_followup", args{"taskId": t.id, "prompt": e.prompt(e.thinking())})
		for !message.over() {
			e.person().call("session.cancel", args{"sessionId": t.session})
		}
		cursor := message.answer().want(args{"accepted": true}).num("cursor")
		e.eventually(func() string {
			if a := b.call("dsh_cancel", args{"taskId": t.id}); a.str("execution") != "canceled" {
				return "the task is not canceled: " + b.status(t).text
			}
			return ""
		})
		b.ended(t, cursor).want(args{"execution": "canceled"})
	}
	cursor := b.followup(t, "queue", e.prompt(e.say("the end")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("the end")})
}

func parkedMessage(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.bash("sleep 600")), nil)
	e.inCommand(b, t)
	b.followup(t, "queue", e.prompt(e.say("the parked one")))
	e.until(b, t, "holding the message", func(a answer) bool { return a.get("queue.nextTurn").Int() == 1 })
	b.call("dsh_cancel", args{"taskId": t.id}).want(args{"execution": "canceled", "queued": 1})

	cursor := b.followup(t, "queue", e.prompt(e.say("the new one")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("the new one")})
	b.status(t).want(args{"turn.number": 3, "queue.total": 0})
	b.one(b.tail(t, 0), "assistant/message", args{"text": e.text("the parked one")})
}

// cancelSilent cancels a turn in which the model is still thinking. The host ends such a turn without a turn/end.
func cancelSilent(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.thinking()), nil)
	e.inThought(b, t)
	ctx, cancel := e.within()
	defer cancel()
	wait := b.begin(ctx, "dsh_wait", args{"taskId": t.id, "sinceCursor": t.cursor, "until": "attention", "timeoutSec": 30})
	b.call("dsh_cancel", args{"taskId": t.id}).want(args{"accepted": true, "wasRunning": true, "execution": "canceled"})
	wait.answer().want(args{"reason": "terminal", "execution": "canceled", "finalMessage": nil})
	b.status(t).want(args{"execution": "canceled", "turn.number": 1, "finalMessageStatus": "terminal_missing_final"})

	// A person's cancel looks the same, and nobody tells the bridge.
	cursor := b.followup(t, "queue", e.prompt(e.thinking()))
	e.until(b, t, "in its second turn", func(a answer) bool { return a.str("execution") == "running" && a.num("turn.number") == 2 })
	e.person().call("session.cancel", args{"sessionId": t.session})
	b.ended(t, cursor).want(args{"execution": "canceled"})

	cursor = b.followup(t, "queue", e.prompt(e.say("still here")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("still here")})
	b.status(t).want(args{"turn.number": 3})
}

func failedTurn(e *env) {
	b := e.bridge()
	step := e.say("")
	step.Status = 400
	t := e.delegate(b, e.prompt(step), nil)
	a := b.ended(t, t.cursor)
	a.want(args{"execution": "failed", "status": "failed", "finalMessage": nil, "failure.status": 400})
	s := b.status(t)
	s.want(args{"execution": "failed", "turn.reason": "error", "finalMessage": nil, "finalMessageStatus": "terminal_missing_final", "failure.status": 400})
	for _, path := range []string{"failure.message", "failure.code"} {
		if a.str(path) == "" || a.str(path) != s.str(path) {
			e.t.Errorf("%s is %q in the wait and %q in the status", path, a.str(path), s.str(path))
		}
	}
	end := b.one(b.tail(t, 0), "turn/end", args{"reason": "error"})
	if end.Get("failure.code").String() != s.str("failure.code") {
		e.t.Errorf("the tail tells another failure: %s", end)
	}

	cursor := b.followup(t, "queue", e.prompt(e.say("better now")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("better now"), "failure": nil})
}

// longAnswer has more to say than an answer shows: what is cut is said, and where the whole is.
func longAnswer(e *env) {
	b := e.bridge()
	step := e.say("日本語 – ünïcödé, and \"quotes\" ")
	step.Repeat = 400
	whole := strings.Repeat(step.Say, step.Repeat)
	t := e.delegate(b, e.prompt(step), nil)
	for _, a := range []answer{b.ended(t, t.cursor), b.status(t)} {
		text := a.str("finalMessage.text")
		if int(a.num("finalMessage.chars")) != utf8.RuneCountInString(whole) || len(text) > 8000 || !utf8.ValidString(text) {
			e.t.Errorf("%s shows %d of %d characters in %d bytes", a.tool, a.num("finalMessage.chars"), utf8.RuneCountInString(whole), len(text))
		}
		if !strings.HasPrefix(text, step.Say) || !strings.HasSuffix(text, strings.TrimSpace(step.Say)) && !strings.HasSuffix(text, step.Say) {
			e.t.Errorf("%s does not show the beginning and the end: %q", a.tool, text)
		}
	}
	said := b.one(b.tail(t, 0), "assistant/message", nil)
	if said.Get("text").String() != whole || said.Get("chars").Exists() {
		e.t.Errorf("the tail does not show the whole: %d bytes of %d", len(said.Get("text").String()), len(whole))
	}
	if seq := b.status(t).num("finalMessage.seq"); seq != said.Get("seq").Int() {
		e.t.Errorf("the pointer to the whole is %d, it is %d", seq, said.Get("seq").Int())
	}
	// A page that is too small for it shows what fits.
	small := b.call("dsh_tail", args{"taskId": t.id, "sinceCursor": said.Get("cursor").Int() - 1, "maxEvents": 1, "maxBytes": 2048})
	if len(small.text) > 4096 || small.num("events.0.chars") == 0 {
		e.t.Errorf("a page of 2048 bytes has %d: %.300s", len(small.text), small.text)
	}
}
