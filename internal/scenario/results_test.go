package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/labmodel"
)

// resultScenarios are about what dsh_result tells of turns of different shapes.
var resultScenarios = []scenario{
	{name: "the result of a turn in which nothing was done", run: resultEmpty},
	{name: "the result of edits and todos", run: resultEdits},
	{name: "the result of a failing test run", run: resultTests},
	{name: "the result of commits, tags and branches", run: resultGit},
	{name: "the result of a turn with subagents", run: resultSubagents},
	{name: "the result of a background job", run: resultJob},
	{name: "the result of a rejected approval", run: resultRejected},
	{name: "the result of a dismissed question", run: resultDismissed},
	{name: "the result of an interrupted turn", run: resultInterrupted},
	{name: "the result of a failed turn", run: resultFailed},
	{name: "the results of several turns", run: resultTurns},
	{name: "a result while the host is away", run: resultAway, ownHost: true},
}

// result reads what a task's last turn did, and checks that every pointer is to an event of the host.
func (e *env) result(b *bridge, t task, more ...args) answer {
	e.t.Helper()
	arguments := args{"taskId": t.id, "maxBytes": 100_000}
	for _, m := range more {
		for name, value := range m {
			arguments[name] = value
		}
	}
	a := b.call("dsh_result", arguments)
	a.want(args{"taskId": t.id, "contentUnavailable": nil, "left": nil})
	known := map[string]bool{}
	for _, ev := range b.tail(t, 0) {
		known[fmt.Sprint(ev.Get("sessionId"), " ", ev.Get("seq"))] = true
	}
	for _, list := range []string{"files", "commands", "tests", "git"} {
		for _, item := range a.get(list).Array() {
			if at := fmt.Sprint(item.Get("sessionId"), " ", item.Get("seq")); !known[at] {
				e.t.Errorf("%s points at %s, which no event has: %s", list, at, a.text)
			}
		}
	}
	return a
}

// done delegates the steps, waits for their end and reads the result.
func (e *env) done(b *bridge, steps ...labmodel.Step) (task, answer) {
	e.t.Helper()
	t := e.delegate(b, e.prompt(steps...), nil)
	b.ended(t, t.cursor)
	return t, e.result(b, t)
}

func resultEmpty(e *env) {
	b := e.bridge()
	_, a := e.done(b, e.say("nothing to do"))
	a.want(args{
		"turn": 1, "state": "completed", "steps": 1, "finalMessage.text": e.text("nothing to do"), "tokens.in": 10, "tokens.out": 5, "seqs.#": 2,
		"files": nil, "commands": nil, "tests": nil, "git": nil, "todos": nil, "subagents": nil, "jobs": nil, "warnings": nil,
	})
}

func resultEdits(e *env) {
	b := e.bridge()
	_, a := e.done(b,
		e.tool("write", args{"file_path": "a.txt", "content": e.text("one")}),
		e.tool("edit", args{"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
		e.tool("write", args{"file_path": "b.txt", "content": e.text("b")}),
		e.bash("rm b.txt"),
		e.tool("edit", args{"file_path": "a.txt", "old_string": "never there", "new_string": "two"}),
		e.tool("todo_write", args{"todos": []args{{"content": e.text("edit"), "status": "completed"}, {"content": e.text("test"), "status": "in_progress"}}}),
		e.say("edited"))
	a.want(args{
		"files.#":                       2,
		`files.#(path=="a.txt").change`: "created", `files.#(path=="a.txt").tool`: "edit", `files.#(path=="a.txt").times`: 2,
		`files.#(path=="b.txt").change`: "deleted", `files.#(path=="b.txt").tool`: "bash",
		"todos.completed": 1, "todos.open.#": 1, "todos.open.0.text": e.text("test"), "todos.open.0.status": "in_progress",
		"warnings.#": 1, "warnings.0.kind": "tool_failed", "warnings.0.tool": "edit", "warnings.0.detail": "FS_EDIT_NOT_FOUND",
	})
}

// resultTests brings a runner of its own along, so that no host needs one. What it prints is pytest's.
func resultTests(e *env) {
	b := e.bridge()
	cwd := e.workspace()
	const runner = "#!/bin/sh\necho '==== 1 failed, 2 passed in 0.01s ===='\nexit 1\n"
	if err := os.WriteFile(filepath.Join(cwd, "pytest"), []byte(runner), 0o700); err != nil {
		e.t.Fatal(err)
	}
	t := e.delegate(b, e.prompt(e.bash("echo '9 passed in 0.01s'"), e.bash("true && ./pytest -q"), e.say("tested")), args{"cwd": cwd})
	b.ended(t, t.cursor)
	a := e.result(b, t)
	a.want(args{
		"commands.#": 2, "commands.0.exit": 0, "commands.1.exit": 1, "commands.1.command": "true && ./pytest -q",
		"commands.1.output": "==== 1 failed, 2 passed in 0.01s ====",
		"tests.#":           1, "tests.0.runner": "pytest", "tests.0.passed": 2, "tests.0.failed": 1, "tests.0.skipped": 0, "tests.0.unsure": nil,
		"warnings.#": 1, "warnings.0.kind": "failed_command",
	})
	if a.num("tests.0.seq") != a.num("commands.1.seq") {
		e.t.Errorf("the test run is not the second command: %s", a.text)
	}
}

func resultGit(e *env) {
	b := e.bridge()
	const git = "git -c user.name=n -c user.email=n@example.com "
	_, a := e.done(b,
		e.bash("git init -q . && "+git+"commit --allow-empty -qm first && git tag v1 && git switch -q -c feature"),
		e.bash("echo git commit -m nothing; echo '[main 1234567] nothing'"),
		e.say("committed"))
	a.want(args{
		"git.#": 3, `git.#(kind=="commit").action`: "created", `git.#(kind=="tag").name`: "v1", `git.#(kind=="tag").action`: "created",
		`git.#(kind=="branch").name`: "feature", `git.#(kind=="branch").action`: "created", "warnings": nil,
	})
}

func resultSubagents(e *env) {
	b := e.bridge()
	child := e.prompt(e.tool("write", args{"file_path": "child.txt", "content": e.text("x")}), e.bash("echo "+e.canary+"; exit 3"), e.say("words of the child"))
	t, a := e.done(b,
		e.tool("subagent", args{"description": e.text("kid"), "prompt": child, "run_in_background": false}),
		e.say("words of the root"))
	session := a.str("subagents.0.sessionId")
	if below := e.person().subagents(t.session); len(below) != 1 || below[0] != session {
		e.t.Errorf("the subagent is %s, the host has %v", session, below)
	}
	a.want(args{
		"finalMessage.text": e.text("words of the root"), "subagents.#": 1, "subagents.0.state": "completed", "subagents.0.label": e.text("kid"),
		"subagents.0.mode": "one-shot", "subagents.0.turn": 1, "subagents.0.tokens.in": 30,
		"files.#": 1, "files.0.path": "child.txt", "files.0.sessionId": session,
		"commands.#": 1, "commands.0.exit": 3, "commands.0.sessionId": session,
		"warnings.#": 1, "warnings.0.kind": "failed_command", "warnings.0.sessionId": session,
	})
	b.one(b.tail(t, 0), "assistant/message", args{"sessionId": session, "seq": a.must("subagents.0.finalSeq").String(), "text": e.text("words of the child")})
}

func resultJob(e *env) {
	b := e.bridge()
	job := e.bashWith(until("go")+"; echo "+e.canary, args{"run_in_background": true})
	t := e.delegate(b, e.prompt(job, e.say("the job runs")), nil)
	next := b.ended(t, t.cursor).num("nextCursor")
	a := e.result(b, t)
	a.want(args{"turn": 1, "commands.#": 1, "commands.0.state": "running", "commands.0.exit": nil, "jobs.#": 1, "warnings": nil})
	if a.str("jobs.0.id") != a.str("commands.0.job") || a.num("jobs.0.seq") != a.num("commands.0.seq") {
		e.t.Errorf("the job is not the command: %s", a.text)
	}
	if err := os.WriteFile(filepath.Join(t.cwd, "go"), nil, 0o600); err != nil {
		e.t.Fatal(err)
	}
	b.ended(t, next)
	e.result(b, t).want(args{"turn": 2, "state": "completed", "jobs": nil, "commands": nil})
	e.result(b, t, args{"turn": 1}).want(args{"turn": 1, "commands.0.state": "running", "jobs": nil})
}

func resultRejected(e *env) {
	b := e.bridge()
	t, request := e.writing(b, e.outside())
	e.result(b, t).want(args{"turn": 1, "state": "running", "commands.0.state": "no_result", "finalMessage": nil, "warnings": nil})
	b.rejects(t, request)
	b.ended(t, t.cursor)
	a := e.result(b, t)
	a.want(args{
		"state": "completed", "commands.#": 1, "commands.0.state": "error", "commands.0.exit": nil, "files": nil,
		`warnings.#(kind=="approval").detail`: "rejected", `warnings.#(kind=="approval").tool`: "bash",
	})
	if !strings.Contains(a.str("commands.0.output"), "rejected") {
		e.t.Errorf("the command does not say why it was not run: %s", a.text)
	}
}

func resultDismissed(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.ask(), e.say("over")), nil)
	request := e.oneShown(b, t).Get("requestId").String()
	b.call("dsh_answer_question", args{"taskId": t.id, "requestId": request, "dismiss": true}).want(args{"accepted": true})
	b.ended(t, t.cursor)
	e.result(b, t).want(args{"state": "completed", "warnings.#": 1, "warnings.0.kind": "question_dismissed", "commands": nil})
}

func resultInterrupted(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.bash("echo "+e.canary), e.bash("sleep 600"), e.say("never")), nil)
	e.eventually(func() string {
		if len(pick(b.tail(t, 0), "tool/call", nil)) < 2 {
			return "the second command does not run"
		}
		return ""
	})
	e.result(b, t).want(args{"turn": 1, "state": "running", "commands.#": 2, "commands.0.exit": 0, "commands.1.state": "no_result", "seqs.#": 1})
	b.call("dsh_cancel", args{"taskId": t.id}).want(args{"accepted": true})
	b.ended(t, t.cursor)
	e.result(b, t).want(args{
		"turn": 1, "state": "aborted", "commands.#": 2, "commands.1.state": "aborted", "commands.1.exit": nil, "finalMessage": nil,
		`warnings.#(kind=="turn_failed").code`: nil, `warnings.#(kind=="no_final_message").seqs.#`: 1, `warnings.#(kind=="failed_command").seqs.#`: 1,
	})
}

func resultFailed(e *env) {
	b := e.bridge()
	_, a := e.done(b, e.bash("true"), labmodel.Step{Status: 400})
	a.want(args{"turn": 1, "state": "error", "commands.#": 1, `warnings.#(kind=="turn_failed").status`: 400, `warnings.#(kind=="no_final_message").seqs.#`: 1})
	a.str(`warnings.#(kind=="turn_failed").message`)
}

func resultTurns(e *env) {
	b := e.bridge()
	t, _ := e.done(b, e.bash("echo 1"), e.say("one"))
	for n := 2; n <= 3; n++ {
		cursor := b.followup(t, "queue", e.prompt(e.bash(fmt.Sprint("echo ", n)), e.say(fmt.Sprint("turn ", n))))
		b.ended(t, cursor)
	}
	e.result(b, t).want(args{"turn": 3, "finalMessage.text": e.text("turn 3"), "commands.0.output": "3"})
	e.result(b, t, args{"turn": 1}).want(args{"turn": 1, "finalMessage.text": e.text("one"), "commands.#": 1, "commands.0.output": "1"})
	second := e.result(b, t, args{"turn": 2})
	second.want(args{"turn": 2, "finalMessage.text": e.text("turn 2"), "commands.#": 1, "commands.0.output": "2"})
	// Another process, with nothing in memory, tells the same.
	if again := e.result(e.bridge(), t, args{"turn": 2}); again.text != second.text {
		e.t.Errorf("two processes tell different things:\n%s\n%s", second.text, again.text)
	}
	b.mustFail("invalid_argument", "dsh_result", args{"taskId": t.id, "turn": 4})
	b.mustFail("task_not_found", "dsh_result", args{"taskId": "dsh_000000000000"})
	if text := b.call("dsh_result", args{"taskId": t.id}).text; len(text) >= 700 {
		e.t.Errorf("the result of a one-step turn takes %d bytes: %s", len(text), text)
	}
}

func resultAway(e *env) {
	b := e.bridge()
	t, _ := e.done(b, e.bash("echo "+e.canary), e.say("done"))
	e.host.Kill()
	var a answer
	e.eventually(func() string {
		if a = b.call("dsh_result", args{"taskId": t.id}); a.get("contentUnavailable").Exists() {
			return ""
		}
		return "the result does not say that the host is away: " + a.text
	})
	a.want(args{"turn": 1, "state": "completed", "finalMessage": nil, "commands": nil})
	e.host.Start(e.t)
	e.eventually(func() string {
		if gjson.Get(b.call("dsh_result", args{"taskId": t.id}).text, "finalMessage.text").String() == e.text("done") {
			return ""
		}
		return "the result does not come back with the host"
	})
}
