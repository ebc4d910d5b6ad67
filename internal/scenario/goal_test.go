package scenario

import (
	"fmt"
	"maps"
)

// goalScenarios are about goals, which the host works on by itself, round after round.
var goalScenarios = []scenario{
	{name: "a goal goes on over its rounds until it is blocked", run: goalBlocked},
	{name: "a goal is paused, edited, resumed and completed", run: goalMoves},
	{name: "a goal changes at the revision that was seen", run: goalRevisions},
	{name: "a cancel in a round pauses a goal", run: goalCanceled},
	{name: "an active goal is idle after its host was started anew", run: goalIdle, ownHost: true},
	{name: "a goal needs a claim to go on and none to stop", run: goalClaim},
	{name: "a change of a goal is made once", run: goalOnce},
	{name: "delegate with a goal", run: goalDelegated},
}

// goal calls dsh_goal, which has to succeed.
func (b *bridge) goal(t task, action string, more args) answer {
	b.t.Helper()
	arguments := args{"taskId": t.id, "action": action}
	maps.Copy(arguments, more)
	return b.call("dsh_goal", arguments).want(args{"taskId": t.id, "action": action})
}

// words is a prompt after which every turn, rounds included, says many words, slowly.
func (e *env) words() string {
	step := e.say("one two three four five six seven eight nine ten")
	step.DelayMs = 300
	return e.prompt(step)
}

// inRound waits until a round of the task's goal is at work and has said something.
func (e *env) inRound(b *bridge, t task, round int64) {
	e.t.Helper()
	e.until(b, t, fmt.Sprintf("in round %d", round), func(a answer) bool {
		return a.str("execution") == "running" && a.get("goal.rounds").Int() == round
	})
}

// goalBlocked is a goal with two rounds. Each is a turn, and the first is not the end.
func goalBlocked(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("as told")), nil)
	b.ended(t, t.cursor).want(args{"goal": nil})
	b.status(t).want(args{"goal": nil})
	b.goal(t, "get", nil).want(args{"goal": nil, "execution": "turn_completed"})

	cursor := b.goal(t, "create", args{"objective": e.text("all is well"), "maxGoalRounds": 2}).num("cursor")
	b.ended(t, cursor).want(args{
		"execution": "turn_completed", "goal.phase": "blocked", "goal.rounds": 2, "goal.maxRounds": 2, "goal.objective": nil,
		"goal.blocked.code": "round-limit", "goal.idle": nil, "finalMessage.text": e.text("as told"),
	}).str("goal.blocked.message")
	s := b.status(t)
	s.want(args{"turn.number": 3, "goal.phase": "blocked", "goal.objective": e.text("all is well"), "goal.rounds": 2, "goal.blocked.code": "round-limit"})
	b.goal(t, "get", nil).want(args{"goal.revision": s.num("goal.revision"), "goal.objective": e.text("all is well"), "goal.blocked.code": "round-limit"})

	events := b.tail(t, cursor)
	b.one(events, "goal/change", args{"goal.operation": "create"})
	b.one(events, "goal/change", args{"goal.operation": "block"})
	if rounds := pick(events, "user/message", args{"from": "goal"}); len(rounds) != 2 {
		e.t.Errorf("the tail shows %d rounds, want 2: %s", len(rounds), events)
	}
	b.one(events, "turn/end", args{"turn": "3", "reason": "completed"})

	// Out of rounds, it cannot be resumed; with more of them, it can.
	b.mustFail("goal_invalid", "dsh_goal", args{"taskId": t.id, "action": "resume"}).want(args{"error.details.hostCode": "GOAL_INVALID_TRANSITION", "error.details.goal.phase": "blocked"})
	b.goal(t, "edit", args{"maxGoalRounds": 3}).want(args{"goal.phase": "blocked", "goal.maxRounds": 3})
	cursor = b.goal(t, "resume", nil).num("cursor")
	b.ended(t, cursor).want(args{"goal.phase": "blocked", "goal.rounds": 3})
	b.status(t).want(args{"turn.number": 4})
}

func goalMoves(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.words(), nil)
	cursor := b.goal(t, "create", args{"objective": e.text("first")}).want(args{"execution": "running", "goal.phase": "active"}).num("cursor")
	e.inRound(b, t, 1)
	b.mustFail("goal_invalid", "dsh_goal", args{"taskId": t.id, "action": "create", "objective": e.text("another")}).want(args{
		"error.details.hostCode": "GOAL_ALREADY_EXISTS", "error.details.goal.objective": e.text("first"), "error.details.goal.phase": "active",
	})

	paused := b.goal(t, "pause", nil)
	paused.want(args{"goal.phase": "paused", "goal.rounds": 1, "execution": "canceled", "goal.idle": nil})
	b.ended(t, cursor).want(args{"execution": "canceled", "goal.phase": "paused"})
	b.goal(t, "edit", args{"objective": e.text("second"), "maxGoalRounds": 2}).want(args{
		"goal.phase": "paused", "goal.objective": e.text("second"), "goal.maxRounds": 2, "goal.revision": paused.num("goal.revision") + 1,
	})
	// A turn of its own does not set a paused goal going.
	cursor = b.followup(t, "queue", e.prompt(e.say("only this")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("only this"), "goal.phase": "paused"})

	cursor = b.goal(t, "resume", nil).num("cursor")
	b.ended(t, cursor).want(args{"execution": "turn_completed", "goal.phase": "blocked", "goal.rounds": 2})
	b.goal(t, "complete", nil).want(args{"goal.phase": "complete", "goal.blocked": nil})
	b.mustFail("goal_invalid", "dsh_goal", args{"taskId": t.id, "action": "complete"}).want(args{"error.details.hostCode": "GOAL_INVALID_TRANSITION"})
	// A complete goal makes way for another.
	b.goal(t, "create", args{"objective": e.text("third"), "maxGoalRounds": 1})
	b.ended(t, b.status(t).num("cursor")).want(args{"goal.phase": "blocked", "goal.rounds": 1})
	b.goal(t, "clear", nil).want(args{"goal": nil})
	b.status(t).want(args{"goal": nil})
	b.mustFail("goal_invalid", "dsh_goal", args{"taskId": t.id, "action": "pause"})
}

func goalRevisions(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("as told")), nil)
	b.ended(t, t.cursor)
	b.ended(t, b.goal(t, "create", args{"objective": e.text("one"), "maxGoalRounds": 1}).num("cursor"))
	seen := b.status(t)
	revision := seen.num("goal.revision")
	b.goal(t, "edit", args{"objective": e.text("two"), "expectedRevision": revision}).want(args{"goal.revision": revision + 1})
	for _, action := range []string{"edit", "resume", "complete", "clear"} {
		arguments := args{"taskId": t.id, "action": action, "expectedRevision": revision}
		if action == "edit" {
			arguments["objective"] = e.text("three")
		}
		b.mustFail("revision_conflict", "dsh_goal", arguments).want(args{
			"error.details.goal.revision": revision + 1, "error.details.goal.objective": e.text("two"), "error.details.goal.phase": "blocked",
		})
	}
	b.mustFail("stale_view", "dsh_goal", args{"taskId": t.id, "action": "clear", "sinceCursor": seen.num("cursor")})
	// The change of a goal is news for whoever decides by the revision of the task.
	b.mustFail("stale_view", "dsh_followup", args{"taskId": t.id, "prompt": e.prompt(e.say("never")), "expectedRevision": seen.str("revision")})
	b.goal(t, "clear", args{"expectedRevision": revision + 1, "sinceCursor": b.status(t).num("cursor")}).want(args{"goal": nil})
}

func goalCanceled(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.words(), nil)
	cursor := b.goal(t, "create", args{"objective": e.text("all of it")}).num("cursor")
	e.inRound(b, t, 1)
	e.until(b, t, "speaking", func(answer) bool { return e.said(t, 2) })
	b.call("dsh_cancel", args{"taskId": t.id}).want(args{"wasRunning": true, "execution": "canceled"})
	e.until(b, t, "paused", func(a answer) bool { return a.str("goal.phase") == "paused" })
	b.ended(t, cursor).want(args{"execution": "canceled", "goal.phase": "paused", "goal.rounds": 1})
}

// said reports whether the model has begun to speak in a turn of the task.
func (e *env) said(t task, turn int64) bool {
	e.t.Helper()
	for _, ev := range e.person().call("session.history", args{"sessionId": t.session, "maxMessages": 1000}).Get("events.#.event").Array() {
		if ev.Get("type").String() == "assistant/chunk" && ev.Get("data.turn").Int() == turn && ev.Get("data.chunk.type").String() == "text-delta" {
			return true
		}
	}
	return false
}

// goalIdle restarts the host, which does not go on with a goal by itself. A wait says so instead of waiting for ever.
func goalIdle(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.words(), nil)
	b.ended(t, t.cursor)
	b.goal(t, "create", args{"objective": e.text("for ever")})
	e.inSomeRound(b, t)
	e.host.Kill()
	e.host.Start(e.t)
	s := e.until(b, t, "idle", func(a answer) bool { return a.get("goal.idle").Bool() })
	s.want(args{"availability": "connected", "goal.phase": "active", "goal.objective": e.text("for ever")})
	cursor := s.num("cursor")
	b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": cursor, "until": "attention", "timeoutSec": 30}).want(args{
		"reason": "terminal", "timedOut": false, "goal.phase": "active", "goal.idle": true,
	})
	cursor = b.goal(t, "resume", nil).want(args{"goal.phase": "active", "goal.idle": nil}).num("cursor")
	e.until(b, t, "at work again", func(a answer) bool { return a.num("turn.number") > s.num("turn.number") })
	b.goal(t, "pause", nil).want(args{"goal.phase": "paused"})
	b.ended(t, cursor).want(args{"goal.phase": "paused"})
}

// inSomeRound waits until the goal has begun a round.
func (e *env) inSomeRound(b *bridge, t task) {
	e.t.Helper()
	e.until(b, t, "in a round", func(a answer) bool { return a.get("goal.rounds").Int() > 0 })
}

func goalClaim(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.words(), nil)
	b.ended(t, t.cursor)
	b.goal(t, "create", args{"objective": e.text("on and on")})
	e.inSomeRound(b, t)
	b.call("dsh_release_workspace", args{"taskId": t.id})
	b.mustFail("workspace_claim_missing", "dsh_goal", args{"taskId": t.id, "action": "edit", "objective": e.text("more")})
	b.goal(t, "pause", nil).want(args{"goal.phase": "paused"})
	b.mustFail("workspace_claim_missing", "dsh_goal", args{"taskId": t.id, "action": "resume"})
	b.goal(t, "complete", nil).want(args{"goal.phase": "complete"})
	b.goal(t, "clear", nil).want(args{"goal": nil})
	b.mustFail("workspace_claim_missing", "dsh_goal", args{"taskId": t.id, "action": "create", "objective": e.text("again")})
}

func goalOnce(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("as told")), nil)
	b.ended(t, t.cursor)
	create := args{"objective": e.text("once"), "maxGoalRounds": 1, "requestId": "create"}
	first := b.goal(t, "create", create)
	first.want(args{"repeated": nil})
	b.ended(t, first.num("cursor"))
	// Another process does not make it again either.
	for _, process := range []*bridge{b, e.bridge()} {
		again := process.goal(t, "create", create)
		again.want(args{"repeated": true, "goal.revision": first.num("goal.revision"), "cursor": first.num("cursor")})
	}
	b.mustFail("request_id_conflict", "dsh_goal", args{"taskId": t.id, "action": "clear", "requestId": "create"})
	b.goal(t, "clear", args{"requestId": "clear"}).want(args{"goal": nil})
	b.goal(t, "clear", args{"requestId": "clear"}).want(args{"repeated": true, "goal": nil})
}

func goalDelegated(e *env) {
	b := e.bridge()
	// With a prompt, the goal follows it.
	both := e.delegate(b, e.prompt(e.say("as told")), args{"goal": args{"objective": e.text("the rest"), "maxGoalRounds": 2}})
	b.ended(both, both.cursor).want(args{"execution": "turn_completed", "goal.phase": "blocked", "goal.rounds": 2})
	b.status(both).want(args{"turn.number": 3, "delegation": nil, "goal.objective": e.text("the rest")})

	// Without one, the goal is all there is.
	arguments := args{"cwd": e.workspace(), "goal": args{"objective": e.text("all of it"), "maxGoalRounds": 1}, "requestId": "goal"}
	a := b.call("dsh_delegate", arguments).want(args{"accepted": true, "repeated": nil, "goal.phase": "active"})
	only := task{id: a.str("taskId"), session: a.str("sessionId"), cursor: a.num("cursor")}
	b.ended(only, only.cursor).want(args{"execution": "turn_completed", "goal.phase": "blocked", "goal.rounds": 1})
	b.status(only).want(args{"turn.number": 1, "delegation": nil})
	b.call("dsh_delegate", arguments).want(args{"accepted": true, "repeated": true, "taskId": only.id})
	b.mustFail("invalid_argument", "dsh_delegate", args{"cwd": e.workspace()})
}
