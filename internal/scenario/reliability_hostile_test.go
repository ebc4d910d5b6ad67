//go:build reliability

package scenario

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"dsh-agentlink/internal/dshtest"
)

// hostileScenarios are about a host that sends too much, or what makes no sense.
var hostileScenarios = []scenario{
	{name: "frames of 64 MB", run: hugeFrames, scriptedOnly: true},
	{name: "frames that make no sense", run: nonsenseFrames, scriptedOnly: true},
	{name: "answers that make no sense", run: nonsenseAnswers, scriptedOnly: true},
	{name: "seqs that go backwards", run: backwardSeqs, scriptedOnly: true},
	{name: "another host takes the address for a while", run: changingHost, scriptedOnly: true},
}

// frame is a frame as it goes over the wire.
func frame(kind, session, rest string) []byte {
	return fmt.Appendf(nil, `{"type":"server-request","rpcId":"%s","method":"%s","payload":{"type":"%s","sessionId":"%s"%s}}`, uuid.NewString(), kind, kind, session, rest)
}

// eventFrame is a frame with an event; data is JSON, or not.
func eventFrame(session, kind string, seq int64, data string) []byte {
	return frame("session/event", session, fmt.Sprintf(`,"event":{"type":"%s","seq":%d,"time":%d,"data":%s}`, kind, seq, time.Now().UnixMilli(), data))
}

// lastSeq is that of a session's log at the scripted host.
func (e *env) lastSeq(session string) int64 {
	e.t.Helper()
	for _, s := range e.scripted().Sessions() {
		if s.ID == session {
			return s.LastSeq
		}
	}
	e.t.Fatalf("the host has no session %s", session)
	return 0
}

// memoryFactor is how much more memory than before a process may have, some time after it was given a great deal. One
// that kept any of it would have more.
const memoryFactor = 4

// returns waits until a process has given memory back. It goes on working meanwhile, in a task that is not concerned,
// for the memory of one that does nothing is returned at leisure.
func (e *env) returns(b *bridge, other task, before int64) {
	e.t.Helper()
	if raceEnabled {
		return // the race detector keeps what it needs
	}
	e.eventually(func() string {
		b.status(other)
		b.call("dsh_tail", args{"taskId": other.id, "maxEvents": 500, "maxBytes": 1_000_000})
		if now := b.resident(); now > memoryFactor*before {
			return fmt.Sprintf("%d MB are in memory, before it were %d MB", now>>20, before>>20)
		}
		return ""
	})
}

func hugeFrames(e *env) {
	b := e.bridge()
	t, other := e.finished(b, "before"), e.finished(b, "other")
	e.works(b, t, "warm")
	before := b.resident()

	// One of somebody else, and one that has to be recorded. The history answers up to 64 MiB at once.
	e.scripted().SendRaw(eventFrame("session-"+uuid.NewString(), "tool/result", 1, `"`+strings.Repeat("x", 64<<20)+`"`))
	seq, err := e.scripted().BigFrame(t.session, 60<<20)
	if err != nil {
		e.t.Fatal(err)
	}
	cursor := b.followup(t, "queue", e.prompt(e.say("behind them")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("behind them")})
	book, err := e.readLedger(t.id)
	if err != nil {
		e.t.Fatal(err)
	}
	recorded := false
	for _, ev := range book.events()[t.session] {
		recorded = recorded || ev.Seq == seq
	}
	if !recorded {
		e.t.Errorf("event %d, of 60 MB, is not in the ledger", seq)
	}
	if strings.Contains(b.stderr.String(), "connection to the host lost") {
		e.t.Error("the connection broke at a big frame")
	}
	peak := b.resident()
	e.returns(b, other, before)
	e.t.Logf("%d MB before, %d MB with the frames, %d MB after", before>>20, peak>>20, b.resident()>>20)
}

// reconnects drops a bridge's connection, and waits until it has noticed that and has another one.
func (e *env) reconnects(b *bridge, t task) {
	e.t.Helper()
	before := b.streams()
	e.eventually(func() string {
		if b.streams() > before {
			return ""
		}
		e.scripted().DropConnections()
		return "no other connection was made"
	})
	e.until(b, t, "connected", func(a answer) bool { return a.str("availability") == "connected" && a.str("recovery") == "live" })
}

// bottomless is how many arrays in each other would take more stack than a process may have.
const bottomless = 16 << 20

// nonsense are frames that are none, for a session and after its last seq.
func nonsense(session string, last int64) map[string][]byte {
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	veryDeep := strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000)
	all := map[string][]byte{
		"nothing":              {},
		"no JSON":              []byte("no JSON"),
		"a number":             []byte("17"),
		"an open end":          []byte(`{"type":"server-request","payload":{"type":"session/event"`),
		"an array":             []byte(deep),
		"open arrays":          []byte(strings.Repeat("[", 100_000)),
		"arrays without end":   eventFrame(session, "user/message", last+1, strings.Repeat("[", bottomless)),
		"open objects":         []byte(strings.Repeat(`{"payload":`, 100_000)),
		"no session":           eventFrame("", "turn/start", last+1, "{}"),
		"a path for a session": eventFrame("../../etc/passwd", "turn/start", last+1, "{}"),
		"a negative seq":       eventFrame(session, "turn/start", -5, "{}"),
		"a fraction":           bytes.Replace(eventFrame(session, "turn/start", 12345, "{}"), []byte("12345"), []byte("1.5"), 1),
		"a huge number":        bytes.Replace(eventFrame(session, "turn/start", 12345, "{}"), []byte("12345"), []byte("1e400"), 1),
		"no UTF-8":             eventFrame(session, "\xff\xfe", last+1, `{"turn":"`+"\xc3\x28"+`"}`),
		"no UTF-8 in a key":    frame("session/queue", session, `,"items":[{"id":"`+"\xa0\xa1"+`","placement":"queued"}]`),
		"a deep question":      frame("question/requested", session, `,"questions":`+deep),
		"a deep queue":         frame("session/queue", session, `,"items":`+veryDeep),
		"a deep job":           frame("session/jobs", session, `,"jobs":[{"id":`+veryDeep+`}]`),
		"an unknown kind":      frame("session/whatever", session, `,"x":`+deep),
		"a kind of 1 MB":       frame(strings.Repeat("k", 1<<20), session, ""),
	}
	for _, who := range []string{session, "session-" + uuid.NewString()} {
		all["deep data of "+who] = eventFrame(who, "user/message", last+1, deep)
		all["very deep data of "+who] = eventFrame(who, "user/message", last+1, veryDeep)
		all["a far seq of "+who] = eventFrame(who, "turn/end", 1<<53, `{"turn":1,"reason":{"kind":"completed"}}`)
		all["no data of "+who] = eventFrame(who, "turn/end", last+1, "null")
	}
	return all
}

// nonsenseFrames sends what a host never would. The history stays what it was, and so does the ledger.
func nonsenseFrames(e *env) {
	b := e.bridge()
	t := e.finished(b, "before")
	for name, raw := range nonsense(t.session, e.lastSeq(t.session)) {
		e.scripted().SendRaw(raw)
		if s := b.try("dsh_status", args{"taskId": t.id}); s.isError {
			e.t.Errorf("behind %s: %s", name, s.text)
		}
	}
	if b.isGone() {
		e.t.Fatalf("the process is gone\n%s", b.stderr)
	}
	// Some of it could have been true until the next connection.
	e.reconnects(b, t)
	e.works(b, t, "after all that")
	e.complete(t)

	// A question whose words are no UTF-8 is shown as well as can be, and answers stay JSON.
	b.followup(t, "queue", e.endless())
	e.running(b, t)
	e.scripted().SendRaw(frame("question/requested", t.session, `,"questions":[{"id":"q","question":"`+e.canary+" \xff\xc3\x28"+`"}]`))
	s := e.until(b, t, "asked", func(a answer) bool { return a.get("pending.#").Int() > 0 })
	if !strings.Contains(s.str("pending.0.questions.0.question"), e.canary) {
		e.t.Errorf("the question is not shown: %s", s.text)
	}
	// The next connection tells that nobody asks.
	e.reconnects(b, t)
	e.until(b, t, "not asked any more", func(a answer) bool { return !a.get("pending").Exists() })
	cursor := b.followup(t, "steer", e.prompt(e.say("never mind")))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("never mind")})
}

// nonsenseAnswers lets calls be answered with what makes no sense: the tool fails, says so, and the next is fine.
func nonsenseAnswers(e *env) {
	w := e.between()
	b := e.bridge(w.env())
	t := e.finished(b, "before")
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	veryDeep := strings.Repeat(`{"a":[`, bottomless/4)
	for name, nonsense := range map[string]func(id string) string{
		"nothing":      func(string) string { return "" },
		"no JSON":      func(string) string { return "<!doctype html>" },
		"a deep array": func(string) string { return deep },
		"a deep value": func(id string) string {
			return `{"type":"server-response","rpcId":"` + id + `","result":{"ok":true,"value":` + deep + `}}`
		},
		"a value without end": func(id string) string {
			return `{"type":"server-response","rpcId":"` + id + `","result":{"ok":true,"value":{"events":[` + veryDeep
		},
		"no UTF-8": func(id string) string {
			return `{"type":"server-response","rpcId":"` + id + `","result":{"ok":true,"value":{"items":"` + "\xff\xfe" + `"}}}`
		},
		"a refusal of nothing": func(id string) string {
			return `{"type":"server-response","rpcId":"` + id + `","result":{"ok":false}}`
		},
		"another's answer": func(string) string {
			return `{"type":"server-response","rpcId":"` + uuid.NewString() + `","result":{"ok":true,"value":{"items":[]}}}`
		},
		"seqs that go backwards": func(id string) string {
			return `{"type":"server-response","rpcId":"` + id + `","result":{"ok":true,"value":{"hasMore":false,"items":[],"events":[` +
				`{"event":{"type":"turn/start","seq":9,"time":1,"data":{}}},{"event":{"type":"turn/end","seq":3,"time":1,"data":{}}}]}}}`
		},
	} {
		for _, method := range []string{"session.list", "session.history"} {
			w.changes(func(m string, answer []byte) []byte {
				if m != method {
					return answer
				}
				return []byte(nonsense(rpcID(answer)))
			})
			for tool, arguments := range map[string]args{"dsh_status": {}, "dsh_tail": {}, "dsh_wait": {"timeoutSec": 0}} {
				arguments["taskId"] = t.id
				b.try(tool, arguments) // whatever it answers, it answers
			}
			// Connections are made on such answers, too.
			e.scripted().DropConnections()
			b.try("dsh_status", args{"taskId": t.id})
			if b.isGone() {
				e.t.Fatalf("%s in place of the answer of %s ended the process:\n%s", name, method, b.stderr)
			}
		}
		w.changes(nil)
		e.until(b, t, "well again after "+name, func(a answer) bool { return a.str("recovery") == "live" && a.get("model").Exists() }).
			want(args{"execution": "turn_completed", "finalMessage.text": e.text("before"), "gaps": nil})
		e.complete(t)
	}
	e.works(b, t, "after all that")
}

func rpcID(answer []byte) string {
	_, rest, _ := bytes.Cut(answer, []byte(`"rpcId":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(id)
}

// backwardSeqs tells of events that were told before, as something else.
func backwardSeqs(e *env) {
	b := e.bridge()
	t := e.finished(b, "before")
	e.complete(t)
	before, err := e.readLedger(t.id)
	if err != nil {
		e.t.Fatal(err)
	}
	last := e.lastSeq(t.session)
	for seq := last; seq >= 0; seq-- {
		e.scripted().SendRaw(eventFrame(t.session, "turn/end", seq, `{"turn":1,"reason":{"kind":"error","error":{"message":"never"}}}`))
	}
	e.scripted().SendRaw(frame("session/subscribed", t.session, `,"lastSeq":3`))
	b.status(t).want(args{"execution": "turn_completed", "recovery": "live", "finalMessage.text": e.text("before"), "gaps": nil})
	// Forward again, of what the host has, twice.
	for range 2 {
		for _, ev := range e.scripted().Events(t.session) {
			e.scripted().SendRaw(eventFrame(t.session, ev.Type, ev.Seq, string(ev.Data)))
		}
	}
	b.status(t).want(args{"execution": "turn_completed", "recovery": "live", "finalMessage.text": e.text("before")})
	after, err := e.readLedger(t.id)
	if err != nil {
		e.t.Fatal(err)
	}
	if len(after.Records) != len(before.Records) {
		e.t.Errorf("there were %d records and are %d: events were recorded that the host does not have", len(before.Records), len(after.Records))
	}
	e.works(b, t, "after all that")
	e.complete(t)
}

// changingHost lets a host without the tasks take the address of the one that has them, while a bridge runs.
func changingHost(e *env) {
	b := e.bridge()
	t := e.finished(b, "before")
	e.works(b, t, "the second")
	e.eventually(func() string { return e.differs(t.id) })
	known := string(e.read(e.ledgerPath(t)))
	e.host.Kill()
	other := dshtest.New(dshtest.Options{Addr: strings.TrimPrefix(e.host.URL(), "http://")})
	e.t.Cleanup(other.Close)
	if err := other.Start(); err != nil {
		e.t.Fatal(err)
	}
	s := e.until(b, t, "unknown to the host", func(a answer) bool { return a.str("availability") == "session_not_found" })
	s.want(args{"status": "unknown", "execution": "turn_completed", "lastKnownExecutionStatus": "turn_completed", "workspace.cwd": t.cwd, "finalMessage": nil})
	b.call("dsh_wait", args{"taskId": t.id, "timeoutSec": 30}).want(args{"reason": "availability", "availability": "session_not_found"})
	for tool, arguments := range map[string]args{"dsh_followup": {"prompt": e.prompt(e.say("never sent"))}, "dsh_cancel": {}} {
		arguments["taskId"] = t.id
		if hint := b.mustFail("session_not_found", tool, arguments).str("error.hint"); hint == "" {
			e.t.Errorf("%s does not say what to do", tool)
		}
	}
	if n := other.Calls("session.prompt") + other.Calls("session.create") + other.Calls("session.cancel"); n != 0 {
		e.t.Errorf("the other host was asked %d times to do something", n)
	}
	if now := string(e.read(e.ledgerPath(t))); now != known {
		e.t.Errorf("the ledger was changed on account of a host that does not know the task:\n%s", strings.TrimPrefix(now, known))
	}
	// Work can be done there, too.
	e.read(e.taskPath(t))
	e.read(e.claimPath(t))
	other.Close()
	e.host.Start(e.t)
	e.until(b, t, "back", func(a answer) bool { return a.str("availability") == "connected" }).want(args{
		"status": "turn_completed", "recovery": "live", "finalMessage.text": e.text("the second"), "workspace.cwd": t.cwd,
	})
	e.works(b, t, "as before")
}

// foreignFrames is how many frames of other sessions come in one burst.
const foreignFrames = 100_000

// TestForeignBurst sends a great many frames of a great many sessions at once. None of it is kept.
func TestForeignBurst(t *testing.T) {
	t.Parallel()
	h := &scriptedHost{dshtest.New(dshtest.Options{ClientQueue: 2 * foreignFrames})}
	t.Cleanup(h.Close)
	h.Start(t)
	play(t, h, scenario{name: "foreign burst", run: foreignBurst})
}

func foreignBurst(e *env) {
	b := e.bridge()
	t := e.finished(b, "before")
	e.works(b, t, "warm")
	before := b.resident()
	kinds := []func(session string, n int) []byte{
		func(s string, n int) []byte { return eventFrame(s, "turn/start", int64(n), `{"turn":1}`) },
		func(s string, n int) []byte { return eventFrame(s, "assistant/chunk", int64(n), `{"turn":1}`) },
		func(s string, n int) []byte { return frame("session/subscribed", s, fmt.Sprintf(`,"lastSeq":%d`, n)) },
		func(s string, n int) []byte {
			return frame("question/requested", s, `,"questions":[{"id":"q","question":"?"}]`)
		},
		func(s string, n int) []byte { return frame("session/jobs", s, `,"jobs":[]`) },
		func(s string, n int) []byte { return frame("session/queue", s, `,"items":[]`) },
		func(s string, n int) []byte { return frame("session/projection", s, `,"key":"k","value":1,"seq":1`) },
		func(s string, n int) []byte { return frame("session/unheard-of", s, "") },
	}
	cursor := b.followup(t, "queue", e.prompt(e.bash("sleep 0.2; echo "+e.canary), e.say("in the midst of it")))
	for n := range foreignFrames {
		e.scripted().SendRaw(kinds[n%len(kinds)](fmt.Sprintf("session-%d", n/2), n))
	}
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("in the midst of it")})
	e.works(b, t, "behind it")
	e.complete(t)
	if strings.Contains(b.stderr.String(), "connection to the host lost") {
		e.t.Error("the connection broke")
	}
	peak := b.resident()
	e.returns(b, t, before)
	e.t.Logf("%d MB before, %d MB behind the frames, %d MB after", before>>20, peak>>20, b.resident()>>20)
}
