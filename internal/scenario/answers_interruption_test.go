package scenario

import (
	"strings"

	"github.com/tidwall/gjson"

	"dsh-agentlink/ledger"
)

// interruptionScenarios are about connections and processes that come to their end while a request is pending.
var interruptionScenarios = []scenario{
	{name: "requests outlive a lost connection", run: connectionLost},
	{name: "requests outlive the bridge", run: bridgeKilledAsking},
	{name: "requests are answered while the bridge is away", run: answeredElsewhere},
	{name: "approvals do not outlive the host", run: hostKilledApproving, ownHost: true},
	{name: "an answer is lost on its way", run: answerLost},
	{name: "a receipt is lost", run: receiptLost},
}

// connectionLost cuts the connection while one task asks and another wants to write.
func connectionLost(e *env) {
	r := e.relay()
	b := e.viaRelay(r)
	target := e.outside()
	write, _ := e.write(target)
	asking, writing := e.delegate(b, e.prompt(e.batch(), e.say("asked")), nil), e.delegate(b, e.prompt(write, e.say("written")), nil)
	requests := map[task]gjson.Result{asking: e.oneShown(b, asking), writing: e.oneShown(b, writing)}
	q, a := requests[asking], requests[writing]

	r.setDown(true)
	for t, request := range requests {
		e.until(b, t, "cut off", func(a answer) bool { return a.str("availability") == "host_unreachable" }).want(args{
			"status": "unknown", "pending.#": 1, "pending.0.requestId": request.Get("requestId").String(), "pending.0.type": request.Get("type").String(),
			"pending.0.questions": nil, "pending.0.command": nil, "pending.0.reason": nil,
		}).str("pending.0.unavailable")
	}
	b.mustFail("host_unreachable", "dsh_answer_question", args{"taskId": asking.id, "requestId": q.Get("requestId").String(), "answers": e.batchAnswers()})
	b.mustFail("host_unreachable", "dsh_resolve_approval", decision(writing, a, "allow_once"))
	r.setDown(false)
	for range 3 {
		for t, request := range requests {
			e.sameRequest(request, e.oneShown(b, t))
		}
		e.reconnect(r)
	}
	if n := r.sent(); n != 0 {
		e.t.Errorf("%d answers were sent while nothing was decided", n)
	}

	for t, request := range requests {
		e.sameRequest(request, e.oneShown(b, t))
		requested := e.records(t, ledger.TypeQuestionRequested, request) + e.records(t, ledger.TypeApprovalRequested, request)
		changed := e.records(t, ledger.TypeWithdrawn, request) + e.records(t, ledger.TypeReplayed, request)
		if requested != 1 || changed != 0 {
			e.t.Errorf("a request that was pending all the time is recorded %d times, and %d times as gone or back", requested, changed)
		}
	}
	b.answers(asking, q, e.batchAnswers())
	b.allows(writing, a)
	e.over(b, asking, "asked")
	e.over(b, writing, "written")
	e.wantFile(target, true)
}

func bridgeKilledAsking(e *env) {
	b := e.bridge()
	target := e.outside()
	write, _ := e.write(target)
	asking, writing := e.delegate(b, e.prompt(e.batch(), e.say("asked")), nil), e.delegate(b, e.prompt(write, e.say("written")), nil)
	q, a := e.oneShown(b, asking), e.oneShown(b, writing)
	b.kill()

	b = e.bridge()
	e.sameRequest(a, e.oneShown(b, writing))
	e.sameRequest(q, e.oneShown(b, asking))
	b.allows(writing, a)
	b.answers(asking, q, e.batchAnswers())
	e.over(b, asking, "asked")
	e.over(b, writing, "written")
	e.wantFile(target, true)
}

// answeredElsewhere lets a person answer in the web UI, where a bridge that is not connected learns nothing of it.
func answeredElsewhere(e *env) {
	r := e.relay()
	b := e.viaRelay(r)
	t := e.delegate(b, e.prompt(e.ask(), e.ask(), e.ask(), e.say("over")), nil)
	for _, away := range []func(){
		func() { b.kill() },
		func() { r.setDown(true) },
	} {
		q := e.oneShown(b, t)
		away()
		e.person().respond(q.Get("requestId").String(), args{"sessionId": t.session, "answer": args{
			"answers": []args{{"id": e.id("q"), "selected": []string{}, "custom": e.text("by hand")}},
		}})
		r.setDown(false)
		if b.isGone() {
			b = e.viaRelay(r)
		}
		e.until(b, t, "asking the next question alone", func(a answer) bool {
			return a.str("availability") == "connected" && a.get("pending.#").Int() == 1 && a.str("pending.0.requestId") != q.Get("requestId").String()
		}).want(args{"execution": "awaiting_input"})
		if n := e.records(t, ledger.TypeWithdrawn, q); n != 1 {
			e.t.Errorf("a request that the host no longer brings was withdrawn %d times, want once", n)
		}
		late := b.mustFail("not_pending", "dsh_answer_question", args{"taskId": t.id, "requestId": q.Get("requestId").String(), "answers": e.reply("late")})
		if !strings.Contains(late.str("error.message"), "withdrawn") {
			e.t.Errorf("the refusal does not tell that the host no longer asks: %s", late.text)
		}
	}
	if n := r.sent(); n != 0 {
		e.t.Errorf("%d answers were sent to questions that a person has answered", n)
	}
	b.answers(t, e.oneShown(b, t), e.reply("through the bridge"))
	e.over(b, t, "over")
}

// hostKilledApproving kills the host while two tasks want to write. One was allowed to, but the word did not arrive.
func hostKilledApproving(e *env) {
	r := e.relay()
	b := e.viaRelay(r)
	targets := []string{e.outside(), e.outside()}
	waiting, w := e.writing(b, targets[0])
	allowed, a := e.writing(b, targets[1])
	requests := map[task]gjson.Result{waiting: w, allowed: a}
	r.loseNext(wholeAnswer)
	b.mustFail("host_unreachable", "dsh_resolve_approval", decision(allowed, a, "allow_once")).want(args{"error.details.outcome": "unknown"})
	e.host.Kill()
	for t, request := range requests {
		s := e.until(b, t, "without its host", func(a answer) bool { return a.str("availability") == "host_unreachable" })
		s.want(args{
			"status": "unknown", "execution": "awaiting_approval", "pending.#": 1, "pending.0.requestId": request.Get("requestId").String(),
			"pending.0.type": "approval", "pending.0.command": nil, "pending.0.reason": nil,
		}).str("pending.0.unavailable")
		if unknown := s.get("pending.0.answer").String() == "unknown"; unknown != (t == allowed) {
			e.t.Errorf("that the decision is on its way is shown: %t, want %t: %s", unknown, t == allowed, s.text)
		}
		b.mustFail("host_unreachable", "dsh_resolve_approval", decision(t, request, "allow_once"))
	}

	e.host.Start(e.t)
	for t, request := range requests {
		e.until(b, t, "interrupted", func(a answer) bool {
			return a.str("status") == "interrupted" && !a.get("pending").Exists()
		}).want(args{"execution": "interrupted", "turn.reason": "interrupted"})
		for _, outcome := range []string{"allow_once", "reject"} {
			late := b.mustFail("not_pending", "dsh_resolve_approval", decision(t, request, outcome))
			if !strings.Contains(late.str("error.message"), "withdrawn") {
				e.t.Errorf("the refusal does not tell that the host no longer asks: %s", late.text)
			}
		}
		cursor := b.followup(t, "queue", e.prompt(e.say("after all")))
		b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("after all"), "pending": nil})
	}
	if n := r.sent(); n != 1 {
		e.t.Errorf("%d decisions were sent, want the one that was lost", n)
	}
	for _, target := range targets {
		e.wantFile(target, false)
	}
}

// answerLost loses an answer before the host gets it: it is not known what became of it, until the host asks again.
func answerLost(e *env) {
	r := e.relay()
	b := e.viaRelay(r)
	t := e.delegate(b, e.prompt(e.batch(), e.say("asked")), nil)
	q := e.oneShown(b, t)
	arguments := args{"taskId": t.id, "requestId": q.Get("requestId").String(), "answers": e.batchAnswers()}
	r.loseNext(wholeAnswer)
	b.mustFail("host_unreachable", "dsh_answer_question", arguments).want(args{"error.details.outcome": "unknown"})
	b.status(t).want(args{"pending.#": 1, "pending.0.requestId": q.Get("requestId").String(), "pending.0.answer": "unknown"})
	if n := r.sent(); n != 1 {
		e.t.Errorf("one answer was sent %d times", n)
	}

	e.reconnect(r)
	e.sameRequest(q, e.oneShown(b, t))
	b.answers(t, q, e.batchAnswers())
	e.over(b, t, "asked")
	if n := r.sent(); n != 2 {
		e.t.Errorf("two answers were sent %d times", n)
	}
}

// receiptLost loses the host's receipt for a decision that it has taken.
func receiptLost(e *env) {
	r := e.relay()
	b := e.viaRelay(r)
	target := e.outside()
	t, a := e.writing(b, target)
	r.loseNext(itsReceipt)
	b.mustFail("host_unreachable", "dsh_resolve_approval", decision(t, a, "allow_once")).want(args{"error.details.outcome": "unknown"})
	e.until(b, t, "told what became of the decision", func(a answer) bool { return !a.get("pending").Exists() })
	b.ended(t, t.cursor).want(args{"execution": "turn_completed", "pending": nil, "finalMessage.text": e.text("over")})
	e.wantFile(target, true)
	b.one(b.tail(t, 0), "approval/decided", args{"outcome": "allowed-once"})
	late := b.mustFail("not_pending", "dsh_resolve_approval", decision(t, a, "allow_once"))
	if !strings.Contains(late.str("error.message"), "allowed-once") {
		e.t.Errorf("the refusal does not tell how it came out: %s", late.text)
	}
	if n := r.sent(); n != 1 {
		e.t.Errorf("the decision was sent %d times", n)
	}
}
