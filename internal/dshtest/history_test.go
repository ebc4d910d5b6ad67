package dshtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dsh-agentlink/internal/labmodel"
)

// historyPage is the answer of session.history.
type historyPage struct {
	Events []struct {
		Event Event
	}
	HasMore     bool
	Projections *struct{ AsOfSeq int64 }
}

func (p historyPage) last() Event { return p.Events[len(p.Events)-1].Event }

// seeded is a host with a session of some turns.
func seeded(t *testing.T, turns int) (*Host, string) {
	t.Helper()
	h := started(t, Options{})
	id, err := h.AddSession(SessionSpec{Cwd: project, Turns: turns})
	if err != nil {
		t.Fatal(err)
	}
	return h, id
}

func TestHistoryPages(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	tell(t, h, id, "queue", Script(bashStep("true"), labmodel.Step{Say: "x y"}))
	if err := h.WaitIdle(within(t), id); err != nil {
		t.Fatal(err)
	}
	// 7 prompt, 8 the host's context, 13..18 tool call, 25..31 words, 33 turn/end.
	events := h.Events(id)
	last := events[len(events)-1].Seq
	tests := []struct {
		max, before any
		first, last int64
		more        bool
	}{
		{nil, nil, 0, last, false},
		{1, nil, 25, last, true},
		{2, nil, 13, last, true},
		{3, nil, 8, last, true},
		{4, nil, 7, last, true},
		{5, nil, 0, last, false},
		{100000, nil, 0, last, false},
		{1, 25, 13, 24, true},
		{1, 18, 8, 17, true},
		{1, 7, 0, 6, false},
		{1, 1, 0, 0, false},
		{1, 1000000, 25, last, true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("max %v before %v", tt.max, tt.before), func(t *testing.T) {
			payload := object{"sessionId": id}
			if tt.max != nil {
				payload["maxMessages"] = tt.max
			}
			if tt.before != nil {
				payload["beforeSeq"] = tt.before
			}
			page := call[historyPage](t, h, "session.history", payload)
			if first := page.Events[0].Event.Seq; first != tt.first || page.last().Seq != tt.last || page.HasMore != tt.more {
				t.Errorf("page %d..%d, more %v", first, page.last().Seq, page.HasMore)
			}
			if (page.Projections != nil) != (tt.before == nil) {
				t.Errorf("projections: %+v", page.Projections)
			}
		})
	}
	if page := call[historyPage](t, h, "session.history", object{"sessionId": id, "beforeSeq": 0}); len(page.Events) != 0 || page.HasMore {
		t.Errorf("page before everything: %+v", page)
	}
}

// Whatever the size of its pages, a history read backwards is the whole log, each event once, and no message is cut.
func TestHistoryIsContiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &session{}
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			switch rapid.SampledFrom([]string{eventStepEnd, eventUser, eventAssistant}).Draw(t, "kind") {
			case eventUser:
				s.add(messageRecord(eventUser, nil, nil, nil))
			case eventAssistant:
				var chunks []int64
				for range rapid.IntRange(1, 4).Draw(t, "chunks") {
					chunks = append(chunks, s.note(eventChunk, nil).seq)
				}
				s.add(messageRecord(eventAssistant, nil, chunks, nil))
			default:
				s.note(eventStepEnd, nil)
			}
		}
		h := New(Options{})
		next := int64(len(s.records))
		w := window{}
		for more := true; more; {
			w.messages = rapid.Int64Range(1, 9).Draw(t, "max")
			var page historyPage
			if err := json.Unmarshal(h.page(s, w)(), &page); err != nil {
				t.Fatal(err)
			}
			for _, e := range slices.Backward(page.Events) {
				if next--; e.Event.Seq != next {
					t.Fatalf("event %d comes where %d was due", e.Event.Seq, next)
				}
			}
			if next > 0 && s.records[next-1].kind == eventChunk {
				t.Fatalf("a page begins at %d, in the middle of a message", next)
			}
			more = page.HasMore
			w.before, w.bounded = next, true
		}
		if next != 0 {
			t.Fatalf("the history ends at %d", next)
		}
	})
}

func TestSeededHistory(t *testing.T) {
	h, id := seeded(t, 3)
	if got, want := len(h.Events(id)), 3+3*25; got != want {
		t.Errorf("%d events, want %d", got, want)
	}
	if err := h.SeedHistory(id, 2); err != nil {
		t.Fatal(err)
	}
	for i, e := range h.Events(id) {
		if e.Seq != int64(i) || !json.Valid(e.Data) {
			t.Fatalf("event %d has seq %d and data %s", i, e.Seq, e.Data)
		}
	}
	rows := call[sessionRows](t, h, "session.list", object{})
	if row := rows.Items[0]; row.Running || row.Blank || row.Projections == nil || row.Projections.AsOfSeq != 3+5*25-1 {
		t.Errorf("listed as %+v", row)
	}
	// The session goes on as any other.
	tell(t, h, id, "queue", Script(labmodel.Step{Say: "on"}))
	if err := h.WaitIdle(within(t), id); err != nil {
		t.Fatal(err)
	}
	if got := logged(h, id)[len(logged(h, id))-1]; got != eventTurnEnd {
		t.Errorf("the log ends with %s", got)
	}
	if err := h.SeedHistory("nope", 1); err == nil {
		t.Error("seeded an unknown session")
	}
}

type sessionRows struct {
	Items []struct {
		SessionID, ParentSessionID, Origin, Cwd, AgentPreset string
		UpdatedAt                                            int64
		Running, Blank                                       bool
		Projections                                          *struct {
			AsOfSeq int64
			Values  struct{ Title *string }
		}
	}
}

// Big histories have to be there at once: benchmarks start from them.
func BenchmarkSeed(b *testing.B) {
	for b.Loop() {
		h := New(Options{})
		if _, err := h.AddSession(SessionSpec{Turns: 400}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*400*25), "ns/event")
}

func TestSpecs(t *testing.T) {
	h := New(Options{})
	root, err := h.AddSession(SessionSpec{ID: "root", Title: "Named"})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []SessionSpec{{ID: "root"}, {ParentID: "nope"}, {Attached: true}} {
		if _, err := h.AddSession(bad); err == nil {
			t.Errorf("added %+v", bad)
		}
	}
	child, err := h.AddSession(SessionSpec{ParentID: root, Mode: modeOneShot, Label: "work", Turns: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	if _, err := h.AddSession(SessionSpec{ID: "live", Attached: true}); err != nil {
		t.Fatal(err)
	}
	w := watch(t, h)
	if f := w.has(t, kindSubscribed, 1); f.Payload.SessionID != "live" {
		t.Errorf("subscribed %s", f.Payload.SessionID)
	}
	list, _ := try(t, h, "subagent.list", object{"parentSessionId": root})
	if !strings.Contains(string(list), child) || !strings.Contains(string(list), `"label":"work"`) {
		t.Errorf("children: %s", list)
	}
	call[historyPage](t, h, "subagent.history", object{"parentSessionId": root, "childSessionId": child, "mode": modeOneShot})
}

func TestFork(t *testing.T) {
	h, id := seeded(t, 2)
	type forked struct{ SessionID string }
	whole := call[forked](t, h, "session.fork", object{"sessionId": id}).SessionID
	part := call[forked](t, h, "session.fork", object{"sessionId": id, "atSeq": 10}).SessionID
	// A mark behind what was copied; the first turn reaches to just before the second.
	if got, want := len(h.Events(whole)), 3+2*25+1; got != want {
		t.Errorf("the whole fork has %d events, want %d", got, want)
	}
	if got, want := len(h.Events(part)), 3+25+1+1; got != want {
		t.Errorf("the fork of the first turn has %d events, want %d", got, want)
	}
	for _, row := range call[sessionRows](t, h, "session.list", object{}).Items {
		if row.SessionID == part && (row.ParentSessionID != id || row.Origin != "") {
			t.Errorf("the fork is listed as %+v", row)
		}
	}
	for _, payload := range []object{{"sessionId": newRoot(t, h)}, {"sessionId": id, "atSeq": 100000}} {
		if _, refused := try(t, h, "session.fork", payload); refused == nil || refused.Code != "fork-unavailable" {
			t.Errorf("fork %v: %+v", payload, refused)
		}
	}
}
