package scenario

import (
	"os"
	"path/filepath"
	"strings"

	"dsh-agentlink/internal/dshtest"
)

// workspaceScenarios are about how a delegation begins and its directory.
var workspaceScenarios = []scenario{
	{name: "a workspace conflict names the holder", run: workspaceConflict},
	{name: "release and delegate again", run: releaseAndDelegate},
	{name: "no such preset", run: noSuchPreset},
	{name: "a broken preset", run: brokenPreset, scriptedOnly: true},
	{name: "a model that cannot be reached", run: unroutableModel, scriptedOnly: true},
	{name: "a delegation that is repeated", run: repeatedDelegation},
	{name: "a delegation that two processes repeat at once", run: delegationAtOnce},
	{name: "a follow-up that is repeated", run: repeatedFollowup},
	{name: "a stale view", run: staleView},
}

func workspaceConflict(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("here")), nil)
	inside := filepath.Join(t.cwd, "inside")
	link := filepath.Join(e.workspace(), "link")
	if err := os.Mkdir(inside, 0o755); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Symlink(inside, link); err != nil {
		e.t.Fatal(err)
	}
	// The directory itself, one inside it, one around it, one by another name; for whatever use.
	for _, cwd := range []string{t.cwd, inside, filepath.Dir(t.cwd), link} {
		for _, mode := range []string{"exclusive-write", "read-only"} {
			a := b.mustFail("workspace_conflict", "dsh_delegate", args{"prompt": e.prompt(), "cwd": cwd, "workspaceMode": mode})
			a.want(args{"error.details.holder.taskId": t.id, "error.details.holder.cwd": t.cwd, "error.details.holder.mode": "exclusive-write"})
			if !strings.Contains(a.str("error.message"), t.id) || a.str("error.hint") == "" {
				e.t.Errorf("the failure does not say who holds the directory and what to do: %s", a.text)
			}
		}
	}
	if tasks := e.tasks(); len(tasks) != 1 {
		e.t.Errorf("delegations that were refused have left tasks: %v", tasks)
	}

	// Those who only read do not disturb each other.
	cwd := e.workspace()
	for range 2 {
		reader := e.delegate(b, e.prompt(e.say("read")), args{"cwd": cwd, "workspaceMode": "read-only"})
		b.ended(reader, reader.cursor)
	}
	b.mustFail("workspace_conflict", "dsh_delegate", args{"prompt": e.prompt(), "cwd": cwd}).want(args{"error.details.holder.mode": "read-only"})
	b.ended(t, t.cursor)
}

func releaseAndDelegate(e *env) {
	b := e.bridge()
	first := e.delegate(b, e.prompt(e.say("first")), nil)
	b.ended(first, first.cursor)
	b.call("dsh_release_workspace", args{"taskId": first.id}).want(args{
		"taskId": first.id, "released": true, "workspace.cwd": first.cwd, "workspace.mode": "exclusive-write",
		"workspaceClaimSemantics.controlsDshSandbox": false, "warnings": nil,
	})
	b.call("dsh_release_workspace", args{"taskId": first.id}).want(args{"released": false, "workspace": nil})
	if hint := b.mustFail("workspace_claim_missing", "dsh_followup", args{"taskId": first.id, "prompt": e.prompt()}).str("error.hint"); hint == "" {
		e.t.Error("the failure does not say what to do")
	}

	second := e.delegate(b, e.endless(), args{"cwd": first.cwd})
	e.running(b, second)
	// The one that was released can still be looked at.
	b.status(first).want(args{"execution": "turn_completed", "finalMessage.text": e.text("first"), "workspace": nil})
	b.one(b.tail(first, 0), "assistant/message", args{"text": e.text("first")})
	// To release a task does not stop it, which is said.
	b.call("dsh_release_workspace", args{"taskId": second.id}).want(args{"released": true, "warnings.#": 1})
	b.status(second).want(args{"execution": "running", "workspace": nil})
	b.call("dsh_cancel", args{"taskId": second.id}).want(args{"execution": "canceled"})
}

func noSuchPreset(e *env) {
	b := e.bridge()
	cwd := e.workspace()
	a := b.mustFail("preset_not_found", "dsh_delegate", args{"prompt": e.prompt(), "cwd": cwd, "agentPreset": "no-such-preset"})
	if !strings.Contains(a.must("error.details.available").Raw, `"standard"`) || !strings.Contains(a.str("error.message"), "no-such-preset") {
		e.t.Errorf("the failure does not name what there is: %s", a.text)
	}
	if tasks := e.tasks(); len(tasks) != 0 {
		e.t.Errorf("a delegation that was refused has left tasks: %v", tasks)
	}
	t := e.delegate(b, e.prompt(e.say("with a preset")), args{"cwd": cwd, "agentPreset": "code"})
	b.ended(t, t.cursor).want(args{"execution": "turn_completed"})

	// The one of the environment is used where none is asked for, and is no better.
	b.stop()
	b = e.bridge("DSH_BRIDGE_AGENT_PRESET=no-such-preset")
	b.mustFail("preset_not_found", "dsh_delegate", args{"prompt": e.prompt(), "cwd": e.workspace()})
	b.call("dsh_followup", args{"taskId": t.id, "prompt": e.prompt(e.say("as before")), "waitSeconds": 30}).want(args{"reason": "terminal", "finalMessage.text": e.text("as before")})
}

func brokenPreset(e *env) {
	presets := append(dshtest.DefaultPresets(), dshtest.Preset{ID: "torn", Trust: "user", Broken: "its file cannot be read"})
	e.scripted().SetPresets(presets...)
	b := e.bridge()
	a := b.mustFail("preset_broken", "dsh_delegate", args{"prompt": e.prompt(), "cwd": e.workspace(), "agentPreset": "torn"})
	if !strings.Contains(a.str("error.message"), "torn") {
		e.t.Errorf("the failure does not name the preset: %s", a.text)
	}
	if tasks := e.tasks(); len(tasks) != 0 {
		e.t.Errorf("a delegation that was refused has left tasks: %v", tasks)
	}
	status := b.call("dsh_host_status", args{})
	if !status.get(`presets.#(id=="torn").broken`).Bool() || status.get(`presets.#(id=="standard").broken`).Exists() {
		e.t.Errorf("the host's status does not tell which preset is broken: %s", status.text)
	}
}

func unroutableModel(e *env) {
	e.scripted().SetRoutable(false)
	b := e.bridge()
	cwd := e.workspace()
	a := b.mustFail("model_unroutable", "dsh_delegate", args{"prompt": e.prompt(e.say("too early")), "cwd": cwd})
	a.want(args{"error.details.stage": "created", "error.details.promptSent": "no"})
	t := task{id: a.str("error.details.taskId"), session: a.str("error.details.sessionId"), cwd: cwd}
	b.status(t).want(args{
		"sessionId": t.session, "execution": "starting", "routable": false, "delegation.stage": "created", "delegation.promptSent": "no",
		"workspace.cwd": cwd, "turn": nil,
	}).str("delegation.next")
	b.mustFail("model_unroutable", "dsh_followup", args{"taskId": t.id, "prompt": e.prompt()})
	if n := e.scripted().Calls("session.prompt"); n != 0 {
		e.t.Errorf("%d prompts went to a model that cannot be reached", n)
	}

	// As soon as it can be reached, a follow-up completes the delegation.
	e.scripted().SetRoutable(true)
	cursor := b.followup(t, "queue", e.prompt(e.say("at last")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("at last")})
	b.status(t).want(args{"delegation": nil, "routable": true, "turn.number": 1})
}

func repeatedDelegation(e *env) {
	b := e.bridge()
	call := args{"prompt": e.prompt(e.say("once")), "cwd": e.workspace(), "requestId": "the first"}
	t := e.delegate(b, e.prompt(e.say("once")), call)
	b.ended(t, t.cursor)
	repeated := args{"accepted": true, "repeated": true, "taskId": t.id, "sessionId": t.session, "workspace.cwd": t.cwd}
	b.call("dsh_delegate", call).want(repeated)
	b.kill()
	b = e.bridge()
	b.call("dsh_delegate", call).want(repeated)
	call["waitSeconds"] = 30 // how long one waits does not matter
	b.call("dsh_delegate", call).want(repeated).want(args{"finalMessage.text": e.text("once")})

	for field, value := range (args{"prompt": e.prompt(e.say("twice")), "title": e.text("title"), "workspaceMode": "read-only", "cwd": e.workspace()}) {
		other := args{"prompt": call["prompt"], "cwd": call["cwd"], "requestId": "the first"}
		other[field] = value
		b.mustFail("request_id_conflict", "dsh_delegate", other).want(args{"error.details.taskId": t.id})
	}
	if tasks := e.tasks(); len(tasks) != 1 {
		e.t.Errorf("one delegation has made %d tasks", len(tasks))
	}
	b.status(t).want(args{"turn.number": 1})
	b.one(b.tail(t, 0), "user/message", args{"from": "bridge"})
}

// delegationAtOnce is a caller that lost patience with one bridge, or two that share a home.
func delegationAtOnce(e *env) {
	call := args{"prompt": e.prompt(e.say("once")), "cwd": e.workspace(), "requestId": "the same"}
	var bridges []*bridge
	var calls []*pending
	for range 3 {
		bridges = append(bridges, e.bridge())
	}
	for _, b := range bridges {
		calls = append(calls, b.begin(e.t.Context(), "dsh_delegate", call), b.begin(e.t.Context(), "dsh_delegate", call))
	}
	fresh, t := 0, task{}
	for _, p := range calls {
		a := p.answer().want(args{"accepted": true, "workspace.cwd": call["cwd"]})
		if !a.get("repeated").Exists() {
			fresh++
		}
		if t.id == "" {
			t.id = a.str("taskId")
		}
		a.want(args{"taskId": t.id})
	}
	if fresh != 1 {
		e.t.Errorf("%d calls have made the task, want one", fresh)
	}
	bridges[0].ended(t, 0).want(args{"finalMessage.text": e.text("once")})
	bridges[0].one(bridges[0].tail(t, 0), "user/message", args{"from": "bridge"})
}

func repeatedFollowup(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("first")), nil)
	b.ended(t, t.cursor)
	call := args{"taskId": t.id, "prompt": e.prompt(e.say("second")), "requestId": "the second"}
	a := b.call("dsh_followup", call).want(args{"accepted": true, "repeated": nil})
	b.call("dsh_followup", call).want(args{"accepted": true, "repeated": true})
	b.ended(t, a.num("cursor")).want(args{"finalMessage.text": e.text("second")})
	b.call("dsh_continue", call).want(args{"accepted": true, "repeated": true})
	b.stop()
	b = e.bridge()
	b.call("dsh_followup", call).want(args{"accepted": true, "repeated": true})
	for field, value := range (args{"prompt": e.prompt(e.say("third")), "mode": "steer"}) {
		other := args{"taskId": t.id, "prompt": call["prompt"], "requestId": call["requestId"]}
		other[field] = value
		b.mustFail("request_id_conflict", "dsh_followup", other)
	}
	b.status(t).want(args{"turn.number": 2})
	if n := len(pick(b.tail(t, 0), "user/message", args{"from": "bridge"})); n != 2 {
		e.t.Errorf("the host has %d prompts of the bridge, want two", n)
	}
}

func staleView(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("first")), nil)
	b.ended(t, t.cursor)
	seen := b.status(t)
	e.person().prompt(t.session, "queue", e.prompt(e.say("a person was faster")))
	now := e.until(b, t, "done with the person's turn", func(a answer) bool {
		return a.num("turn.number") == 2 && a.str("execution") == "turn_completed" && a.num("queue.total") == 0 &&
			a.get("title").String() == seen.get("title").String()
	})
	for _, tool := range []string{"dsh_followup", "dsh_cancel"} {
		call := args{"taskId": t.id}
		if tool == "dsh_followup" {
			call["prompt"] = e.prompt(e.say("never said"))
		}
		call["sinceCursor"] = seen.num("cursor")
		a := b.mustFail("stale_view", tool, call)
		a.want(args{"error.details.execution": "turn_completed", "error.details.revision": now.str("revision"), "error.details.changes.turn/start": 1, "error.details.changes.user/message": 1})
		if a.num("error.details.cursor") < now.num("cursor") {
			e.t.Errorf("%s: the failure has an older cursor than the status: %s", tool, a.text)
		}
		delete(call, "sinceCursor")
		call["expectedRevision"] = seen.str("revision")
		b.mustFail("stale_view", tool, call).want(args{"error.details.revision": now.str("revision")})
	}

	// Who has seen what there is goes on.
	a := b.call("dsh_followup", args{"taskId": t.id, "prompt": e.prompt(e.say("third")), "sinceCursor": b.status(t).num("cursor"), "expectedRevision": now.str("revision")})
	b.ended(t, a.num("cursor")).want(args{"finalMessage.text": e.text("third")})
	b.status(t).want(args{"turn.number": 3})
}
