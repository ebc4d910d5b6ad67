package scenario

import (
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"dsh-agentlink/internal/dshtest"
)

// restartScenarios are about processes that die: the bridge's, and the host's.
var restartScenarios = []scenario{
	{name: "the bridge is killed in mid-turn", run: bridgeKilled},
	{name: "the bridge is killed again and again", run: bridgeKilledOften},
	{name: "the bridge is away while the task goes on", run: bridgeAway},
	{name: "the host is killed in mid-turn", run: hostKilled, ownHost: true},
	{name: "the host is killed, and a person opens the session before the bridge is back", run: hostKilledAndOpened, ownHost: true},
	{name: "the host is killed between turns", run: hostKilledBetween, ownHost: true},
	{name: "the host is killed and forgets what it said last", run: hostForgets, ownHost: true},
	{name: "the host is killed with a question open", run: hostKilledAsking, ownHost: true},
	{name: "the host is away at the start", run: hostAwayAtStart, hostAway: true},
	{name: "another host under the address", run: anotherHost},
}

func bridgeKilled(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.endless(), nil)
	e.inCommand(b, t)
	seen := b.status(t)
	b.kill()

	b = e.bridge()
	s := b.status(t)
	s.want(args{"execution": "running", "turn.number": 1, "availability": "connected", "workspace.cwd": t.cwd})
	if s.num("cursor") < seen.num("cursor") {
		e.t.Errorf("the cursor went back from %d to %d", seen.num("cursor"), s.num("cursor"))
	}
	cursor := b.followup(t, "steer", e.prompt(e.say("carried on")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("carried on")})
	b.status(t).want(args{"turn.number": 1, "turn.reason": "completed"})
	for _, ev := range pick(b.tail(t, 0), "user/message", args{"from": "person"}) {
		e.t.Errorf("a message of the process that died is taken for a person's: %s", ev)
	}
}

// bridgeKilledOften kills processes that are in the midst of recording.
func bridgeKilledOften(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.endless(), nil)
	e.running(b, t)
	cursor := b.status(t).num("cursor")
	for range 8 {
		b.kill()
		b = e.bridge()
		a := b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": cursor, "timeoutSec": 30})
		a.want(args{"reason": "progress", "execution": "running"})
		if next := a.num("nextCursor"); next <= cursor {
			e.t.Fatalf("the cursor went from %d to %d", cursor, next)
		} else {
			cursor = next
		}
	}
	cursor = b.followup(t, "steer", e.prompt(e.say("survived")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("survived")})
}

func bridgeAway(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.endless(), nil)
	e.running(b, t)
	cursor := b.status(t).num("cursor")
	b.stop()

	e.person().prompt(t.session, "steer", e.prompt(e.say("while you were away")))
	e.eventually(func() string {
		if history := e.person().history(t.session); history[len(history)-1].Type != "turn/end" {
			return "the turn goes on"
		}
		return ""
	})
	b = e.bridge()
	b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": cursor, "until": "attention", "timeoutSec": 30}).want(args{
		"reason": "terminal", "execution": "turn_completed", "finalMessage.text": e.text("while you were away"),
	})
	b.one(b.tail(t, cursor), "turn/end", args{"reason": "completed"})
}

// holdingMessage delegates a task that is at work for good, with a message queued behind its turn, all of it on the host's
// disk.
func (e *env) holdingMessage(b *bridge) (t task, s answer) {
	e.t.Helper()
	t = e.delegate(b, e.endless(), nil)
	e.inCommand(b, t)
	b.followup(t, "queue", e.prompt(e.say("the queued one")))
	s = e.until(b, t, "holding the message", func(a answer) bool { return a.get("queue.nextTurn").Int() == 1 })
	e.stored(b, t, s.num("cursor"))
	return t, s
}

func hostKilled(e *env) {
	b := e.bridge()
	t, s := e.holdingMessage(b)
	wait := b.begin(e.t.Context(), "dsh_wait", args{"taskId": t.id, "sinceCursor": s.num("cursor"), "until": "attention", "timeoutSec": 30})
	e.host.Kill()

	wait.answer().want(args{"reason": "availability", "availability": "host_unreachable", "execution": "running", "status": "unknown"})
	s = b.status(t)
	s.want(args{
		"availability": "host_unreachable", "execution": "running", "status": "unknown", "lastKnownExecutionStatus": "running",
		"recovery": "offline", "queue.stale": true, "workspace.cwd": t.cwd, "routable": nil,
	})
	if why := s.str("contentUnavailable"); !strings.HasPrefix(why, "host_unreachable") {
		e.t.Errorf("the content is said to be unavailable because of %q", why)
	}
	a := b.call("dsh_tail", args{"taskId": t.id})
	a.str("contentUnavailable")
	for _, ev := range a.must("events").Array() {
		if ev.Get("text").Exists() || ev.Get("args").Exists() {
			e.t.Errorf("the host is away, and yet the tail has content: %s", ev)
		}
	}
	a = b.call("dsh_list", args{})
	a.want(args{"tasks.#": 1, "tasks.0.status": "unknown", "tasks.0.execution": "running"})
	a.str("hostUnreachable")
	for tool, arguments := range map[string]args{
		"dsh_followup": {"taskId": t.id, "prompt": e.prompt()}, "dsh_cancel": {"taskId": t.id}, "dsh_host_status": {},
		"dsh_delegate": {"prompt": e.prompt(), "cwd": e.workspace()},
	} {
		if hint := b.mustFail("host_unreachable", tool, arguments).str("error.hint"); !strings.Contains(hint, "dsh web --port") {
			e.t.Errorf("%s: the hint does not tell how to start a host: %s", tool, hint)
		}
	}

	e.host.Start(e.t)
	e.until(b, t, "interrupted", func(a answer) bool {
		return a.str("availability") == "connected" && a.str("execution") == "interrupted"
	}).want(args{"status": "interrupted", "turn.number": 1, "turn.reason": "interrupted", "recovery": "live"})
	cursor := b.followup(t, "queue", e.prompt(e.say("after the crash")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("after the crash")})
	b.status(t).want(args{"turn.number": 3, "queue.total": 0})
	events := b.tail(t, 0)
	b.one(events, "assistant/message", args{"text": e.text("the queued one")})
	b.one(events, "turn/end", args{"turn": "1", "reason": "interrupted"})
}

// hostKilledAndOpened leaves a message in the inbox of a session that the host holds in memory again: nothing takes it,
// and no frame tells so.
func hostKilledAndOpened(e *env) {
	b := e.bridge()
	t, _ := e.holdingMessage(b)
	b.stop()
	e.host.Kill()
	e.host.Start(e.t)
	e.person().call("session.rename", args{"sessionId": t.session, "title": e.text("opened")})

	b = e.bridge()
	e.until(b, t, "interrupted", func(a answer) bool { return a.str("execution") == "interrupted" }).want(args{
		"status": "interrupted", "turn.number": 1, "turn.reason": "interrupted", "recovery": "live", "title": e.text("opened"),
	})
	cursor := b.followup(t, "queue", e.prompt(e.say("after the crash")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("after the crash")})
	b.one(b.tail(t, 0), "assistant/message", args{"text": e.text("the queued one")})
}

func hostKilledBetween(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("before")), nil)
	b.ended(t, t.cursor)
	// A second turn makes sure that the first is on the host's disk.
	cursor := b.followup(t, "queue", e.prompt(e.bash("echo "+e.canary), e.say("before")))
	b.ended(t, cursor)
	e.host.Kill()
	// The last words are the host's, and it is away.
	s := e.until(b, t, "without its host", func(a answer) bool { return a.str("availability") == "host_unreachable" })
	s.want(args{"status": "unknown", "execution": "turn_completed", "lastKnownExecutionStatus": "turn_completed", "finalMessage": nil, "finalMessageStatus": "available"})
	s.str("contentUnavailable")
	b.call("dsh_release_workspace", args{"taskId": t.id}).want(args{"released": true, "workspace.cwd": t.cwd})

	e.host.Start(e.t)
	execution, said := e.person().outcome(t.session)
	e.until(b, t, "connected", func(a answer) bool { return a.str("availability") == "connected" }).want(args{
		"status": execution, "finalMessage.text": said, "recovery": "live", "lastKnownExecutionStatus": nil, "workspace": nil,
	})
	b.stop()
	b = e.bridge()
	second := e.delegate(b, e.prompt(e.say("into the same directory")), args{"cwd": t.cwd})
	b.ended(second, second.cursor).want(args{"finalMessage.text": e.text("into the same directory")})
	b.status(t).want(args{"status": execution, "finalMessage.text": said})
}

// hostForgets kills a host before it has written down what it has streamed. Started again, it goes on from an earlier
// event, and uses the numbers of those that it has forgotten for others.
func hostForgets(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.bash("echo "+e.canary), e.say("before")), nil)
	b.ended(t, t.cursor)
	b.followup(t, "queue", e.prompt(e.thinking()))
	e.running(b, t)
	b.followup(t, "queue", e.prompt(e.say("queued or forgotten")))
	e.until(b, t, "holding the message", func(a answer) bool { return a.get("queue.nextTurn").Int() == 1 })
	e.host.Forget(e, t)

	s := e.until(b, t, "connected", func(a answer) bool { return a.str("availability") == "connected" })
	s.want(args{"recovery": "live", "gaps": nil, "fault": nil})
	if execution, said := e.person().outcome(t.session); s.str("execution") == execution {
		s.want(args{"finalMessage.text": said})
	} else {
		// A turn of which the host has forgotten everything was interrupted all the same.
		s.want(args{"execution": "interrupted", "finalMessage": nil})
	}
	if strings.Contains(s.text, "never stored") {
		e.t.Errorf("what the host has forgotten is still told: %s", s.text)
	}
	e.complete(t)
	cursor := b.followup(t, "queue", e.prompt(e.say("after")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("after")})
	b.one(b.tail(t, cursor), "assistant/message", args{"text": e.text("after")})
}

func hostKilledAsking(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.tool("ask_user_question", args{"questions": []args{{"id": "q", "question": e.text("really?")}}})), nil)
	b.asked(t, t.cursor)
	e.host.Kill()
	s := e.until(b, t, "without its host", func(a answer) bool { return a.str("availability") == "host_unreachable" })
	s.want(args{"status": "unknown", "execution": "awaiting_input", "pending.#": 1, "pending.0.questions": nil})
	s.str("pending.0.unavailable")
	e.host.Start(e.t)
	e.until(b, t, "interrupted", func(a answer) bool { return a.str("status") == "interrupted" }).want(args{"pending": nil})
	cursor := b.followup(t, "queue", e.prompt(e.say("never mind")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("never mind"), "pending": nil})
}

func hostAwayAtStart(e *env) {
	b := e.bridge()
	if got := b.hello.ServerInfo.Name; got != "dsh-agentlink" {
		e.t.Errorf("initialize was answered by %q", got)
	}
	if b.hello.Instructions == "" {
		e.t.Error("initialize gave no instructions")
	}
	b.lists()
	cwd := e.workspace()
	for tool, arguments := range map[string]args{"dsh_host_status": {}, "dsh_delegate": {"prompt": e.prompt(e.say("hello")), "cwd": cwd}} {
		a := b.mustFail("host_unreachable", tool, arguments)
		if hint := a.str("error.hint"); !strings.Contains(hint, "dsh web --port "+port(e.host.URL())) {
			e.t.Errorf("%s: the hint does not tell how to start a host there: %s", tool, hint)
		}
	}
	if left := e.tasks(); len(left) > 0 {
		e.t.Errorf("a delegation that never left has made tasks: %v", left)
	}
	b.call("dsh_list", args{"state": "all"}).want(args{"tasks.#": 0}).str("hostUnreachable")

	e.host.Start(e.t)
	e.eventually(func() string {
		if a := b.try("dsh_host_status", args{}); a.isError {
			return a.text
		}
		return ""
	})
	t := e.delegate(b, e.prompt(e.say("hello")), args{"cwd": cwd})
	b.ended(t, t.cursor).want(args{"finalMessage.text": e.text("hello")})
}

// anotherHost puts a host without the task's session under the bridge's address.
func anotherHost(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("here")), nil)
	b.ended(t, t.cursor)
	b.stop()
	other := dshtest.New(dshtest.Options{})
	e.t.Cleanup(other.Close)
	if err := other.Start(); err != nil {
		e.t.Fatal(err)
	}
	b = e.bridge("DSH_HOST_URL=" + other.URL())
	s := b.status(t)
	s.want(args{"availability": "session_not_found", "status": "unknown", "execution": "turn_completed", "finalMessage": nil})
	s.str("contentUnavailable")
	b.call("dsh_wait", args{"taskId": t.id, "timeoutSec": 30}).want(args{"reason": "availability", "availability": "session_not_found"})
	b.mustFail("session_not_found", "dsh_followup", args{"taskId": t.id, "prompt": e.prompt()})
	b.call("dsh_release_workspace", args{"taskId": t.id}).want(args{"released": true})
	b.stop()
	// Nothing was lost: under the right address all is there again.
	b = e.bridge()
	b.status(t).want(args{"availability": "connected", "status": "turn_completed", "finalMessage.text": e.text("here")})
}

func port(url string) string { return url[strings.LastIndexByte(url, ':')+1:] }

// lists asks for the list of tools, which has to have those that a supervisor needs.
func (b *bridge) lists() {
	b.t.Helper()
	list, err := b.client.ListTools(b.t.Context(), mcp.ListToolsRequest{})
	if err != nil {
		b.t.Fatal(err)
	}
	missing := map[string]bool{
		"dsh_host_status": true, "dsh_delegate": true, "dsh_followup": true, "dsh_continue": true, "dsh_status": true, "dsh_tail": true,
		"dsh_wait": true, "dsh_observe": true, "dsh_cancel": true, "dsh_list": true, "dsh_release_workspace": true,
	}
	for _, tool := range list.Tools {
		delete(missing, tool.Name)
	}
	if len(missing) > 0 {
		b.t.Errorf("tools/list lacks %s", fmt.Sprint(missing))
	}
}
