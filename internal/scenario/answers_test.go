package scenario

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/ledger"
)

// answerScenarios are about questions and approvals, and those who decide them.
var answerScenarios = slices.Concat(questionScenarios, approvalScenarios, interruptionScenarios, confirmationScenarios)

func init() { scenarios = append(scenarios, answerScenarios...) }

// batch is a step in which the agent asks for one label, for several labels, and for words.
func (e *env) batch() labmodel.Step {
	return e.tool("ask_user_question", args{"questions": []args{
		{"id": e.id("color"), "question": e.text("which color?"), "header": e.text("Color"), "options": []args{
			{"label": e.text("red"), "description": e.text("warm")}, {"label": e.text("blue")},
		}},
		{"id": e.id("tags"), "question": e.text("which tags?"), "options": []args{{"label": e.text("a")}, {"label": e.text("b")}}, "multi_select": true},
		{"id": e.id("free"), "question": e.text("anything else?")},
	}})
}

// batchAnswers answers a batch.
func (e *env) batchAnswers() []args {
	return []args{
		{"id": e.id("color"), "selected": []string{e.text("red")}},
		{"id": e.id("tags"), "selected": []string{e.text("a"), e.text("b")}, "custom": e.text("c")},
		{"id": e.id("free"), "custom": e.text("nothing")},
	}
}

// id is an id of the conversation that bears the canary.
func (e *env) id(name string) string { return name + "-" + e.canary }

// ask is a step in which the agent asks one question.
func (e *env) ask() labmodel.Step {
	return e.tool("ask_user_question", args{"questions": []args{{"id": e.id("q"), "question": e.text("really?")}}})
}

// reply is the answer to it.
func (e *env) reply(words string) []args { return []args{{"id": e.id("q"), "custom": e.text(words)}} }

// write is a step in which the agent wants to make a file outside of its workspace, which takes a person's yes, and the
// command for it.
func (e *env) write(target string) (step labmodel.Step, command string) {
	command = fmt.Sprintf(`touch %s && echo "%s <&>"`, target, e.text("wrote"))
	return e.bashWith(command, args{"sandbox_permissions": "danger-full-access", "justification": e.text("it is needed")}), command
}

// outside is a file that is not there, in a fresh directory beside the workspaces.
func (e *env) outside() string {
	e.t.Helper()
	return filepath.Join(e.workspace(), e.canary)
}

// wantFile checks whether a file is there.
func (e *env) wantFile(path string, there bool) {
	e.t.Helper()
	if _, err := os.Stat(path); err != nil && !os.IsNotExist(err) {
		e.t.Fatal(err)
	} else if (err == nil) != there {
		e.t.Errorf("%s is there: %t, want %t", path, err == nil, there)
	}
}

// writable is where the scripted host may write: the directory in which a test's temporary directories are.
func writable(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(filepath.Dir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// shown waits until n requests of a task are pending, and returns them, oldest first. Every answer has to show the
// same.
func (e *env) shown(b *bridge, t task, n int) []gjson.Result {
	e.t.Helper()
	cursor := t.cursor
	wait := answer{}
	e.eventually(func() string {
		wait = b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": cursor, "until": "attention", "timeoutSec": 30})
		if wait.str("reason") == "attention" && wait.get("pending.#").Int() == int64(n) && !wait.get("pending.#.unavailable").Get("0").Exists() {
			return ""
		}
		if wait.str("reason") != "attention" {
			cursor = wait.num("nextCursor") // a turn that ends while a subagent works on
		}
		return fmt.Sprintf("the wait shows not %d requests but %s", n, wait.text)
	})
	want := pendingOf(wait)
	for _, a := range []answer{b.status(t), b.call("dsh_tail", args{"taskId": t.id})} {
		if diff := cmp.Diff(want, pendingOf(a)); diff != "" {
			e.t.Errorf("what %s shows as pending (+) is not what the wait showed (-):\n%s", a.tool, diff)
		}
	}
	list := wait.must("pending").Array()
	for i, p := range list[1:] {
		if p.Get("ageSec").Int() > list[i].Get("ageSec").Int() {
			e.t.Errorf("the older request comes later: %s", wait.text)
		}
	}
	return list
}

// oneShown is shown for a task with a single request.
func (e *env) oneShown(b *bridge, t task) gjson.Result {
	e.t.Helper()
	return e.shown(b, t, 1)[0]
}

// pendingOf are the pending requests in an answer, without their age.
func pendingOf(a answer) []map[string]any {
	a.t.Helper()
	var list []map[string]any
	if err := json.Unmarshal([]byte(a.must("pending").Raw), &list); err != nil {
		a.t.Fatal(err)
	}
	for _, p := range list {
		delete(p, "ageSec")
	}
	return list
}

// sameRequest checks that a request is shown as it was before.
func (e *env) sameRequest(before, now gjson.Result) {
	e.t.Helper()
	without := func(r gjson.Result) any {
		m, _ := r.Value().(map[string]any)
		delete(m, "ageSec")
		return m
	}
	if diff := cmp.Diff(without(before), without(now)); diff != "" {
		e.t.Errorf("the request is not shown as it was (-before +now):\n%s", diff)
	}
}

// answers answers a question, which has to be accepted.
func (b *bridge) answers(t task, request gjson.Result, answers []args) int64 {
	b.t.Helper()
	a := b.call("dsh_answer_question", args{"taskId": t.id, "requestId": request.Get("requestId").String(), "answers": answers})
	a.want(args{"taskId": t.id, "requestId": request.Get("requestId").String(), "accepted": true, "outcome": "answered"})
	return a.num("cursor")
}

// decision are the arguments that decide an approval.
func decision(t task, request gjson.Result, outcome string) args {
	return args{"taskId": t.id, "requestId": request.Get("requestId").String(), "outcome": outcome}
}

// allows allows an approval, which has to be accepted; rejects rejects it.
func (b *bridge) allows(t task, request gjson.Result) {
	b.t.Helper()
	b.decides(t, request, "allow_once", "allowed once")
}
func (b *bridge) rejects(t task, request gjson.Result) {
	b.t.Helper()
	b.decides(t, request, "reject", "rejected")
}

func (b *bridge) decides(t task, request gjson.Result, outcome, told string) {
	b.t.Helper()
	b.call("dsh_resolve_approval", decision(t, request, outcome)).want(args{
		"taskId": t.id, "requestId": request.Get("requestId").String(), "accepted": true, "outcome": told,
	})
}

// over waits for the good end of a task that has been decided upon.
func (e *env) over(b *bridge, t task, words string) {
	e.t.Helper()
	e.until(b, t, "over", func(a answer) bool {
		return a.str("execution") == "turn_completed" && a.get("finalMessage.text").String() == e.text(words)
	}).want(args{"pending": nil})
}

// records counts the records of a type in a task's ledger that are about a request.
func (e *env) records(t task, kind ledger.Type, request gjson.Result) int {
	e.t.Helper()
	book, err := e.readLedger(t.id)
	if err != nil {
		e.t.Fatal(err)
	}
	n := 0
	for _, r := range book.Records {
		if r.Type == kind && r.Coordination.RequestID == request.Get("requestId").String() {
			n++
		}
	}
	return n
}
