package scenario

import (
	"strings"

	"github.com/coder/websocket"
)

// faultScenarios are about a host and a connection that misbehave, which only the scripted host does on demand.
var faultScenarios = []scenario{
	{name: "a frame of 5 MB", run: bigFrame, scriptedOnly: true},
	{name: "lost frames", run: lostFrames, scriptedOnly: true},
	{name: "the last frame of a turn is lost", run: lostEnd, scriptedOnly: true},
	{name: "a dropped socket in mid-turn", run: droppedSocket, scriptedOnly: true},
	{name: "a busy host", run: busyHost, scriptedOnly: true},
	{name: "a newer host", run: newerHost, scriptedOnly: true},
	{name: "the host becomes a newer one", run: upgradedHost, scriptedOnly: true},
}

// complete checks that a task's ledger becomes equal to the host's log by what the stream brings, without any call.
func (e *env) complete(t task) {
	e.t.Helper()
	e.eventually(func() string { return e.differs(t.id) })
}

func bigFrame(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.endless(), nil)
	e.running(b, t)
	seq, err := e.scripted().BigFrame(t.session, 5<<20)
	if err != nil {
		e.t.Fatal(err)
	}
	cursor := b.followup(t, "steer", e.prompt(e.say("after the big one")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("after the big one")})
	e.complete(t)
	book, err := e.readLedger(t.id)
	if err != nil {
		e.t.Fatal(err)
	}
	found := false
	for _, ev := range book.events()[t.session] {
		found = found || ev.Seq == seq && ev.Type == "request/header"
	}
	if !found {
		e.t.Errorf("the event of the big frame, seq %d, is not in the ledger", seq)
	}
	if strings.Contains(b.stderr.String(), "connection to the host lost") {
		e.t.Error("the connection broke at the big frame")
	}
}

func lostFrames(e *env) {
	b := e.bridge()
	for _, lost := range []string{"turn/start", "user/message", "assistant/message", "tool/call", "step/end", "assistant/chunk", "agent/inbox/spliced"} {
		e.scripted().LoseNextFrame(func(kind, eventType string) bool { return kind == "session/event" && eventType == lost })
		t := e.delegate(b, e.prompt(e.bash("echo "+e.canary), e.say("nothing is missing")), nil)
		b.ended(t, t.cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("nothing is missing")})
		e.complete(t)
		events := b.tail(t, 0)
		b.one(events, "assistant/message", args{"text": e.text("nothing is missing")})
		b.one(events, "tool/call", nil)
	}
}

// lostEnd loses the frame behind which nothing comes. Whoever asks for the status is told the truth.
func lostEnd(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("first")), args{"title": e.text("title")})
	b.ended(t, t.cursor)
	e.scripted().LoseNextFrame(func(kind, eventType string) bool { return eventType == "turn/end" })
	b.followup(t, "queue", e.prompt(e.say("second")))
	ctx, cancel := e.within()
	defer cancel()
	if _, err := e.scripted().WaitEvent(ctx, t.session, "turn/end", 2); err != nil {
		e.t.Fatal(err)
	}
	b.status(t).want(args{"execution": "turn_completed", "turn.number": 2, "finalMessage.text": e.text("second")})
}

func droppedSocket(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.endless(), nil)
	ctx, cancel := e.within()
	defer cancel()
	for n, drop := range []func(){
		e.scripted().DropConnections,
		func() { e.scripted().CloseConnections(int(websocket.StatusGoingAway), "bye") },
		func() { e.scripted().CloseConnections(int(websocket.StatusInternalError), "oops") },
		e.scripted().DropConnections,
	} {
		if _, err := e.scripted().WaitEvent(ctx, t.session, "tool/result", n+1); err != nil {
			e.t.Fatal(err)
		}
		if err := e.scripted().WaitConnections(ctx, 1); err != nil {
			e.t.Fatal(err)
		}
		drop()
	}
	if err := e.scripted().WaitConnections(ctx, 1); err != nil {
		e.t.Fatal(err)
	}
	e.running(b, t)
	cursor := b.followup(t, "steer", e.prompt(e.say("nothing was lost")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("nothing was lost")})
	e.complete(t)
}

// busyHost streams a great deal that is none of ours.
func busyHost(e *env) {
	e.scripted().ForeignNoise(e.t.Context(), 5000)
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.bash("echo "+e.canary), e.say("heard")), nil)
	b.ended(t, t.cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("heard")})
	e.complete(t)
	if strings.Contains(b.stderr.String(), "connection to the host lost") {
		e.t.Error("the connection broke")
	}
}

func newerHost(e *env) {
	e.scripted().AnswerAs404()
	b := e.bridge()
	b.lists()
	for tool, arguments := range map[string]args{"dsh_host_status": {}, "dsh_delegate": {"prompt": e.prompt(), "cwd": e.workspace()}} {
		a := b.mustFail("host_incompatible", tool, arguments)
		if !strings.Contains(a.text, "0.1.0-rc.6") || !strings.Contains(a.text, "0.1.1-rc.2") {
			e.t.Errorf("%s: the failure does not name the versions that would do: %s", tool, a.text)
		}
	}
	if tasks := e.tasks(); len(tasks) != 0 {
		e.t.Errorf("a delegation that was refused has left tasks: %v", tasks)
	}
	b.call("dsh_list", args{}).want(args{"tasks.#": 0})

	// The person starts one that is spoken to.
	e.scripted().ClearFaults()
	t := e.delegate(b, e.prompt(e.say("hello")), nil)
	b.ended(t, t.cursor).want(args{"finalMessage.text": e.text("hello")})
}

// upgradedHost puts a newer host under the address of one that had tasks.
func upgradedHost(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("before")), nil)
	b.ended(t, t.cursor)
	e.scripted().AnswerAs404()
	e.scripted().DropConnections()
	s := e.until(b, t, "without its host", func(a answer) bool { return a.str("availability") != "connected" })
	s.want(args{"status": "unknown", "execution": "turn_completed", "recovery": "offline"})
	e.eventually(func() string {
		if why := b.status(t).str("contentUnavailable"); !strings.HasPrefix(why, "host_incompatible") {
			return "the content is said to be unavailable because of " + why
		}
		return ""
	})
	b.mustFail("host_incompatible", "dsh_followup", args{"taskId": t.id, "prompt": e.prompt()})
	e.scripted().ClearFaults()
	e.until(b, t, "connected", func(a answer) bool { return a.str("availability") == "connected" }).want(args{
		"status": "turn_completed", "finalMessage.text": e.text("before"),
	})
}
