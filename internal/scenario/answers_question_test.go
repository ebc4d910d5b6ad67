package scenario

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/ledger"
)

// questionScenarios are about questions, and about what an answer has to be.
var questionScenarios = []scenario{
	{name: "a batch of questions is answered", run: batchAnswered},
	{name: "wrong answers are refused", run: wrongAnswers},
	{name: "a question is dismissed", run: questionDismissed},
	{name: "a question is cancelled with its turn", run: questionCancelled},
	{name: "an answer for another task", run: answerForAnother},
	{name: "a subagent's question", run: subagentQuestion},
	{name: "a subagent's question beside an approval", run: twoRequests},
}

func batchAnswered(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.batch()), nil)
	q := e.oneShown(b, t)
	want := fmt.Sprintf(`[
		{"id":%[1]q,"question":%[2]q,"header":%[3]q,"options":[{"label":%[4]q,"description":%[5]q},{"label":%[6]q}]},
		{"id":%[7]q,"question":%[8]q,"options":[{"label":%[9]q},{"label":%[10]q}],"multiSelect":true},
		{"id":%[11]q,"question":%[12]q}]`,
		e.id("color"), e.text("which color?"), e.text("Color"), e.text("red"), e.text("warm"), e.text("blue"),
		e.id("tags"), e.text("which tags?"), e.text("a"), e.text("b"), e.id("free"), e.text("anything else?"))
	if diff := cmp.Diff(gjson.Parse(want).Value(), q.Get("questions").Value()); diff != "" {
		e.t.Errorf("the questions are not shown as they were asked (-asked +shown):\n%s", diff)
	}
	if q.Get("type").String() != "question" || q.Get("sessionId").Exists() {
		e.t.Errorf("the request is not shown as the root's question: %s", q)
	}
	b.one(b.tail(t, 0), "question/requested", args{"requestId": q.Get("requestId").String()})

	b.answers(t, q, e.batchAnswers())
	a := b.ended(t, t.cursor)
	a.want(args{"execution": "turn_completed", "pending": nil})
	events := b.tail(t, 0)
	b.one(events, "question/resolved", args{"requestId": q.Get("requestId").String(), "outcome": "answered"})
	call := b.one(events, "tool/call", args{"tool": "ask_user_question"})
	got := b.one(events, "tool/result", args{"callId": call.Get("callId").String()}).Get("text").String()
	given := e.batchAnswers()
	given[2]["selected"] = []string{}
	data, err := json.Marshal(args{"answers": given})
	if err != nil {
		e.t.Fatal(err)
	}
	if diff := cmp.Diff(gjson.ParseBytes(data).Value(), gjson.Parse(got).Value()); diff != "" {
		e.t.Errorf("the agent got other answers (-given +got):\n%s\n%s", diff, got)
	}
	if !strings.Contains(a.str("finalMessage.text"), e.text("red")) {
		e.t.Errorf("the agent did not go on with the answer: %s", a.text)
	}
}

func wrongAnswers(e *env) {
	r := e.relay()
	b := e.viaRelay(r)
	t := e.delegate(b, e.prompt(e.batch(), e.say("at last")), nil)
	q := e.oneShown(b, t)
	good := e.batchAnswers()
	with := func(i int, a args) []args {
		list := slices.Clone(good)
		list[i] = a
		return list
	}
	color, tags, free := e.id("color"), e.id("tags"), e.id("free")
	for _, c := range []struct {
		name    string
		answers []args
		names   string // what the refusal has to name
	}{
		{"one is missing", good[:2], free},
		{"one too many", append(slices.Clone(good), good[2]), "3 questions"},
		{"another order", []args{good[1], good[0], good[2]}, color},
		{"an unknown id", with(0, args{"id": e.id("colour"), "selected": []string{e.text("red")}}), color},
		{"an unknown label", with(0, args{"id": color, "selected": []string{e.text("green")}}), color},
		{"two labels for a single choice", with(0, args{"id": color, "selected": []string{e.text("red"), e.text("blue")}}), color},
		{"label and words for a single choice", with(0, args{"id": color, "selected": []string{e.text("red")}, "custom": e.text("dark")}), color},
		{"nothing for a single choice", with(0, args{"id": color}), color},
		{"a label twice", with(1, args{"id": tags, "selected": []string{e.text("a"), e.text("a")}}), tags},
		{"nothing for a multiple choice", with(1, args{"id": tags, "selected": []string{}}), tags},
		{"blank words", with(2, args{"id": free, "custom": " \n\t"}), free},
		{"a label where there is none", with(2, args{"id": free, "selected": []string{e.text("a")}}), free},
		{"no words", with(2, args{"id": free}), free},
	} {
		a := b.mustFail("invalid_answer", "dsh_answer_question", args{"taskId": t.id, "requestId": q.Get("requestId").String(), "answers": c.answers})
		if !strings.Contains(a.str("error.message"), c.names) {
			e.t.Errorf("%s: the refusal does not name %s: %s", c.name, c.names, a.text)
		}
	}
	for name, arguments := range map[string]args{
		"neither answers nor a dismissal": {},
		"both":                            {"answers": good, "dismiss": true},
		"an unknown argument":             {"answers": good, "note": e.text("note")},
	} {
		arguments["taskId"], arguments["requestId"] = t.id, q.Get("requestId").String()
		if a := b.try("dsh_answer_question", arguments); !a.isError || a.str("error.code") != "invalid_argument" {
			e.t.Errorf("%s: want invalid_argument, got %s", name, a.text)
		}
	}
	b.mustFail("wrong_type", "dsh_resolve_approval", decision(t, q, "reject"))
	if n := r.sent(); n != 0 {
		e.t.Errorf("%d wrong answers were sent", n)
	}
	e.sameRequest(q, e.oneShown(b, t))
	b.answers(t, q, good)
	e.over(b, t, "at last")
	a := b.mustFail("not_pending", "dsh_answer_question", args{"taskId": t.id, "requestId": q.Get("requestId").String(), "answers": good})
	if !strings.Contains(a.str("error.message"), "answered") {
		e.t.Errorf("the refusal does not tell how the question came out: %s", a.text)
	}
	if n := r.sent(); n != 1 {
		e.t.Errorf("%d answers were sent for one right one", n)
	}
}

func questionDismissed(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.batch(), e.say("without an answer")), nil)
	q := e.oneShown(b, t)
	arguments := args{"taskId": t.id, "requestId": q.Get("requestId").String(), "dismiss": true}
	b.call("dsh_answer_question", arguments).want(args{"accepted": true, "outcome": "dismissed"})
	b.status(t).want(args{"pending": nil})
	b.ended(t, t.cursor).want(args{"execution": "turn_completed", "pending": nil, "finalMessage.text": e.text("without an answer")})
	events := b.tail(t, 0)
	b.one(events, "question/resolved", args{"requestId": q.Get("requestId").String(), "outcome": "cancelled"})
	b.one(events, "tool/result", args{"isError": "true"})
	b.mustFail("not_pending", "dsh_answer_question", arguments)
}

func questionCancelled(e *env) {
	r := e.relay()
	b := e.viaRelay(r)
	t := e.delegate(b, e.prompt(e.batch(), e.say("never said")), nil)
	q := e.oneShown(b, t)
	b.call("dsh_cancel", args{"taskId": t.id}).want(args{"accepted": true, "wasRunning": true, "execution": "canceled"})
	b.status(t).want(args{"execution": "canceled", "pending": nil})
	b.one(b.tail(t, 0), "question/resolved", args{"requestId": q.Get("requestId").String(), "outcome": "cancelled"})
	a := b.mustFail("not_pending", "dsh_answer_question", args{"taskId": t.id, "requestId": q.Get("requestId").String(), "answers": e.batchAnswers()})
	if !strings.Contains(a.str("error.message"), "cancelled") {
		e.t.Errorf("the refusal does not tell that the question was cancelled: %s", a.text)
	}
	if n := r.sent(); n != 0 {
		e.t.Errorf("%d answers were sent to a question that was cancelled", n)
	}
}

func answerForAnother(e *env) {
	r := e.relay()
	b := e.viaRelay(r)
	target := e.outside()
	step, _ := e.write(target)
	asking, writing := e.delegate(b, e.prompt(e.ask(), e.say("asked")), nil), e.delegate(b, e.prompt(step, e.say("written")), nil)
	q, a := e.oneShown(b, asking), e.oneShown(b, writing)
	b.call("dsh_list", args{}).want(args{"tasks.#": 2, "tasks.0.pending": 1, "tasks.1.pending": 1})

	arguments := args{"taskId": writing.id, "requestId": q.Get("requestId").String(), "answers": e.reply("yes")}
	b.mustFail("wrong_task", "dsh_answer_question", arguments).want(args{"error.details.taskId": asking.id})
	b.mustFail("wrong_task", "dsh_resolve_approval", decision(asking, a, "allow_once")).want(args{"error.details.taskId": writing.id})
	b.mustFail("wrong_type", "dsh_answer_question", args{"taskId": writing.id, "requestId": a.Get("requestId").String(), "dismiss": true})
	b.mustFail("wrong_type", "dsh_resolve_approval", decision(asking, q, "allow_once"))
	if n := r.sent(); n != 0 {
		e.t.Errorf("%d answers were sent to requests that they were not for", n)
	}
	e.sameRequest(q, e.oneShown(b, asking))
	e.sameRequest(a, e.oneShown(b, writing))
	e.wantFile(target, false)

	b.answers(asking, q, e.reply("yes"))
	b.rejects(writing, a)
	e.over(b, asking, "asked")
	e.over(b, writing, "written")
}

// child is a step in which the agent starts another one, which works on in the background.
func (e *env) child(prompt string) labmodel.Step {
	return e.tool("subagent", args{"description": e.text("child"), "prompt": prompt})
}

func subagentQuestion(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.child(e.prompt(e.batch())), e.say("words of the root")), nil)
	q := e.oneShown(b, t)
	child := q.Get("sessionId").String()
	if below := e.person().subagents(t.session); !slices.Equal(below, []string{child}) {
		e.t.Errorf("the question is from %q, the subagents are %v", child, below)
	}
	b.status(t).want(args{"execution": "awaiting_input", "subagents.0.sessionId": child, "subagents.0.state": "running"})

	b.answers(t, q, e.batchAnswers())
	e.until(b, t, "done with its subagent", func(a answer) bool {
		return a.str("execution") == "turn_completed" && a.get("subagents.0.state").String() == "completed"
	}).want(args{"pending": nil})
	events := b.tail(t, 0)
	b.one(events, "question/resolved", args{"sessionId": child, "requestId": q.Get("requestId").String(), "outcome": "answered"})
	if got := b.one(events, "tool/result", args{"sessionId": child}).Get("text").String(); gjson.Get(got, "answers.1.custom").String() != e.text("c") {
		e.t.Errorf("the subagent got other answers: %s", got)
	}
	for _, kind := range []ledger.Type{ledger.TypeQuestionRequested, ledger.TypeRespondAccepted} {
		if n := e.records(t, kind, q); n != 1 {
			e.t.Errorf("the ledger has %d records of type %s for the question, want one", n, kind)
		}
	}
}

// twoRequests has a task with two requests, of which the approval came first. The host brings questions before
// approvals when a bridge connects, and yet the older one is shown first.
func twoRequests(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.child(e.prompt(e.say("words of the child"))), e.say("words of the root")), nil)
	child := e.until(b, t, "done with its subagent", func(a answer) bool {
		return a.str("execution") == "turn_completed" && a.get("subagents.0.state").String() == "completed"
	}).str("subagents.0.sessionId")
	target := e.outside()
	step, command := e.write(target)
	b.followup(t, "queue", e.prompt(step, e.say("written")))
	first := e.oneShown(b, t)
	e.person().call("subagent.prompt", args{"parentSessionId": t.session, "childSessionId": child, "mode": "continuable",
		"content": []args{{"type": "text", "text": e.prompt(e.ask(), e.say("asked"))}}})
	inOrder := func(list []gjson.Result) {
		e.t.Helper()
		e.sameRequest(first, list[0])
		if list[0].Get("command").String() != command || list[0].Get("sessionId").Exists() {
			e.t.Errorf("the older request is not the root's approval: %s", list[0])
		}
		if list[1].Get("type").String() != "question" || list[1].Get("sessionId").String() != child {
			e.t.Errorf("the younger request is not the subagent's question: %s", list[1])
		}
	}
	list := e.shown(b, t, 2)
	inOrder(list)
	b.status(t).want(args{"execution": "awaiting_approval"})
	b.kill()
	b = e.bridge()
	again := e.shown(b, t, 2)
	inOrder(again)
	e.sameRequest(list[1], again[1])

	b.answers(t, list[1], e.reply("yes"))
	e.sameRequest(first, e.oneShown(b, t))
	b.rejects(t, first)
	e.until(b, t, "over", func(a answer) bool { return a.str("execution") == "turn_completed" && !a.get("pending").Exists() })
	e.wantFile(target, false)
}
