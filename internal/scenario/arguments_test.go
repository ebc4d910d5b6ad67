package scenario

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// argumentScenarios are about calls that make no sense.
var argumentScenarios = []scenario{
	{name: "invalid arguments name their field", run: invalidArguments},
	{name: "an unknown task", run: unknownTask},
	{name: "a cursor that was never given", run: unknownCursor},
}

func invalidArguments(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("fine")), nil)
	b.ended(t, t.cursor)
	calls := e.scriptedCalls()
	file := filepath.Join(e.workspace(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		e.t.Fatal(err)
	}
	cwd, ok := e.workspace(), e.prompt()
	for _, c := range []struct {
		tool, field string
		arguments   args
	}{
		{"dsh_delegate", "prompt", args{"cwd": cwd}},
		{"dsh_delegate", "prompt", args{"cwd": cwd, "prompt": " \n"}},
		{"dsh_delegate", "prompt", args{"cwd": cwd, "prompt": 5}},
		{"dsh_delegate", "prompt", args{"cwd": cwd, "prompt": e.text(strings.Repeat("x", 1<<20))}},
		{"dsh_delegate", "cwd", args{"prompt": ok}},
		{"dsh_delegate", "cwd", args{"prompt": ok, "cwd": "relative/path"}},
		{"dsh_delegate", "cwd", args{"prompt": ok, "cwd": filepath.Join(cwd, "missing")}},
		{"dsh_delegate", "cwd", args{"prompt": ok, "cwd": file}},
		{"dsh_delegate", "title", args{"prompt": ok, "cwd": cwd, "title": e.text(strings.Repeat("t", 200))}},
		{"dsh_delegate", "agentPreset", args{"prompt": ok, "cwd": cwd, "agentPreset": " standard"}},
		{"dsh_delegate", "workspaceMode", args{"prompt": ok, "cwd": cwd, "workspaceMode": "read-write"}},
		{"dsh_delegate", "waitSeconds", args{"prompt": ok, "cwd": cwd, "waitSeconds": 31}},
		{"dsh_delegate", "waitSeconds", args{"prompt": ok, "cwd": cwd, "waitSeconds": -1}},
		{"dsh_delegate", "waitSeconds", args{"prompt": ok, "cwd": cwd, "waitSeconds": "1"}},
		{"dsh_delegate", "requestId", args{"prompt": ok, "cwd": cwd, "requestId": strings.Repeat("r", 129)}},
		{"dsh_delegate", "model", args{"prompt": ok, "cwd": cwd, "model": "a better one"}},
		{"dsh_followup", "taskId", args{"prompt": ok}},
		{"dsh_followup", "prompt", args{"taskId": t.id}},
		{"dsh_followup", "mode", args{"taskId": t.id, "prompt": ok, "mode": "later"}},
		{"dsh_followup", "waitSeconds", args{"taskId": t.id, "prompt": ok, "waitSeconds": 1.5}},
		{"dsh_followup", "sinceCursor", args{"taskId": t.id, "prompt": ok, "sinceCursor": "1"}},
		{"dsh_followup", "sinceCursor", args{"taskId": t.id, "prompt": ok, "sinceCursor": -1}},
		{"dsh_followup", "cwd", args{"taskId": t.id, "prompt": ok, "cwd": cwd}},
		{"dsh_continue", "mode", args{"taskId": t.id, "prompt": ok, "mode": "never"}},
		{"dsh_status", "taskId", args{"taskId": "dsh_XYZ"}},
		{"dsh_status", "verbose", args{"taskId": t.id, "verbose": true}},
		{"dsh_tail", "taskId", args{"taskId": 7}},
		{"dsh_tail", "maxEvents", args{"taskId": t.id, "maxEvents": 0}},
		{"dsh_tail", "maxEvents", args{"taskId": t.id, "maxEvents": 501}},
		{"dsh_tail", "maxBytes", args{"taskId": t.id, "maxBytes": 1023}},
		{"dsh_tail", "maxBytes", args{"taskId": t.id, "maxBytes": 1_000_001}},
		{"dsh_tail", "sinceCursor", args{"taskId": t.id, "sinceCursor": -1}},
		{"dsh_wait", "timeoutSec", args{"taskId": t.id, "timeoutSec": 31}},
		{"dsh_wait", "timeoutSec", args{"taskId": t.id, "timeoutSec": -1}},
		{"dsh_wait", "until", args{"taskId": t.id, "until": "the end"}},
		{"dsh_wait", "sinceCursor", args{"taskId": t.id, "sinceCursor": -1}},
		{"dsh_observe", "until", args{"taskId": t.id, "until": "never"}},
		{"dsh_cancel", "scope", args{"taskId": t.id, "scope": "everything"}},
		{"dsh_cancel", "sinceCursor", args{"taskId": t.id, "sinceCursor": -1}},
		{"dsh_delegate", "goal.objective", args{"cwd": cwd, "prompt": ok, "goal": args{}}},
		{"dsh_delegate", "goal.objective", args{"cwd": cwd, "goal": args{"objective": " "}}},
		{"dsh_delegate", "goal.maxGoalRounds", args{"cwd": cwd, "goal": args{"objective": e.text("goal"), "maxGoalRounds": 0}}},
		{"dsh_goal", "action", args{"taskId": t.id}},
		{"dsh_goal", "action", args{"taskId": t.id, "action": "stop"}},
		{"dsh_goal", "objective", args{"taskId": t.id, "action": "create"}},
		{"dsh_goal", "objective", args{"taskId": t.id, "action": "pause", "objective": e.text("goal")}},
		{"dsh_goal", "expectedRevision", args{"taskId": t.id, "action": "clear", "expectedRevision": 0}},
		{"dsh_fork", "turn", args{"taskId": t.id, "turn": 0}},
		{"dsh_fork", "cwd", args{"taskId": t.id, "cwd": cwd}},
		{"dsh_fork", "prompt", args{"taskId": t.id, "prompt": " "}},
		{"dsh_fork", "workspaceMode", args{"taskId": t.id, "workspaceMode": "shared"}},
		{"dsh_subagent", "subagentSessionId", args{"taskId": t.id, "action": "interrupt"}},
		{"dsh_subagent", "prompt", args{"taskId": t.id, "action": "prompt", "subagentSessionId": t.session}},
		{"dsh_list", "state", args{"state": "finished"}},
		{"dsh_list", "limit", args{"limit": 0}},
		{"dsh_list", "limit", args{"limit": 201}},
		{"dsh_release_workspace", "taskId", args{}},
		{"dsh_host_status", "verbose", args{"verbose": true}},
	} {
		a := b.try(c.tool, c.arguments)
		if !a.isError || a.get("error.code").String() != "invalid_argument" || !strings.Contains(a.get("error.message").String(), c.field) {
			shown := maps.Clone(c.arguments)
			maps.DeleteFunc(shown, func(name string, _ any) bool { return name == "prompt" })
			e.t.Errorf("%s %v: want invalid_argument that names %s, got %.300s", c.tool, shown, c.field, a.text)
		}
	}
	if after := e.scriptedCalls(); !slices.Equal(calls, after) {
		e.t.Errorf("calls that make no sense have reached the host: %v before, %v after", calls, after)
	}
	b.status(t).want(args{"turn.number": 1})
	if tasks := e.tasks(); len(tasks) != 1 {
		e.t.Errorf("delegations that make no sense have left tasks: %v", tasks)
	}
}

// scriptedCalls counts the writes that the scripted host got; a real one does not tell.
func (e *env) scriptedCalls() []int {
	h, ok := e.host.(*scriptedHost)
	if !ok {
		return nil
	}
	var counts []int
	for _, method := range []string{"session.create", "session.prompt", "session.cancel", "session.updateQueue", "session.rename", "session.fork", "goal.create"} {
		counts = append(counts, h.Calls(method))
	}
	return counts
}

func unknownTask(e *env) {
	b := e.bridge()
	const nobody = "dsh_000000000000"
	for _, tool := range []string{"dsh_status", "dsh_tail", "dsh_wait", "dsh_observe", "dsh_cancel", "dsh_followup", "dsh_continue", "dsh_release_workspace", "dsh_goal", "dsh_fork"} {
		arguments := args{"taskId": nobody}
		if tool == "dsh_followup" || tool == "dsh_continue" {
			arguments["prompt"] = e.prompt()
		}
		if tool == "dsh_goal" {
			arguments["action"] = "get"
		}
		a := b.mustFail("task_not_found", tool, arguments)
		if !strings.Contains(a.str("error.message"), nobody) || a.str("error.hint") == "" {
			e.t.Errorf("%s: the failure does not say which task and what to do: %s", tool, a.text)
		}
	}
	b.call("dsh_list", args{"state": "all"}).want(args{"tasks.#": 0, "more": nil})
}

func unknownCursor(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("fine")), nil)
	b.ended(t, t.cursor)
	for tool, arguments := range map[string]args{"dsh_wait": {}, "dsh_tail": {}, "dsh_followup": {"prompt": e.prompt()}, "dsh_cancel": {}} {
		arguments["taskId"], arguments["sinceCursor"] = t.id, 1_000_000
		a := b.mustFail("invalid_cursor", tool, arguments)
		a.want(args{"error.details.earliestCursor": 1})
		if a.num("error.details.cursor") < t.cursor {
			e.t.Errorf("%s: the failure does not tell the last cursor: %s", tool, a.text)
		}
	}
	b.status(t).want(args{"turn.number": 1})
}
