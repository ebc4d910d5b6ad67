package scenario

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/ledger"
)

// approvalScenarios are about approvals, and about what is done and not done because of them.
var approvalScenarios = []scenario{
	{name: "an approved write is done", run: approvedWrite},
	{name: "a rejected write is not done", run: rejectedWrite},
	{name: "a subagent's approval reaches nobody", run: subagentApproval},
	{name: "an approval that nobody decides in time", run: approvalTimeout},
	{name: "two processes answer at once", run: twoAnswers},
}

// writing delegates a task that wants to write a file outside of its workspace, and checks that all there is to know
// before a decision is shown.
func (e *env) writing(b *bridge, target string) (t task, a gjson.Result) {
	e.t.Helper()
	step, command := e.write(target)
	t = e.delegate(b, e.prompt(step, e.say("over")), nil)
	a = e.oneShown(b, t)
	for name, want := range map[string]string{
		"type": "approval", "toolName": "bash", "command": command, "reason": "escalate sandbox to danger-full-access: " + e.text("it is needed"),
	} {
		if got := a.Get(name).String(); got != want {
			e.t.Errorf("the approval's %s is shown as %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"sessionId", "questions", "answer", "unavailable"} {
		if a.Get(name).Exists() {
			e.t.Errorf("the approval is shown with %s: %s", name, a)
		}
	}
	events := b.tail(t, 0)
	b.one(events, "approval/requested", args{"requestId": a.Get("requestId").String()})
	call := b.one(events, "approval/asked", args{"tool": "bash"}).Get("callId").String()
	b.one(events, "tool/call", args{"callId": call})
	b.status(t).want(args{"execution": "awaiting_approval"})
	e.wantFile(target, false)
	return t, a
}

func approvedWrite(e *env) {
	b := e.bridge()
	target := e.outside()
	t, a := e.writing(b, target)
	b.allows(t, a)
	b.ended(t, t.cursor).want(args{"execution": "turn_completed", "pending": nil, "finalMessage.text": e.text("over")})
	e.wantFile(target, true)
	events := b.tail(t, 0)
	b.one(events, "approval/decided", args{"outcome": "allowed-once"})
	if text := b.one(events, "tool/result", args{"isError": ""}).Get("text").String(); !strings.Contains(text, e.text("wrote <&>")) {
		e.t.Errorf("the call was allowed and printed %q", text)
	}
	b.mustFail("not_pending", "dsh_resolve_approval", decision(t, a, "allow_once"))
	if n := e.records(t, ledger.TypeRespondAccepted, a); n != 1 {
		e.t.Errorf("the ledger has %d accepted answers, want one", n)
	}
}

// rejectedWrite rejects without the claim, which an approval would need.
func rejectedWrite(e *env) {
	r := e.relay()
	b := e.viaRelay(r)
	target := e.outside()
	t, a := e.writing(b, target)
	b.call("dsh_release_workspace", args{"taskId": t.id}).want(args{"released": true})
	b.mustFail("workspace_claim_missing", "dsh_resolve_approval", decision(t, a, "allow_once"))
	for _, outcome := range []string{"", "allow", "allow_always", "allowed-once", "ALLOW_ONCE"} {
		b.mustFail("invalid_argument", "dsh_resolve_approval", decision(t, a, outcome))
	}
	if n := r.sent(); n != 0 {
		e.t.Errorf("%d answers were sent that had to be refused", n)
	}
	e.sameRequest(a, e.oneShown(b, t))
	b.rejects(t, a)
	b.ended(t, t.cursor).want(args{"execution": "turn_completed", "pending": nil, "finalMessage.text": e.text("over")})
	e.wantFile(target, false)
	events := b.tail(t, 0)
	b.one(events, "approval/decided", args{"outcome": "rejected"})
	b.one(events, "tool/result", args{"isError": "true"})
	b.mustFail("not_pending", "dsh_resolve_approval", decision(t, a, "reject"))
}

// subagentApproval shows that nobody is asked on behalf of a subagent: the host lets it have nothing.
func subagentApproval(e *env) {
	b := e.bridge()
	target := e.outside()
	step, _ := e.write(target)
	t := e.delegate(b, e.prompt(e.child(e.prompt(step, e.say("words of the child"))), e.say("words of the root")), nil)
	session := e.until(b, t, "done with its subagent", func(a answer) bool {
		return a.str("execution") == "turn_completed" && a.get("subagents.0.state").String() == "completed"
	}).want(args{"pending": nil}).str("subagents.0.sessionId")
	e.wantFile(target, false)
	events := b.tail(t, 0)
	b.one(events, "approval/decided", args{"sessionId": session, "outcome": "rejected"})
	b.one(events, "assistant/message", args{"sessionId": session, "text": e.text("words of the child")})
	if asked := pick(events, "approval/requested", nil); len(asked) > 0 {
		e.t.Errorf("somebody was asked on behalf of a subagent: %s", asked)
	}
}

func approvalTimeout(e *env) {
	b := e.bridge("DSH_APPROVAL_TIMEOUT_MS=1000")
	target := e.outside()
	step, _ := e.write(target)
	t := e.delegate(b, e.prompt(step, e.say("over")), nil)
	e.over(b, t, "over")
	e.wantFile(target, false)
	events := b.tail(t, 0)
	b.one(events, "approval/decided", args{"outcome": "rejected"})
	request := b.one(events, "approval/requested", nil)
	b.mustFail("not_pending", "dsh_resolve_approval", decision(t, request, "allow_once"))
	if n := e.records(t, ledger.TypeRespondAccepted, request); n != 1 {
		e.t.Errorf("the ledger has %d accepted answers, want that of the timeout", n)
	}

	// Questions are nobody's but a person's: they wait.
	cursor := b.followup(t, "queue", e.prompt(e.ask(), e.say("answered")))
	asked := b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": cursor, "until": "attention", "timeoutSec": 30}).want(args{"reason": "attention"})
	b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": asked.num("nextCursor"), "until": "attention", "timeoutSec": 2}).want(args{
		"reason": "timeout", "execution": "awaiting_input", "pending.#": 1,
	})
	b.answers(t, e.oneShown(b, t), e.reply("yes"))
	e.over(b, t, "answered")
}

// twoAnswers lets two processes answer the same requests again and again.
func twoAnswers(e *env) {
	const rounds = 4
	r := e.relay()
	first, second := e.viaRelay(r), e.viaRelay(r)
	steps := []labmodel.Step{}
	for range rounds {
		steps = append(steps, e.ask())
	}
	target := e.outside()
	write, _ := e.write(target)
	t := e.delegate(first, e.prompt(append(steps, write, e.say("over"))...), nil)
	// race lets both answer, and returns the winner's answer.
	race := func(tool string, mine, others args) (a answer, wins bool) {
		request := e.oneShown(first, t)
		e.sameRequest(request, e.oneShown(second, t))
		for _, arguments := range []args{mine, others} {
			arguments["taskId"], arguments["requestId"] = t.id, request.Get("requestId").String()
		}
		one, two := first.begin(e.t.Context(), tool, mine), second.begin(e.t.Context(), tool, others)
		a, b := one.answer(), two.answer()
		if a.isError == b.isError {
			e.t.Fatalf("one of two has to be accepted:\n%s\n%s", a.text, b.text)
		}
		wins = !a.isError
		if !wins {
			a, b = b, a
		}
		a.want(args{"accepted": true, "requestId": request.Get("requestId").String()})
		b.failed("not_pending")
		if accepted, refused := e.records(t, ledger.TypeRespondAccepted, request), e.records(t, ledger.TypeRespondNotPending, request); accepted != 1 || refused > 1 {
			e.t.Errorf("the ledger has %d accepted answers and %d refused ones, want one and at most one", accepted, refused)
		}
		return a, wins
	}
	for i := range rounds {
		_, wins := race("dsh_answer_question", args{"answers": e.reply("from the first")}, args{"answers": e.reply("from the second")})
		words := map[bool]string{true: "from the first", false: "from the second"}[wins]
		e.eventually(func() string {
			if results := pick(first.tail(t, 0), "tool/result", nil); len(results) <= i || !strings.Contains(results[i].Get("text").String(), e.text(words)) {
				return fmt.Sprintf("the agent did not get the winner's answer %q: %s", words, results)
			}
			return ""
		})
	}
	a, _ := race("dsh_resolve_approval", args{"outcome": "allow_once"}, args{"outcome": "reject"})
	e.over(first, t, "over")
	e.over(second, t, "over")
	e.wantFile(target, a.str("outcome") == "allowed once")
	if n := r.sent(); n > 2*(rounds+1) {
		e.t.Errorf("%d answers were sent to %d requests by two processes", n, rounds+1)
	}
}
