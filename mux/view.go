package mux

import (
	"context"
	"maps"
	"slices"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// Availability is whether the host can be asked about a task.
type Availability string

// The availabilities of a task.
const (
	Connected       Availability = "connected"
	HostUnreachable Availability = "host_unreachable"
	SessionNotFound Availability = "session_not_found"
)

// Snapshot is what is known of a task at one moment.
type Snapshot struct {
	Availability Availability
	Execution    ledger.Execution
	Turn         ledger.Turn
	// Final is the seq of the root's last message with text in its ended turn; -1 for none.
	Final int64
	// Requests are the pending ones, oldest first.
	Requests []Request
	// Queue and Jobs are those of the root; a nil Queue means that no snapshot has come on this connection or before.
	Queue *Queue
	Jobs  []dsh.Job
	// Subagents are the sessions below the root, by id.
	Subagents []Subagent
	Gaps      []ledger.Gap
	Cursor    int64
	Earliest  int64
	UpdatedAt time.Time // of the last record; zero for an empty ledger
	// Fault is why the ledger could not be brought up to date; nil when it is.
	Fault error
}

// Subagent is one session below the root.
type Subagent struct {
	SessionID string
	Parent    string
	Mode      string
	Turn      ledger.Turn
	Final     int64
}

// Snapshot returns what this process knows now, without asking anybody.
func (t *Task) Snapshot() (Snapshot, error) {
	_, ready := t.m.up()
	var snap Snapshot
	snap.Earliest = t.ledger.Earliest()
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.ledger.View(func(state *ledger.State) { t.fill(&snap, state) })
	switch {
	case !ready || t.epoch == 0:
		snap.Availability = HostUnreachable
	case t.missing:
		snap.Availability = SessionNotFound
	default:
		snap.Availability = Connected
	}
	snap.Fault = t.fault
	return snap, err
}

// fill copies what a caller may see. t.mu is held, and the ledger's state is ours for the call.
func (t *Task) fill(snap *Snapshot, state *ledger.State) {
	snap.Execution, snap.Turn, snap.Final = state.Execution(), state.RootTurn(), -1
	snap.Cursor = state.Cursor
	if state.UpdatedAt > 0 {
		snap.UpdatedAt = time.UnixMilli(state.UpdatedAt)
	}
	snap.Gaps = slices.Clone(state.Gaps)
	for id, s := range state.Sessions {
		if id == t.Root {
			snap.Final = s.Final
			continue
		}
		snap.Subagents = append(snap.Subagents, Subagent{SessionID: id, Parent: s.Parent, Mode: s.Mode, Turn: s.Turn, Final: s.Final})
	}
	slices.SortFunc(snap.Subagents, func(a, b Subagent) int {
		if a.Turn.StartedAt != b.Turn.StartedAt {
			return int(a.Turn.StartedAt - b.Turn.StartedAt)
		}
		if a.SessionID < b.SessionID {
			return -1
		}
		return 1
	})
	for _, id := range state.PendingInOrder() {
		p := state.Pending[id]
		r := Request{ID: id, SessionID: p.SessionID, IsApproval: p.Type == ledger.TypeApprovalRequested}
		if known := t.requests[id]; known != nil {
			r = *known
		}
		r.Since, r.Cursor = time.UnixMilli(p.Since), p.Cursor
		snap.Requests = append(snap.Requests, r)
	}
	if q, ok := t.queues[t.Root]; ok {
		snap.Queue = &q
	}
	for _, session := range slices.Sorted(maps.Keys(t.jobs)) {
		snap.Jobs = append(snap.Jobs, t.jobs[session].Items...)
	}
}

// Current brings the view up to the host's as far as the stream and the histories tell, and returns when everything
// that has come is in the ledger. It costs no call while the task is followed live.
func (t *Task) Current(ctx context.Context) error {
	if err := t.m.Connected(ctx); err != nil {
		return err
	}
	t.wake()
	if err := t.idle(ctx); err != nil {
		return err
	}
	return t.ledger.Refresh()
}

// Fresh is Current behind a fresh list of the host's sessions: what happened before the call is in the ledger when it
// returns. row is the list's row of the root; listed is false when the list does not have it.
func (t *Task) Fresh(ctx context.Context) (row dsh.Session, listed bool, err error) {
	if err := t.m.Connected(ctx); err != nil {
		return row, false, err
	}
	sessions, err := t.m.List(ctx)
	if err != nil {
		return row, false, err
	}
	rows := make(map[string]dsh.Session, len(sessions))
	for _, s := range sessions {
		rows[s.ID] = s
	}
	row, listed = rows[t.Root]
	t.mu.Lock()
	for id, s := range t.sessions {
		r, known := rows[id]
		if s.gone && known {
			s.gone, s.need = false, true
			t.missing = t.missing && id != t.Root
		}
		if s.covered && r.LastSeq >= s.next {
			s.need = true
		}
		if id == t.Root && !known && !s.attached && !s.gone {
			s.need = true // the history's answer tells whether it is gone
		}
	}
	t.mu.Unlock()
	t.wake()
	if err := t.idle(ctx); err != nil {
		return row, listed, err
	}
	return row, listed, t.ledger.Refresh()
}

// Changed returns a channel that is closed at the next change of what a Snapshot shows. It has to be fetched before
// the Snapshot that it is to outdate.
func (t *Task) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// Ledger gives access to the task's records.
func (t *Task) Ledger() *ledger.Ledger { return t.ledger }

// Arrived reports whether the history, as far as it is in the ledger, shows that the host got that prompt.
func (t *Task) Arrived(requestID string) (arrived bool, err error) {
	err = t.ledger.View(func(state *ledger.State) { arrived = state.Arrived(requestID) })
	return arrived, err
}

// IssuedPrompt returns what is known of a prompt whose caller may repeat it.
func (t *Task) IssuedPrompt(requestID string) (issued ledger.Issued, known bool, err error) {
	err = t.ledger.View(func(state *ledger.State) { issued, known = state.IssuedPrompt(requestID) })
	return issued, known, err
}

// Watched reports whether something has happened in the task, or somebody has asked for it, since this process began.
func (t *Task) Watched() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.watched
}
