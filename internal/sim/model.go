package sim

import (
	"encoding/json"
	"fmt"
	"slices"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// truth is what the host knows of one task's sessions once everything is quiet.
type truth struct {
	sessions map[string]*known
	order    []string // the root first
	pending  []string // ids of the requests that wait, sorted
	queue    []string // ids of the messages in the root's inbox
	approval bool     // one of them is an approval
}

// known is one session as the host has it.
type known struct {
	origin string
	log    []event // without chunks
	runs   bool
	queued []string // rpcIds of what waits in its inbox
	fold   fold
}

// fold is what a session's history alone says of it.
type fold struct {
	turn     int
	ended    bool
	reason   string
	end      int64 // seq of the turn's end
	final    int64 // of the last message with words in the ended turn
	unspoken int64 // of that of the turn that is open
}

// add folds one event.
func (f *fold) add(e event) {
	switch e.kind {
	case "turn/start":
		if f.turn > 0 && !f.ended {
			f.final = f.unspoken // the turn before ended in silence
		}
		f.turn, f.ended, f.reason, f.end, f.unspoken = dsh.TurnOf(e.wire()).Turn, false, "", 0, -1
	case "assistant/message":
		if dsh.AssistantMessageOf(e.wire()).Text != "" {
			f.unspoken = e.seq
		}
	case "turn/end":
		f.ended, f.reason, f.end = true, dsh.TurnEndOf(e.wire()).Kind, e.seq
		f.final, f.unspoken = f.unspoken, -1
	}
}

// tell reads the truth of a task off the host, which is up and quiet.
func (h *Host) tell(root string) truth {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := truth{sessions: map[string]*known{}}
	for _, s := range h.order {
		above := t.sessions[s.parent]
		if s.id != root && (above == nil || !s.subagent()) {
			continue
		}
		k := &known{origin: ledger.OriginSubagent, runs: s.turn != nil, fold: fold{final: -1, unspoken: -1}}
		if s.id == root {
			k.origin = ledger.OriginRoot
		}
		var waiting inbox
		for _, e := range s.log {
			if e.kind == dsh.EventChunk {
				continue
			}
			k.log = append(k.log, e)
			k.fold.add(e)
			var c splice
			if e.kind == "agent/inbox/spliced" && json.Unmarshal([]byte(e.data), &c) == nil {
				waiting.apply(c)
			}
		}
		for _, m := range slices.Concat(waiting.turn, waiting.step) {
			k.queued = append(k.queued, m.Source.RPCID)
		}
		t.sessions[s.id] = k
		t.order = append(t.order, s.id)
	}
	if s := h.sessions[root]; s != nil {
		for _, m := range slices.Concat(s.inbox.turn, s.inbox.step) {
			t.queue = append(t.queue, m.ID)
		}
	}
	for _, r := range h.life.pending {
		if t.sessions[r.session.id] != nil {
			t.pending = append(t.pending, r.id)
			t.approval = t.approval || r.approval != ""
		}
	}
	slices.Sort(t.pending)
	return t
}

// executions are those that a task may show, given what the host says.
func (t truth) executions(root string) []ledger.Execution {
	k := t.sessions[root]
	switch {
	case t.approval:
		return []ledger.Execution{ledger.AwaitingApproval}
	case len(t.pending) > 0:
		return []ledger.Execution{ledger.AwaitingInput}
	case k == nil || k.fold.turn == 0:
		return []ledger.Execution{ledger.Starting}
	case k.runs:
		return []ledger.Execution{ledger.Running}
	case !k.fold.ended:
		// Cancelled in silence, or dead with the host and not looked at since.
		return []ledger.Execution{ledger.Canceled, ledger.Interrupted}
	}
	switch k.fold.reason {
	case dsh.TurnCompleted:
		return []ledger.Execution{ledger.TurnCompleted}
	case dsh.TurnAborted:
		return []ledger.Execution{ledger.Canceled}
	case dsh.TurnInterrupted:
		return []ledger.Execution{ledger.Interrupted}
	}
	return []ledger.Execution{ledger.Failed}
}

// evidence is what the bridges have of one task.
type evidence struct {
	records []ledger.Record
	views   []view
}

// view is a task as one bridge shows it.
type view struct {
	bridge string
	snap   mux.Snapshot
}

// model compares what the bridges have of a task with the truth. It returns what is wrong.
type model struct {
	task  taskID
	truth truth
	wrong []string
	// lost are the turns that were begun and then forgotten by the host, the last one of each session.
	lost map[string]int
	// strict is set when what the streams brought of requests counts, too.
	strict bool
}

func (m *model) fail(format string, args ...any) {
	m.wrong = append(m.wrong, m.task.id+": "+fmt.Sprintf(format, args...))
}

// check compares everything.
func (m *model) check(e evidence) []string {
	m.cursors(e.records)
	m.events(e.records)
	for _, v := range e.views {
		m.view(v)
	}
	for i := 1; i < len(e.views); i++ {
		if a, b := summary(e.views[0].snap), summary(e.views[i].snap); a != b {
			m.fail("the bridges do not agree: %s shows %s, %s shows %s", e.views[0].bridge, a, e.views[i].bridge, b)
		}
	}
	return m.wrong
}

// cursors checks that the records are numbered from 1 without hole or repeat.
func (m *model) cursors(records []ledger.Record) {
	for i, r := range records {
		if r.Cursor != int64(i)+1 {
			m.fail("record %d has cursor %d", i+1, r.Cursor)
			return
		}
	}
}

// events checks that the events of every session are those of the host's history, each once and in order. What a host
// took back by forgetting it does not count.
func (m *model) events(records []ledger.Record) {
	got := map[string][]ledger.Record{}
	m.lost = map[string]int{}
	for _, r := range records {
		id := r.SourceSessionID
		switch r.Type {
		case ledger.TypeEvent:
			if n := len(got[id]); n > 0 && *got[id][n-1].SourceSeq >= *r.SourceSeq {
				m.fail("cursor %d: seq %d of %s comes behind seq %d", r.Cursor, *r.SourceSeq, id, *got[id][n-1].SourceSeq)
			}
			got[id] = append(got[id], r)
		case ledger.TypeRewind:
			for _, void := range got[id] {
				if *void.SourceSeq >= r.Coordination.From && void.Coordination.Event == "turn/start" {
					m.lost[id] = void.Coordination.Turn
				}
			}
			got[id] = slices.DeleteFunc(got[id], func(old ledger.Record) bool { return *old.SourceSeq >= r.Coordination.From })
		case ledger.TypeGap:
			m.fail("cursor %d: a gap in %s from %d to %d, and the host has all of it", r.Cursor, id, r.Coordination.From, r.Coordination.To)
		}
		if k := m.truth.sessions[id]; k != nil && k.origin != r.Origin {
			m.fail("cursor %d: %s is %s and not %s", r.Cursor, id, k.origin, r.Origin)
		}
	}
	for id := range got {
		if m.truth.sessions[id] == nil {
			m.fail("events of %s, which is no session of the task", id)
		}
	}
	for _, id := range m.truth.order {
		m.session(id, got[id])
	}
}

// session compares the events of one session.
func (m *model) session(id string, got []ledger.Record) {
	want := m.truth.sessions[id].log
	for i, e := range want {
		switch {
		case i >= len(got):
			m.fail("%s: seq %d (%s) and what comes behind it is missing, %d events of %d", id, e.seq, e.kind, len(want)-len(got), len(want))
			return
		case *got[i].SourceSeq != e.seq || got[i].Coordination.Event != e.kind || got[i].Coordination.Time != e.time:
			m.fail("%s: in place of seq %d (%s at %d) the ledger has seq %d (%s at %d)", id, e.seq, e.kind, e.time,
				*got[i].SourceSeq, got[i].Coordination.Event, got[i].Coordination.Time)
			return
		}
	}
	if len(got) > len(want) {
		m.fail("%s: the ledger has %d events more, from seq %d (%s) on", id, len(got)-len(want), *got[len(want)].SourceSeq, got[len(want)].Coordination.Event)
	}
}

// view compares what one bridge shows with the fold of the history.
func (m *model) view(v view) {
	wrong := func(format string, args ...any) { m.fail(v.bridge+" shows "+format, args...) }
	if v.snap.Fault != nil {
		wrong("a fault: %v", v.snap.Fault)
	}
	if want := m.availability(); v.snap.Availability != want {
		wrong("availability %s instead of %s", v.snap.Availability, want)
	}
	if len(v.snap.Gaps) > 0 {
		wrong("gaps: %v", v.snap.Gaps)
	}
	if m.strict {
		if got := requests(v.snap); !slices.Equal(got, m.truth.pending) {
			wrong("the requests %v pending instead of %v", got, m.truth.pending)
		}
		for _, r := range v.snap.Requests {
			if r.Questions == nil && r.Approval == nil {
				wrong("request %s without what it asks", r.ID)
			}
		}
		want := m.truth.executions(m.task.root)
		if m.forgotten(m.task.root, v.snap.Turn) && len(m.truth.pending) == 0 {
			want = []ledger.Execution{ledger.Interrupted}
		}
		if !slices.Contains(want, v.snap.Execution) {
			wrong("execution %s instead of %v", v.snap.Execution, want)
		}
		m.belongings(wrong, v.snap)
	}
	root := m.truth.sessions[m.task.root]
	if root == nil {
		return
	}
	m.turn(wrong, m.task.root, root, v.snap.Turn, v.snap.Final)
	shown := map[string]bool{}
	for _, s := range v.snap.Subagents {
		shown[s.SessionID] = true
		if k := m.truth.sessions[s.SessionID]; k != nil {
			m.turn(wrong, s.SessionID, k, s.Turn, s.Final)
		}
	}
	for _, id := range m.truth.order[1:] {
		if !shown[id] {
			wrong("no subagent %s", id)
		}
	}
}

// belongings compares what only the stream tells: queue and jobs. Nothing runs in the background any more.
func (m *model) belongings(wrong func(string, ...any), snap mux.Snapshot) {
	if snap.Queue != nil && !snap.Queue.Stale {
		var ids []string
		for _, item := range snap.Queue.Items {
			ids = append(ids, item.ID)
		}
		if !slices.Equal(ids, m.truth.queue) {
			wrong("the queue %v instead of %v", ids, m.truth.queue)
		}
	}
	for _, j := range snap.Jobs {
		if j.FinishedAt == 0 {
			wrong("job %s as running, and the host runs none", j.ID)
		}
	}
}

func (m *model) availability() mux.Availability {
	if m.truth.sessions[m.task.root] == nil {
		return mux.SessionNotFound
	}
	return mux.Connected
}

// forgotten reports whether a turn is one that the host has begun and then forgotten, and that is shown as interrupted:
// whoever was told of it learns in this way that nothing comes of it.
func (m *model) forgotten(id string, got ledger.Turn) bool {
	k := m.truth.sessions[id]
	return k != nil && got.Number > k.fold.turn && got.Number == m.lost[id] && got.Ended && got.EndSeq == 0 && got.Reason == ledger.ReasonInterrupted
}

// turn compares the last turn of a session.
func (m *model) turn(wrong func(string, ...any), id string, k *known, got ledger.Turn, final int64) {
	f := k.fold
	if m.forgotten(id, got) {
		f.final, f.turn, f.ended = -1, got.Number, false
		f.unspoken = -1
	}
	if got.Number != f.turn {
		wrong("turn %d of %s instead of %d", got.Number, id, f.turn)
		return
	}
	if f.turn == 0 {
		return
	}
	switch {
	case f.ended && (!got.Ended || got.EndSeq != f.end || got.Reason != reasonOf(f.reason)):
		wrong("turn %d of %s as %+v instead of ended at seq %d with %s", f.turn, id, got, f.end, f.reason)
	case !f.ended && k.runs == got.Ended:
		wrong("turn %d of %s as %+v, and the host says running %v", f.turn, id, got, k.runs)
	}
	want := f.final
	if !f.ended && !k.runs {
		want = f.unspoken
	}
	if final != want {
		wrong("seq %d as the final message of %s instead of %d", final, id, want)
	}
}

// reasonOf is the word that a record has for a reason of the host's.
func reasonOf(kind string) string {
	switch kind {
	case dsh.TurnCompleted, dsh.TurnAborted, dsh.TurnError, dsh.TurnInterrupted:
		return kind
	}
	return ledger.ReasonOther
}

func requests(snap mux.Snapshot) []string {
	ids := []string{}
	for _, r := range snap.Requests {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	return ids
}

// summary is what all bridges have to agree on.
func summary(snap mux.Snapshot) string {
	return fmt.Sprintf("cursor %d, %s, %s, turn %+v, final %d, requests %v", snap.Cursor, snap.Availability, snap.Execution, snap.Turn, snap.Final, requests(snap))
}
