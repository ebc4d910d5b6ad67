package scenario

import (
	"fmt"
	"strings"
)

// outcomeScenarios are about calls of which it is not known whether the host did them.
var outcomeScenarios = []scenario{
	{name: "a prompt that the host fails at", run: failedPrompt, scriptedOnly: true},
	{name: "a prompt whose answer never comes", run: hangingPrompt, scriptedOnly: true},
	{name: "a prompt that arrives while its answer is lost", run: brokenPrompt, scriptedOnly: true},
	{name: "a follow-up that the host fails at", run: failedFollowup, scriptedOnly: true},
	{name: "a follow-up that arrives while its answer is lost", run: brokenFollowup, scriptedOnly: true},
	{name: "a session whose making is not known", run: brokenCreate, scriptedOnly: true},
	{name: "a title that is not set", run: brokenRename, scriptedOnly: true},
	{name: "the bridge is killed while it makes a session", run: killedInCreate, scriptedOnly: true},
	{name: "the bridge is killed while it sends the prompt", run: killedInPrompt, scriptedOnly: true},
}

// incomplete makes a delegation that breaks off at its prompt, and returns its task and the call.
func (e *env) incomplete(b *bridge) (task, args) {
	e.t.Helper()
	call := args{"prompt": e.prompt(e.say("arrived")), "cwd": e.workspace(), "requestId": "the only one"}
	a := b.mustFail("delegation_incomplete", "dsh_delegate", call)
	a.want(args{"error.details.stage": "prompted", "error.details.promptSent": "unknown"})
	if hint := a.str("error.hint"); !strings.Contains(hint, "dsh_status") {
		e.t.Errorf("the failure does not say where to look: %s", hint)
	}
	return task{id: a.str("error.details.taskId"), session: a.str("error.details.sessionId"), cwd: call["cwd"].(string)}, call
}

// prompts checks how many prompts have reached the host, done or not.
func (e *env) prompts(want int) {
	e.t.Helper()
	if n := e.scripted().Calls("session.prompt"); n != want {
		e.t.Errorf("the host got %d prompts, want %d", n, want)
	}
}

func failedPrompt(e *env) {
	e.scripted().FailNext("session.prompt", 500, 1)
	b := e.bridge()
	t, call := e.incomplete(b)
	e.neverArrived(b, t, call)
}

// neverArrived checks what is said of a prompt that the host does not have, and that it is not sent twice.
func (e *env) neverArrived(b *bridge, t task, call args) {
	e.t.Helper()
	b.status(t).want(args{"delegation.stage": "prompted", "delegation.promptSent": "unknown", "execution": "starting", "turn": nil, "workspace.cwd": t.cwd})
	b.mustFail("delegation_incomplete", "dsh_delegate", call).want(args{"error.details.taskId": t.id, "error.details.promptSent": "unknown"})
	e.prompts(1)
	// Who has looked may send it again.
	cursor := b.followup(t, "queue", call["prompt"].(string))
	b.ended(t, cursor).want(args{"finalMessage.text": e.text("arrived")})
	b.status(t).want(args{"delegation": nil, "turn.number": 1})
	b.call("dsh_delegate", call).want(args{"accepted": true, "repeated": true, "taskId": t.id})
	e.prompts(2)
}

func hangingPrompt(e *env) {
	e.scripted().HangNext("session.prompt", 1)
	b := e.bridge("DSH_REQUEST_TIMEOUT_MS=3000")
	t, call := e.incomplete(b)
	e.neverArrived(b, t, call)
}

func brokenPrompt(e *env) {
	e.scripted().BreakAfter("session.prompt")
	b := e.bridge()
	t, call := e.incomplete(b)
	ctx, cancel := e.within()
	defer cancel()
	if err := e.scripted().WaitIdle(ctx, t.session); err != nil {
		e.t.Fatal(err)
	}
	b.status(t).want(args{"delegation": nil, "execution": "turn_completed", "finalMessage.text": e.text("arrived")})
	b.call("dsh_delegate", call).want(args{"accepted": true, "repeated": true, "taskId": t.id})
	e.prompts(1)
	b.one(b.tail(t, 0), "user/message", args{"from": "bridge"})
	cursor := b.followup(t, "queue", e.prompt(e.say("and on")))
	b.ended(t, cursor).want(args{"finalMessage.text": e.text("and on")})
}

func failedFollowup(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("first")), nil)
	b.ended(t, t.cursor)
	e.scripted().FailNext("session.prompt", 502, 1)
	call := args{"taskId": t.id, "prompt": e.prompt(e.say("second")), "requestId": "the only one"}
	b.mustFail("host_unreachable", "dsh_followup", call).want(args{"error.details.outcome": "unknown"})
	// Nothing came of it, and nobody waits for it for ever.
	b.status(t).want(args{"execution": "turn_completed", "turn.number": 1, "finalMessage.text": e.text("first")})
	b.mustFail("host_unreachable", "dsh_followup", call).want(args{"error.details.outcome": "unknown"})
	e.prompts(2)
	call["requestId"] = "once more"
	a := b.call("dsh_followup", call).want(args{"accepted": true, "repeated": nil})
	b.ended(t, a.num("cursor")).want(args{"finalMessage.text": e.text("second")})
	e.prompts(3)
}

func brokenFollowup(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("first")), nil)
	b.ended(t, t.cursor)
	e.scripted().BreakAfter("session.prompt")
	call := args{"taskId": t.id, "prompt": e.prompt(e.say("second")), "requestId": "the only one"}
	b.mustFail("host_unreachable", "dsh_followup", call).want(args{"error.details.outcome": "unknown"})
	e.until(b, t, "done with the second turn", func(a answer) bool {
		return a.num("turn.number") == 2 && a.str("execution") == "turn_completed"
	}).want(args{"finalMessage.text": e.text("second")})
	b.call("dsh_followup", call).want(args{"accepted": true, "repeated": true})
	e.prompts(2)
	if n := len(pick(b.tail(t, 0), "user/message", args{"from": "bridge"})); n != 2 {
		e.t.Errorf("the host has %d prompts of the bridge, want two", n)
	}
}

func brokenCreate(e *env) {
	for n, fault := range []func(){
		func() { e.scripted().BreakAfter("session.create") },
		func() { e.scripted().FailNext("session.create", 500, 1) },
	} {
		fault()
		b := e.bridge()
		call := args{"prompt": e.prompt(e.say("arrived")), "cwd": e.workspace(), "requestId": fmt.Sprint("request ", n)}
		a := b.mustFail("delegation_incomplete", "dsh_delegate", call)
		a.want(args{"error.details.stage": "claimed", "error.details.promptSent": "no"})
		t := task{id: a.str("error.details.taskId"), session: a.str("error.details.sessionId")}
		b.status(t).want(args{"delegation.stage": "claimed", "delegation.promptSent": "no"})
		// The same call completes it: there is one session, and one prompt.
		a = b.call("dsh_delegate", call)
		a.want(args{"accepted": true, "taskId": t.id, "sessionId": t.session})
		b.ended(t, a.num("cursor")).want(args{"finalMessage.text": e.text("arrived")})
		b.status(t).want(args{"delegation": nil})
		b.stop()
	}
	if n := len(e.scripted().Sessions()); n != 2 {
		e.t.Errorf("two delegations have made %d sessions", n)
	}
	e.prompts(2)
}

func brokenRename(e *env) {
	e.scripted().FailNext("session.rename", 500, 1)
	b := e.bridge()
	a := b.call("dsh_delegate", args{"prompt": e.prompt(e.say("nameless")), "cwd": e.workspace(), "title": e.text("title"), "waitSeconds": 30})
	a.want(args{"accepted": true, "warnings.#": 1, "finalMessage.text": e.text("nameless")})
}

// killedIn kills a process whose delegation hangs in a call of the host, and returns the delegation.
func (e *env) killedIn(method string) args {
	e.t.Helper()
	e.scripted().HangNext(method, 1)
	b := e.bridge()
	call := args{"prompt": e.prompt(e.say("arrived")), "cwd": e.workspace(), "requestId": "the only one"}
	delegation := b.begin(e.t.Context(), "dsh_delegate", call)
	ctx, cancel := e.within()
	defer cancel()
	if err := e.scripted().WaitCalls(ctx, method, 1); err != nil {
		e.t.Fatal(err)
	}
	b.kill()
	<-delegation.done
	return call
}

func killedInCreate(e *env) {
	call := e.killedIn("session.create")
	b := e.bridge()
	b.call("dsh_list", args{"state": "all"}).want(args{"tasks.#": 1, "tasks.0.workspace.cwd": call["cwd"]})
	a := b.call("dsh_delegate", call).want(args{"accepted": true, "workspace.cwd": call["cwd"]})
	t := task{id: a.str("taskId")}
	b.ended(t, a.num("cursor")).want(args{"finalMessage.text": e.text("arrived")})
	b.status(t).want(args{"delegation": nil})
	e.prompts(1)
	if n := len(e.scripted().Sessions()); n != 1 {
		e.t.Errorf("one delegation has made %d sessions", n)
	}
}

func killedInPrompt(e *env) {
	call := e.killedIn("session.prompt")
	b := e.bridge()
	a := b.mustFail("delegation_incomplete", "dsh_delegate", call)
	e.neverArrived(b, task{id: a.str("error.details.taskId"), cwd: call["cwd"].(string)}, call)
}
