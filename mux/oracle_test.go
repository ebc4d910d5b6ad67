package mux

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/ledger"
)

// log is a session's durable log, as a host has it.
type log struct {
	session, parent string
	events          []dsh.Event
}

func (l log) source() source {
	if l.parent == "" {
		return source{id: l.session, origin: ledger.OriginRoot}
	}
	return source{id: l.session, parent: l.parent, origin: ledger.OriginSubagent}
}

// logs are those of a session and of the subagents below it.
func (r *rig) logs(root string) []log {
	all := []log{{session: root, events: wire(r.host.Events(root))}}
	states := r.host.Sessions()
	for i := 0; i < len(all); i++ {
		for _, s := range states {
			if s.ParentID == all[i].session && s.Origin == dsh.OriginSubagent {
				all = append(all, log{session: s.ID, parent: s.ParentID, events: wire(r.host.Events(s.ID))})
			}
		}
	}
	return all
}

func wire(events []dshtest.Event) []dsh.Event {
	list := make([]dsh.Event, 0, len(events))
	for _, e := range events {
		list = append(list, dsh.Event{Type: e.Type, Seq: e.Seq, Time: e.Time, Data: e.Data})
	}
	return list
}

// recorded is what the ledger keeps of an event, as far as two histories can be compared by it.
type recorded struct {
	Seq  int64
	Type string
	Time int64
}

// checkLedger compares a task's ledger with the logs of its sessions, and its state with that which the logs alone fold
// to.
func checkLedger(tb testing.TB, t *Task, logs []log) {
	tb.Helper()
	if !checkEvents(tb, t, logs) {
		return
	}
	if diff := cmp.Diff(folded(tb, t, logs), stateOf(tb, t)); diff != "" {
		tb.Errorf("the state is not that of the history (-history +ledger)\n%s", diff)
	}
}

// checkEvents compares a task's records with the logs of its sessions: every event but the chunks is there once, in the
// order of its session, and the cursors run from 1 without a hole.
func checkEvents(tb testing.TB, t *Task, logs []log) bool {
	tb.Helper()
	want := map[string][]recorded{}
	for _, l := range logs {
		for _, ev := range l.events {
			if ev.Type != dsh.EventChunk {
				want[l.session] = append(want[l.session], recorded{ev.Seq, ev.Type, ev.Time})
			}
		}
	}
	got := map[string][]recorded{}
	for i, r := range records(tb, t) {
		if r.Cursor != int64(i)+1 {
			tb.Errorf("record %d has cursor %d", i+1, r.Cursor)
		}
		if r.Type == ledger.TypeEvent {
			got[r.SourceSessionID] = append(got[r.SourceSessionID], recorded{*r.SourceSeq, r.Coordination.Event, r.Coordination.Time})
		}
	}
	diff := cmp.Diff(want, got)
	if diff != "" {
		tb.Errorf("the ledger is not the history (-history +ledger)\n%s", diff)
	}
	return diff == ""
}

// folding is the part of a ledger's state that the history decides.
type folding struct {
	Execution ledger.Execution
	Sessions  map[string]ledger.Session
}

func stateOf(tb testing.TB, t *Task) folding {
	tb.Helper()
	return foldingOf(tb, t.Ledger())
}

func foldingOf(tb testing.TB, l *ledger.Ledger) folding {
	tb.Helper()
	f := folding{Sessions: map[string]ledger.Session{}}
	if err := l.View(func(state *ledger.State) {
		f.Execution = state.Execution()
		for id, s := range state.Sessions {
			copied := *s
			// These are not the history's: a cursor, snapshots that came on the stream, when an end was inferred.
			copied.Turn.EndCursor, copied.Queue, copied.Jobs = 0, nil, nil
			if copied.Turn.EndSeq == 0 {
				copied.Turn.EndedAt = 0
			}
			f.Sessions[id] = copied
		}
	}); err != nil {
		tb.Fatal(err)
	}
	return f
}

// folded is what the logs alone fold to: they are written to a ledger of their own.
func folded(tb testing.TB, t *Task, logs []log) folding {
	tb.Helper()
	l := ledgers(tb, tb.TempDir()+"/home", nil)(t.ID, t.Root)
	defer func() {
		if err := l.Close(); err != nil {
			tb.Error(err)
		}
	}()
	var entries []ledger.Entry
	for _, log := range logs {
		for _, ev := range log.events {
			if ev.Type != dsh.EventChunk {
				entries = append(entries, scrub(ev, 0, log.source()))
			}
		}
	}
	// A turn that ended in silence is told by the host's list, not by its history.
	for _, r := range records(tb, t) {
		if r.Type == ledger.TypeTurnInterrupted && r.Coordination.Reason == ledger.ReasonAborted {
			entries = append(entries, ledger.Entry{Record: ledger.Record{Type: r.Type, SourceSessionID: r.SourceSessionID,
				ParentSessionID: r.ParentSessionID, Origin: r.Origin, Coordination: r.Coordination}})
		}
	}
	if _, err := l.Append(tb.Context(), entries); err != nil {
		tb.Fatal(err)
	}
	return foldingOf(tb, l)
}
