//go:build reliability

package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/ledger"
)

// cursorScenarios are about ledgers that no longer reach down to where somebody wants to go on, and about a host whose
// history does not.
var cursorScenarios = []scenario{
	{name: "a cursor that has expired", run: expiredCursor, scriptedOnly: true},
	{name: "a reader that lags behind a compaction", run: laggingReader},
	{name: "a history that does not reach down", run: unrecoverableGap},
}

// earliest is the first cursor that can still be read; it is told once records have left the ledger.
func (a answer) earliest() int64 { return max(a.get("earliestCursor").Int(), 1) }

// compacted is a ledger's file that may begin anywhere.
func (e *env) compacted(t task) (after int64, records []ledger.Record) {
	e.t.Helper()
	lines := bytes.Split(bytes.TrimSuffix(e.read(e.ledgerPath(t)), []byte("\n")), []byte("\n"))
	var head struct{ After int64 }
	if err := json.Unmarshal(lines[0], &head); err != nil {
		e.t.Fatal(err)
	}
	for i, line := range lines[1:] {
		var r ledger.Record
		if err := json.Unmarshal(line, &r); err != nil {
			e.t.Fatal(err)
		}
		if r.Cursor != head.After+int64(i)+1 {
			e.t.Fatalf("record %d behind cursor %d has cursor %d", i+1, head.After, r.Cursor)
		}
		records = append(records, r)
	}
	return head.After, records
}

// endsAsHistory checks that what is left of a ledger's events is the end of the host's history.
func (e *env) endsAsHistory(t task) {
	e.t.Helper()
	e.eventually(func() string {
		_, records := e.compacted(t)
		var events []event
		for _, r := range records {
			if r.Type == ledger.TypeEvent && r.SourceSessionID == t.session {
				events = append(events, event{t.session, *r.SourceSeq, r.Coordination.Event})
			}
		}
		history := e.person().history(t.session)
		if len(events) > len(history) {
			return fmt.Sprintf("the ledger has %d events, the host %d", len(events), len(history))
		}
		for i, ev := range history[len(history)-len(events):] {
			if ev != events[i] {
				return fmt.Sprintf("the ledger has %v where the host has %v", events[i], ev)
			}
		}
		return ""
	})
}

// rebuilt moves a task's ledger aside and compares what is said of the task before and after: the fold of a ledger that
// was compacted equals that of the history.
func (e *env) rebuilt(t task) {
	e.t.Helper()
	told := func(b *bridge) string {
		s := b.status(t)
		return strings.Join([]string{s.str("execution"), s.must("turn").Raw, s.get("finalMessage").Raw, s.get("finalMessageStatus").String(), s.get("pending").Raw, s.get("subagents").Raw}, " ")
	}
	b := e.bridge()
	before := told(b)
	b.stop()
	e.aside(e.ledgerDir(t))
	b = e.bridge()
	if after := told(b); after != before {
		e.t.Errorf("built anew from the history the ledger says\n%s\nand before it was\n%s", after, before)
	}
	b.stop()
}

// smallLedger makes a bridge compact its ledgers after a few hundred records instead of some ten thousand.
const smallLedger = "DSH_LEDGER_MAX_BYTES=65536"

// long is a prompt whose turn takes more records than a small ledger keeps. It begins slowly enough to be waited for.
func (e *env) long() string {
	steps := []labmodel.Step{{HangMs: 500, Tool: "bash", Args: e.bash("echo " + e.canary).Args}}
	for range 80 {
		steps = append(steps, e.bash("echo "+e.canary))
	}
	return e.prompt(append(steps, e.say("at last"))...)
}

// compact goes on with a task until its ledger has lost its beginning once more.
func (e *env) compact(b *bridge, t task) {
	e.t.Helper()
	before := b.status(t)
	b.followup(t, "queue", e.long())
	// No wait behind a cursor, which may expire meanwhile.
	after := e.until(b, t, "done", func(a answer) bool {
		return a.num("turn.number") > before.num("turn.number") && a.str("execution") == "turn_completed"
	})
	if after.earliest() <= before.earliest() {
		e.t.Fatalf("a long turn later the ledger still begins where it began: %s", after.text)
	}
}

func expiredCursor(e *env) {
	b := e.bridge(smallLedger)
	t := e.finished(b, "first")
	meaning := &storm{e: e, meaning: map[string]string{}}
	for range 3 {
		meaning.heard(t, b.call("dsh_tail", args{"taskId": t.id, "maxEvents": 500, "maxBytes": 1_000_000}).text)
		e.compact(b, t)
	}
	s := b.status(t)
	earliest, last := s.earliest(), s.num("cursor")
	for tool, arguments := range map[string]args{"dsh_tail": {}, "dsh_wait": {"timeoutSec": 0}, "dsh_followup": {"prompt": e.prompt(e.say("never sent"))}, "dsh_cancel": {}} {
		arguments["taskId"] = t.id
		for _, since := range []int64{0, 1, earliest - 2} {
			arguments["sinceCursor"] = since
			a := b.mustFail("cursor_expired", tool, arguments)
			a.want(args{"error.details.earliestCursor": earliest, "error.details.cursor": last}).says("earliestCursor-1")
		}
		for _, since := range []int64{last + 1, last + 1_000_000} {
			arguments["sinceCursor"] = since
			b.mustFail("invalid_cursor", tool, arguments).want(args{"error.details.earliestCursor": earliest, "error.details.cursor": last}).says("dsh_status")
		}
	}
	// What the hints say.
	a := b.call("dsh_tail", args{"taskId": t.id, "sinceCursor": earliest - 1, "maxEvents": 500, "maxBytes": 1_000_000})
	meaning.heard(t, a.text)
	if a.num("nextCursor") != last || a.earliest() != earliest {
		e.t.Errorf("the tail from the earliest cursor does not reach from there to the last: %s", a.text)
	}
	b.call("dsh_tail", args{"taskId": t.id, "sinceCursor": last}).want(args{"events.#": 0, "nextCursor": last})
	b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": earliest - 1, "timeoutSec": 0}).want(args{"execution": "turn_completed"})
	// Without a cursor the tail begins with what there is.
	b.call("dsh_tail", args{"taskId": t.id, "maxEvents": 500, "maxBytes": 1_000_000}).want(args{"nextCursor": last})

	// A ledger that was compacted again and again is no larger than one that was once.
	if info, err := os.Stat(e.ledgerPath(t)); err != nil || info.Size() > 2*65536 {
		e.t.Errorf("the ledger's file is larger than it may be: %v %v", info.Size(), err)
	}
	e.endsAsHistory(t)
	b.kill()
	b = e.bridge(smallLedger)
	if s := b.status(t); s.num("cursor") < last || s.earliest() != earliest {
		e.t.Errorf("after a kill the cursors %d to %d have become those of %s", earliest, last, s.text)
	}
	meaning.heard(t, b.call("dsh_tail", args{"taskId": t.id, "maxEvents": 500, "maxBytes": 1_000_000}).text)
	b.stop()
	e.rebuilt(t)
}

// laggingReader has a ledger open that another process compacts.
func laggingReader(e *env) {
	b, slow := e.bridge(smallLedger), e.bridge()
	t := e.finished(b, "first")
	seen := slow.status(t).num("cursor")
	earliest := int64(1)
	for range 2 {
		// A wait that begins before the compaction goes on behind it.
		cursor := b.followup(t, "queue", e.long())
		slow.ended(t, cursor).want(args{"execution": "turn_completed", "fault": nil})
		compacted := e.until(b, t, "compacted", func(a answer) bool { return a.earliest() > earliest })
		earliest = compacted.earliest()
		e.until(slow, t, "as far as the other process", func(a answer) bool { return a.num("cursor") == b.status(t).num("cursor") }).
			want(args{"recovery": "live", "execution": "turn_completed", "earliestCursor": earliest, "revision": compacted.str("revision")})
		for _, tool := range []string{"dsh_tail", "dsh_wait"} {
			slow.mustFail("cursor_expired", tool, args{"taskId": t.id, "sinceCursor": seen}).want(args{"error.details.earliestCursor": earliest})
		}
		// It writes behind the compaction, too.
		e.works(slow, t, "by the other process")
		seen = slow.status(t).num("cursor")
	}
	e.endsAsHistory(t)
	b.stop()
	slow.stop()
	e.rebuilt(t)
}

// withoutBeginning cuts the events below a seq off the histories that pass.
func withoutBeginning(first int64) func(method string, answer []byte) []byte {
	return func(method string, answer []byte) []byte {
		if method != "session.history" {
			return answer
		}
		var events []json.RawMessage
		for _, item := range gjson.GetBytes(answer, "result.value.events").Array() {
			if item.Get("event.seq").Int() >= first {
				events = append(events, json.RawMessage(item.Raw))
			}
		}
		var whole struct {
			Type   string `json:"type"`
			RPCID  string `json:"rpcId"`
			Result struct {
				OK    bool           `json:"ok"`
				Value map[string]any `json:"value,omitempty"`
				Error any            `json:"error,omitempty"`
			} `json:"result"`
		}
		if json.Unmarshal(answer, &whole) != nil || !whole.Result.OK {
			return answer
		}
		if len(events) < len(whole.Result.Value["events"].([]any)) {
			whole.Result.Value["hasMore"] = false
		}
		if events == nil {
			events = []json.RawMessage{}
		}
		whole.Result.Value["events"] = events
		changed, err := json.Marshal(whole)
		if err != nil {
			return answer
		}
		return changed
	}
}

// unrecoverableGap is a host that lost the beginning of a history while no bridge listened.
func unrecoverableGap(e *env) {
	w := e.between()
	b := e.bridge(w.env())
	t := e.finished(b, "first")
	e.eventually(func() string { // the title comes behind the end
		b.status(t)
		return e.differs(t.id)
	})
	book, err := e.readLedger(t.id)
	if err != nil {
		e.t.Fatal(err)
	}
	mark, known := int64(-1), int64(len(book.Records))
	for _, ev := range book.events()[t.session] {
		mark = max(mark, ev.Seq)
	}
	b.stop()
	e.happens(t, "behind the gap")
	const lost = 4
	first := mark + 1 + lost
	w.changes(withoutBeginning(first))
	b = e.bridge(w.env())
	s := e.until(b, t, "behind the gap", func(a answer) bool { return a.num("turn.number") == 2 && a.str("execution") == "turn_completed" })
	s.want(args{"recovery": "unrecoverable_gap", "gaps.#": 1, "gaps.0.sessionId": nil, "gaps.0.fromSeq": mark + 1, "gaps.0.toSeq": first - 1, "finalMessage.text": e.text("behind the gap")})
	gap := b.one(b.tail(t, known), "ledger/gap", nil)
	if gap.Get("fromSeq").Int() != mark+1 || gap.Get("toSeq").Int() != first-1 || gap.Get("cursor").Int() != s.num("gaps.0.cursor") {
		e.t.Errorf("the tail says of the gap %s, the status %s", gap, s.must("gaps"))
	}
	if gap.Get("cursor").Int() <= known {
		e.t.Errorf("the gap has the cursor %s, and %d was known before it", gap.Get("cursor"), known)
	}
	// It goes on behind the gap, in another process, and the gap is said once and stays said.
	cursor := b.followup(t, "queue", e.prompt(e.bash("echo "+e.canary), e.say("and on")))
	b.ended(t, cursor).want(args{"finalMessage.text": e.text("and on")})
	b.kill()
	b = e.bridge(w.env())
	e.until(b, t, "the same", func(a answer) bool { return a.num("turn.number") == 3 }).want(args{"recovery": "unrecoverable_gap", "gaps.#": 1, "finalMessage.text": e.text("and on")})
	b.one(b.tail(t, 0), "ledger/gap", nil)
	b.stop()
	// With a host that has it all, the ledger can be built anew.
	e.aside(e.ledgerDir(t))
	w.changes(nil)
	b = e.bridge(w.env())
	b.status(t).want(args{"recovery": "live", "gaps": nil, "turn.number": 3})
}
