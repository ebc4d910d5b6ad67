package scenario

import "maps"

// forkScenarios are about tasks that are made out of others.
var forkScenarios = []scenario{
	{name: "fork from a finished turn", run: forkTurn},
	{name: "fork what cannot be forked", run: forkRefused},
	{name: "a fork shares its source's directory", run: forkWorkspace},
	{name: "a fork is made once", run: forkOnce},
	{name: "a fork leaves its source's queue and goal alone", run: forkGoal},
}

// fork calls dsh_fork, which has to succeed, and returns the new task.
func (b *bridge) fork(t task, more args) (task, answer) {
	b.t.Helper()
	arguments := args{"taskId": t.id}
	maps.Copy(arguments, more)
	a := b.call("dsh_fork", arguments)
	a.want(args{"accepted": true, "routable": true, "forkedFrom.taskId": t.id, "workspaceClaimSemantics.controlsDshSandbox": false})
	return task{id: a.str("taskId"), session: a.str("sessionId"), cwd: a.str("workspace.cwd"), cursor: a.num("cursor")}, a
}

// twoTurns is a task with two finished turns and no claim any more.
func (e *env) twoTurns(b *bridge) task {
	e.t.Helper()
	t := e.delegate(b, e.prompt(e.say("the first")), nil)
	b.ended(t, t.cursor)
	b.ended(t, b.followup(t, "queue", e.prompt(e.say("the second"))))
	b.call("dsh_release_workspace", args{"taskId": t.id})
	return t
}

func forkTurn(e *env) {
	b := e.bridge()
	source := e.twoTurns(b)
	first, a := b.fork(source, args{"turn": 1, "title": e.text("fork"), "prompt": e.prompt(e.say("another second"))})
	a.want(args{"forkedFrom.turn": 1, "repeated": nil, "workspace.cwd": source.cwd, "workspace.mode": "exclusive-write", "goal": nil, "waited": nil})
	if first.id == source.id || first.session == source.session {
		e.t.Fatalf("the fork is its source: %s", a.text)
	}
	b.ended(first, first.cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("another second")})
	s := b.status(first)
	s.want(args{"turn.number": 2, "title": e.text("fork"), "delegation": nil, "recovery": "live", "queue.total": 0, "subagents": nil})
	events := b.tail(first, 0)
	b.one(events, "assistant/message", args{"text": e.text("the first")})
	if len(pick(events, "assistant/message", args{"text": e.text("the second")})) != 0 {
		e.t.Errorf("the fork has its source's second turn: %s", events)
	}
	if len(pick(b.tail(first, first.cursor), "assistant/message", nil)) != 1 {
		e.t.Errorf("behind the fork's cursor lies more than its own turn")
	}
	b.status(source).want(args{"turn.number": 2, "finalMessage.text": e.text("the second"), "subagents": nil})
	b.call("dsh_release_workspace", args{"taskId": first.id})

	// Without a turn it is the last finished one; without a prompt the fork waits for one.
	second, a := b.fork(source, nil)
	a.want(args{"forkedFrom.turn": 2})
	b.status(second).want(args{"execution": "turn_completed", "turn.number": 2, "delegation": nil, "finalMessage.text": e.text("the second")})
	b.ended(second, b.followup(second, "queue", e.prompt(e.say("the third")))).want(args{"finalMessage.text": e.text("the third")})
	b.status(second).want(args{"turn.number": 3})
	// Another process knows the fork by the session that the host chose.
	e.bridge().status(second).want(args{"sessionId": second.session, "turn.number": 3, "recovery": "live"})
}

func forkRefused(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.bash("sleep 600")), args{"workspaceMode": "read-only"})
	e.inCommand(b, t)
	b.mustFail("fork_unavailable", "dsh_fork", args{"taskId": t.id, "workspaceMode": "read-only"})
	b.mustFail("fork_unavailable", "dsh_fork", args{"taskId": t.id, "workspaceMode": "read-only", "turn": 1}).want(args{"error.details.lastTurn": 1})
	b.mustFail("fork_unavailable", "dsh_fork", args{"taskId": t.id, "workspaceMode": "read-only", "turn": 2})
	b.mustFail("invalid_argument", "dsh_fork", args{"taskId": t.id, "turn": 0})
	b.mustFail("invalid_argument", "dsh_fork", args{"taskId": t.id, "cwd": e.workspace()})
	// Nothing is left of what was not made.
	b.call("dsh_list", args{"state": "all"}).want(args{"tasks.#": 1})
	b.call("dsh_cancel", args{"taskId": t.id})
	b.ended(t, t.cursor)
	// A turn that was cancelled is over, too.
	fork, a := b.fork(t, args{"workspaceMode": "read-only"})
	a.want(args{"forkedFrom.turn": 1, "workspace.mode": "read-only"})
	b.status(fork).want(args{"execution": "canceled"})
}

func forkWorkspace(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("mine")), nil)
	b.ended(t, t.cursor)
	for _, mode := range []string{"exclusive-write", "read-only"} {
		b.mustFail("workspace_conflict", "dsh_fork", args{"taskId": t.id, "workspaceMode": mode}).want(args{"error.details.holder.taskId": t.id})
	}
	b.call("dsh_list", args{"state": "all"}).want(args{"tasks.#": 1})
	b.call("dsh_release_workspace", args{"taskId": t.id})
	fork, _ := b.fork(t, nil)
	b.mustFail("workspace_conflict", "dsh_delegate", args{"prompt": e.prompt(), "cwd": t.cwd}).want(args{"error.details.holder.taskId": fork.id})
}

func forkOnce(e *env) {
	b := e.bridge()
	t := e.twoTurns(b)
	arguments := args{"prompt": e.prompt(e.say("once")), "requestId": "fork", "waitSeconds": 30}
	fork, a := b.fork(t, arguments)
	a.want(args{"repeated": nil, "reason": "terminal", "finalMessage.text": e.text("once")})
	for _, process := range []*bridge{b, e.bridge()} {
		again, a := process.fork(t, arguments)
		a.want(args{"repeated": true})
		if again.id != fork.id || again.session != fork.session {
			e.t.Errorf("the repetition made another fork: %s", a.text)
		}
	}
	b.mustFail("request_id_conflict", "dsh_fork", args{"taskId": t.id, "turn": 1, "requestId": "fork"})
	b.call("dsh_list", args{"state": "all"}).want(args{"tasks.#": 2})
	b.status(fork).want(args{"turn.number": 3})
}

// forkGoal forks a task that has an active goal and a running round. The fork has both in its past only.
func forkGoal(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.words(), args{"workspaceMode": "read-only", "goal": args{"objective": e.text("for ever")}})
	e.inRound(b, t, 1)
	fork, a := b.fork(t, args{"workspaceMode": "read-only"})
	a.want(args{"forkedFrom.turn": 1, "goal.phase": "active", "goal.idle": true})
	cursor := b.followup(fork, "queue", e.prompt(e.say("in the fork")))
	b.ended(fork, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("in the fork"), "goal.phase": "active", "goal.idle": true})
	b.status(fork).want(args{"turn.number": 2, "queue.total": 0})
	b.status(t).want(args{"execution": "running", "goal.phase": "active"})
	b.goal(t, "pause", nil)
	b.goal(fork, "clear", nil).want(args{"goal": nil})
}
