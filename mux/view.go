package mux

import (
	"cmp"
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
	// Goal is that of the root; nil when there is none.
	Goal *ledger.Goal
	// GoalKnown says that the records tell of a goal, also of one that was cleared.
	GoalKnown bool
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
	ready, renews := t.m.usable()
	snap := Snapshot{Final: -1, Earliest: t.ledger.Earliest()}
	err := t.ledger.View(func(state *ledger.State) { snap.record(state) })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.complete(&snap)
	switch {
	case (!ready || t.epoch == 0) && !renews:
		snap.Availability = HostUnreachable
	case t.missing:
		snap.Availability = SessionNotFound
	default:
		snap.Availability = Connected
	}
	snap.Fault = t.fault
	return snap, err
}

// record copies what the ledger knows.
func (snap *Snapshot) record(state *ledger.State) {
	snap.Execution, snap.Turn = state.Execution(), state.RootTurn()
	snap.Cursor = state.Cursor
	if g := state.RootGoal(); g != nil {
		goal := *g
		snap.Goal = &goal
	}
	root := state.Sessions[state.Root]
	snap.GoalKnown = root != nil && root.Goal != nil
	if state.UpdatedAt > 0 {
		snap.UpdatedAt = time.UnixMilli(state.UpdatedAt)
	}
	snap.Gaps = slices.Clone(state.Gaps)
	for id, s := range state.Sessions {
		if id == state.Root {
			snap.Final = s.Final
			continue
		}
		snap.Subagents = append(snap.Subagents, Subagent{SessionID: id, Parent: s.Parent, Mode: s.Mode, Turn: s.Turn, Final: s.Final})
	}
	slices.SortFunc(snap.Subagents, func(a, b Subagent) int {
		return cmp.Or(cmp.Compare(a.Turn.StartedAt, b.Turn.StartedAt), cmp.Compare(a.SessionID, b.SessionID))
	})
	for _, id := range state.PendingInOrder() {
		p := state.Pending[id]
		snap.Requests = append(snap.Requests, Request{ID: id, SessionID: p.SessionID, Since: time.UnixMilli(p.Since), Cursor: p.Cursor,
			IsApproval: p.Type == ledger.TypeApprovalRequested})
	}
}

// complete adds what only the stream tells. t.mu is held.
func (t *Task) complete(snap *Snapshot) {
	for i := range snap.Requests {
		r := &snap.Requests[i]
		if known := t.requests[r.ID]; known != nil && known.confirmed {
			r.Questions, r.Approval, r.Unsure = known.Questions, known.Approval, known.Unsure
		}
	}
	if q, ok := t.queues[t.Root]; ok {
		snap.Queue = &q
	}
	for _, session := range slices.Sorted(maps.Keys(t.jobs)) {
		snap.Jobs = append(snap.Jobs, t.jobs[session].Items...)
	}
}

// connections is how many connections may be lost under one call before it gives up.
const connections = 3

// settled waits until what came before the call is in the ledger and, right after the connection was made, until the
// burst has brought the requests that the ledger holds as pending, so that they are either shown whole or withdrawn.
func (t *Task) settled(ctx context.Context, epoch int) error {
	if err := t.idle(ctx, epoch); err != nil {
		return err
	}
	limit := time.NewTimer(2 * t.m.opts.Quiet)
	defer limit.Stop()
	for {
		changed := t.Changed()
		var pending []string
		if err := t.ledger.View(func(state *ledger.State) { pending = state.PendingInOrder() }); err != nil {
			return err
		}
		t.mu.Lock()
		lost := t.epoch != epoch
		over := t.settledOn == epoch || t.fault != nil || !slices.ContainsFunc(pending, func(id string) bool {
			r := t.requests[id]
			return r == nil || !r.confirmed
		})
		t.mu.Unlock()
		switch {
		case lost:
			return errLost
		case over:
			return nil
		}
		select {
		case <-changed:
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.m.ctx.Done():
			return ErrClosed
		}
	}
}

// Current brings the view up to the host's as far as the stream and the histories tell, and returns when everything
// that has come is in the ledger. It costs no call while the task is followed live.
func (t *Task) Current(ctx context.Context) error {
	var err error
	for range connections {
		epoch, lost := t.m.connect(ctx)
		if lost != nil {
			return lost
		}
		t.wake()
		if err = t.settled(ctx, epoch); err != errLost {
			break
		}
	}
	if err != nil {
		return err
	}
	return t.refresh()
}

// Fresh is Current behind a fresh list of the host's sessions: what happened before the call is in the ledger when it
// returns, but for requests that the stream has not brought yet. row is the list's row of the root; listed is false when
// the list does not have it.
func (t *Task) Fresh(ctx context.Context) (row dsh.Session, listed bool, err error) {
	for range connections {
		epoch, lost := t.m.connect(ctx)
		if lost != nil {
			return row, false, lost
		}
		sessions, failed := t.m.List(ctx)
		if failed != nil {
			return row, false, failed
		}
		if row, listed, err = t.compare(sessions); err != nil {
			return row, listed, err
		}
		t.wake()
		if err = t.settled(ctx, epoch); err != errLost {
			break
		}
	}
	if err != nil {
		return row, listed, err
	}
	return row, listed, t.refresh()
}

// compare marks the sessions of which a fresh list knows more than will be in the ledger once the inbox is drained, and
// those that do not run although their turn is open here: their host may be another process by now, and the stream is
// about to tell.
func (t *Task) compare(sessions []dsh.Session) (root dsh.Session, listed bool, err error) {
	open := map[string]bool{}
	if err := t.ledger.View(func(state *ledger.State) {
		for id, s := range state.Sessions {
			open[id] = s.Turn.Open()
		}
	}); err != nil {
		return root, false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := map[string]*dsh.Session{} // those of the task, of maybe thousands
	for i := range sessions {
		if id := sessions[i].ID; t.sessions[id] != nil {
			rows[id] = &sessions[i]
		}
	}
	if row := rows[t.Root]; row != nil {
		root, listed = *row, true
	}
	for id, s := range t.sessions {
		r, known := rows[id]
		again := s.unreadable
		s.unreadable = false
		switch {
		case known && s.gone:
			s.gone, s.need = false, true
			t.missing = t.missing && id != t.Root
		case known && (again || r.LastSeq >= t.reach(s) || (open[id] && !r.Running)):
			s.need = true
		case !known && id == t.Root && !s.gone:
			s.need = true // the history's answer tells whether it is gone
		}
	}
	return root, listed, nil
}

// reach is the first seq of a session that will not be in the ledger once the inbox is drained. t.mu is held.
func (t *Task) reach(s *source) int64 {
	r := t.runs[s.id]
	switch {
	case s.covered && (r == nil || r.lo > s.next):
		return s.next
	case s.covered:
		return max(s.next, r.next)
	case r != nil:
		return r.next
	}
	return 0
}

// Changed returns a channel that is closed at the next change of what a Snapshot shows. It has to be fetched before
// the Snapshot that it is to outdate.
func (t *Task) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
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
