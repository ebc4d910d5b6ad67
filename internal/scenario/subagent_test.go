package scenario

import "dsh-agentlink/internal/labmodel"

// subagentScenarios are about a task's subagents, as a supervisor talks to them.
var subagentScenarios = []scenario{
	{name: "prompt and interrupt a subagent", run: subagentMessages},
	{name: "a message to a subagent is sent once", run: subagentOnce},
	{name: "subagents that take no messages", run: subagentRefused},
}

// withSubagent is a task whose agent started a subagent that is done, and the subagent's session.
func (e *env) withSubagent(b *bridge, background bool) (task, string) {
	e.t.Helper()
	said := e.say("the child is done")
	if background {
		said.HangMs = 1500 // so that the root's turn is over before, and the report begins another
	}
	child := e.tool("subagent", args{"description": e.text("helper"), "prompt": e.prompt(said), "run_in_background": background})
	t := e.delegate(b, e.prompt(child, e.say("the root is done")), nil)
	a := e.until(b, t, "done with its subagent", func(a answer) bool {
		return a.str("execution") == "turn_completed" && a.get("subagents.#").Int() == 1 && a.str("subagents.0.state") == "completed" &&
			(!background || a.num("turn.number") == 2)
	})
	return t, a.str("subagents.0.sessionId")
}

// toSubagent calls dsh_subagent, which has to succeed.
func (b *bridge) toSubagent(t task, session, action string, more args) answer {
	b.t.Helper()
	arguments := args{"taskId": t.id, "subagentSessionId": session, "action": action}
	for name, value := range more {
		arguments[name] = value
	}
	return b.call("dsh_subagent", arguments).want(args{"taskId": t.id, "subagentSessionId": session, "action": action, "accepted": true})
}

func subagentMessages(e *env) {
	b := e.bridge()
	t, child := e.withSubagent(b, true)
	s := b.status(t)
	s.want(args{"subagents.0.label": e.text("helper"), "subagents.0.mode": "continuable", "subagents.0.parentSessionId": nil})
	message := s.num("subagents.0.lastMessageSeq")
	events := b.tail(t, 0)
	if said := b.one(events, "assistant/message", args{"sessionId": child}); said.Get("seq").Int() != message || said.Get("text").String() != e.text("the child is done") {
		e.t.Errorf("seq %d is not the subagent's last message: %s", message, said)
	}

	prompt := e.prompt(e.say("once more"))
	a := b.toSubagent(t, child, "prompt", args{"prompt": prompt, "sinceCursor": s.num("cursor")})
	a.want(args{"repeated": nil, "state": "completed"})
	e.until(b, t, "told by its subagent", func(a answer) bool { return a.num("turn.number") == 3 && a.str("execution") == "turn_completed" })
	events = b.tail(t, a.num("cursor"))
	if sent := b.one(events, "user/message", args{"sessionId": child, "text": prompt}); sent.Get("from").String() != "bridge" {
		e.t.Errorf("the message to the subagent is from %s, want bridge", sent.Get("from"))
	}
	b.one(events, "assistant/message", args{"sessionId": child, "text": e.text("once more")})

	// A running one takes a message up after its turn; an interrupt stops the turn.
	b.toSubagent(t, child, "prompt", args{"prompt": e.prompt(e.bash("sleep 600"))})
	e.until(b, t, "at work in its subagent", func(a answer) bool { return a.get("subagents.0.state").String() == "running" })
	b.toSubagent(t, child, "prompt", args{"prompt": e.prompt(e.say("after that"))}).want(args{"state": "running"})
	b.mustFail("stale_view", "dsh_subagent", args{"taskId": t.id, "subagentSessionId": child, "action": "interrupt", "sinceCursor": 0})
	b.toSubagent(t, child, "interrupt", nil).want(args{"wasRunning": true})
	e.until(b, t, "done with its subagent", func(a answer) bool { return a.get("subagents.0.state").String() != "running" })
	b.toSubagent(t, child, "interrupt", nil).want(args{"wasRunning": nil})

	b.call("dsh_release_workspace", args{"taskId": t.id})
	b.mustFail("workspace_claim_missing", "dsh_subagent", args{"taskId": t.id, "subagentSessionId": child, "action": "prompt", "prompt": e.prompt()})
	b.toSubagent(t, child, "interrupt", nil)
}

func subagentOnce(e *env) {
	b := e.bridge()
	t, child := e.withSubagent(b, true)
	arguments := args{"prompt": e.prompt(e.say("just once")), "requestId": "message"}
	b.toSubagent(t, child, "prompt", arguments).want(args{"repeated": nil})
	for _, process := range []*bridge{b, e.bridge()} {
		process.toSubagent(t, child, "prompt", arguments).want(args{"repeated": true})
	}
	b.mustFail("request_id_conflict", "dsh_subagent", args{"taskId": t.id, "subagentSessionId": child, "action": "prompt", "prompt": e.prompt(e.say("other")), "requestId": "message"})
	e.until(b, t, "told by its subagent", func(a answer) bool { return a.num("turn.number") == 3 && a.str("execution") == "turn_completed" })
	b.one(b.tail(t, 0), "assistant/message", args{"sessionId": child, "text": e.text("just once")})
}

func subagentRefused(e *env) {
	b := e.bridge()
	t, child := e.withSubagent(b, false)
	b.status(t).want(args{"subagents.0.mode": "one-shot", "subagents.0.label": e.text("helper")})
	for _, arguments := range []args{{"action": "prompt", "prompt": e.prompt(labmodel.Step{Say: "no"})}, {"action": "interrupt"}} {
		arguments["taskId"], arguments["subagentSessionId"] = t.id, child
		b.mustFail("subagent_not_continuable", "dsh_subagent", arguments).want(args{"error.details.mode": "one-shot"})
		arguments["subagentSessionId"] = t.session
		b.mustFail("subagent_not_found", "dsh_subagent", arguments)
	}
}
