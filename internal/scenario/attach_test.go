package scenario

import (
	"path/filepath"
	"slices"

	"github.com/tidwall/gjson"
)

// attachScenarios are about sessions that no bridge began.
var attachScenarios = []scenario{
	{name: "a person's session becomes a task", run: attachSession},
	{name: "a session that cannot become a task", run: attachRefused},
	{name: "many attach one session at once", run: attachAtOnce},
}

// begun is a session that a person has begun in the web UI, with one turn behind it.
func (e *env) begun(words string) (session, cwd string) {
	e.t.Helper()
	cwd = e.workspace()
	session = e.person().call("session.create", args{"cwd": cwd}).Get("sessionId").String()
	e.person().prompt(session, "queue", e.prompt(e.say(words)))
	e.eventually(func() string {
		if _, said := e.person().outcome(session); said != e.text(words) {
			return "the person's turn has not ended"
		}
		return ""
	})
	return session, cwd
}

// listed is the row of a session in dsh_sessions, if it is there.
func (b *bridge) listed(session string, arguments args) (gjson.Result, bool) {
	b.t.Helper()
	for _, row := range b.call("dsh_sessions", arguments).must("sessions").Array() {
		if row.Get("sessionId").String() == session {
			return row, true
		}
	}
	return gjson.Result{}, false
}

func attachSession(e *env) {
	b := e.bridge()
	session, cwd := e.begun("what the person asked for")
	row, there := b.listed(session, args{"cwd": filepath.Dir(cwd), "limit": 200})
	if !there || row.Get("taskId").Exists() || row.Get("cwd").String() != cwd {
		e.t.Fatalf("the person's session is listed as %s", row.Raw)
	}
	if _, there := b.listed(session, args{"cwd": e.workspace()}); there {
		e.t.Error("the session is listed for another directory")
	}
	a := b.call("dsh_attach", args{"sessionId": session, "requestId": "attach 1"})
	a.want(args{"sessionId": session, "attached": true, "claimed": true, "repeated": nil, "execution": "turn_completed", "workspace.cwd": cwd, "workspace.mode": "exclusive-write",
		"workspaceClaimSemantics.controlsDshSandbox": false})
	t := task{id: a.str("taskId"), session: session, cwd: cwd}
	b.status(t).want(args{"execution": "turn_completed", "finalMessage.text": e.text("what the person asked for"), "delegation": nil, "recovery": "live"})
	b.one(b.tail(t, 0), "assistant/message", args{"text": e.text("what the person asked for")})
	if row, _ := b.listed(session, args{"query": filepath.Base(cwd)}); row.Get("taskId").String() != t.id {
		e.t.Errorf("the session is not listed as a task: %s", row.Raw)
	}
	cursor := b.followup(t, "queue", e.prompt(e.say("what the supervisor asked for")))
	b.ended(t, cursor).want(args{"finalMessage.text": e.text("what the supervisor asked for")})

	// Once more, by this process and another, with the id and without: it is the same task.
	b.call("dsh_attach", args{"sessionId": session, "requestId": "attach 1"}).want(args{"taskId": t.id, "attached": true, "repeated": true})
	other := e.bridge()
	other.call("dsh_attach", args{"sessionId": session, "requestId": "attach 1"}).want(args{"taskId": t.id, "repeated": true})
	other.call("dsh_attach", args{"sessionId": session}).want(args{"taskId": t.id, "attached": false, "claimed": false})
	other.mustFail("workspace_conflict", "dsh_attach", args{"sessionId": session, "workspaceMode": "read-only"})
	other.mustFail("workspace_conflict", "dsh_delegate", args{"prompt": e.prompt(e.say("never")), "cwd": cwd})

	// A task whose claim was released gets it back.
	b.call("dsh_release_workspace", args{"taskId": t.id, "requestId": "release 1"}).want(args{"released": true, "repeated": nil})
	other.call("dsh_release_workspace", args{"taskId": t.id, "requestId": "release 1"}).want(args{"released": true, "repeated": true, "workspace.cwd": cwd})
	b.mustFail("request_id_conflict", "dsh_cancel", args{"taskId": t.id, "requestId": "release 1"})
	b.mustFail("workspace_claim_missing", "dsh_followup", args{"taskId": t.id, "prompt": e.prompt(e.say("never"))})
	b.call("dsh_attach", args{"sessionId": session, "workspaceMode": "read-only"}).want(args{"taskId": t.id, "attached": false, "claimed": true, "workspace.mode": "read-only"})
}

func attachRefused(e *env) {
	b := e.bridge()
	b.mustFail("session_not_found", "dsh_attach", args{"sessionId": "session-that-nobody-made"})
	b.mustFail("invalid_argument", "dsh_attach", args{"sessionId": "no id"})
	t := e.delegate(b, e.prompt(e.say("a task")), nil)
	b.ended(t, t.cursor)
	b.call("dsh_attach", args{"sessionId": t.session}).want(args{"taskId": t.id, "attached": false, "claimed": false})

	// A directory that a task holds is not given to a second one, and nothing is left behind.
	session := e.person().call("session.create", args{"cwd": t.cwd}).Get("sessionId").String()
	e.person().prompt(session, "queue", e.prompt(e.say("in the same place")))
	b.mustFail("workspace_conflict", "dsh_attach", args{"sessionId": session}).want(args{"error.details.holder.taskId": t.id})
	if tasks := e.tasks(); !slices.Equal(tasks, []string{t.id}) {
		e.t.Errorf("a refused attach has left a task: %v", tasks)
	}

	parent := e.delegate(b, e.prompt(e.tool("subagent", args{"description": e.text("helper"), "prompt": e.prompt(e.say("from below"))}), e.say("from above")), nil)
	b.ended(parent, parent.cursor)
	var child string
	e.eventually(func() string {
		if all := e.person().subagents(parent.session); len(all) > 0 {
			child = all[0]
			return ""
		}
		return "there is no subagent"
	})
	b.mustFail("invalid_argument", "dsh_attach", args{"sessionId": child}).want(args{"error.details.rootSessionId": parent.session})
}

func attachAtOnce(e *env) {
	session, _ := e.begun("first")
	bridges := []*bridge{e.bridge(), e.bridge()}
	var calls []*pending
	for i := range 8 {
		calls = append(calls, bridges[i%2].begin(e.t.Context(), "dsh_attach", args{"sessionId": session}))
	}
	ids := map[string]bool{}
	attached := 0
	for _, c := range calls {
		a := c.answer()
		if a.isError {
			e.t.Fatal(a.text)
		}
		ids[a.str("taskId")] = true
		if a.must("attached").Bool() {
			attached++
		}
	}
	if len(ids) != 1 || attached != 1 {
		e.t.Errorf("one session has become the tasks %v, %d times", ids, attached)
	}
}
