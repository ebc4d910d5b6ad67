package mux

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

type logger = *slog.Logger

// step does one round of the worker: work out what the connection has missed, read it, append what the stream
// brought, and compare the burst with the ledger once it is over.
func (t *Task) step(ctx context.Context, epoch int) error {
	if err := t.resend(ctx); err != nil {
		return err
	}
	if epoch == 0 {
		return nil
	}
	if err := t.activate(epoch); err != nil {
		return err
	}
	failed := t.catchUp(ctx, epoch)
	if err := t.drain(ctx, epoch); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if err := t.checkInterrupted(ctx, epoch); err != nil {
		return err
	}
	if err := t.withdraw(ctx, epoch); err != nil {
		return err
	}
	return t.watchSilence(epoch)
}

// activate works out, once on every connection, which sessions have to be read: all but those of which the burst, or
// what came after it, shows that nothing is missing, and earlier readings that nothing was taken back. What the list of
// sessions says is no proof: of a session that the host does not hold in memory it tells how it was saved, and not how
// its log ends.
func (t *Task) activate(epoch int) error {
	t.mu.Lock()
	done := t.active && t.epoch == epoch
	t.mu.Unlock()
	if done {
		return nil
	}
	if err := t.refresh(); err != nil {
		return err
	}
	known := map[string]source{}
	marks := map[string]ledger.Mark{}
	if err := t.ledger.View(func(state *ledger.State) {
		for id, s := range state.Sessions {
			known[id] = source{id: id, parent: s.Parent, origin: s.Origin, mode: s.Mode}
			marks[id] = state.At(id)
		}
	}); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch != epoch {
		return nil
	}
	for id, s := range known {
		if t.sessions[id] == nil {
			t.sessions[id] = &s
		}
	}
	for id, s := range t.sessions {
		at, recorded := marks[id]
		mark := at.Seq
		if !recorded {
			mark = -1
		}
		r := t.runs[id]
		if !s.need && r != nil && r.lo-1 <= mark && mark <= r.next-1 && mark < s.proof.written {
			s.covered, s.lo, s.next = true, mark+1, mark+1
		} else {
			s.need = true
		}
	}
	t.active = true
	return nil
}

// catchUp reads the histories that have to be read. One that cannot be read now does not keep the others, nor what the
// stream brings of them, from the ledger; the first failure is returned.
func (t *Task) catchUp(ctx context.Context, epoch int) error {
	var failed error
	var again []string
	for {
		s, ok := t.nextNeed(epoch)
		if !ok {
			break
		}
		err := t.reconcile(ctx, epoch, s)
		if err == nil {
			continue
		}
		failed = cmp.Or(failed, err)
		again = append(again, s.id)
		if dsh.KindOf(err) == 0 {
			break // the disk would fail the others as well
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range again {
		if s := t.sessions[id]; s != nil && t.epoch == epoch {
			s.need = true
		}
	}
	return failed
}

// nextNeed takes a session whose history has to be read. Whoever asks for it from now on means another reading.
func (t *Task) nextNeed(epoch int) (source, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch != epoch {
		return source{}, false
	}
	next := t.sessions[t.Root] // the root first: its history names its children's order
	if !next.due() {
		next = nil
		for _, s := range t.sessions {
			if s.due() {
				next = s
				break
			}
		}
	}
	if next == nil {
		return source{}, false
	}
	next.need = false
	return *next, true
}

// drain takes what the stream brought to the ledger, in one batch where the seqs follow each other.
func (t *Task) drain(ctx context.Context, epoch int) error {
	ends, err := t.turnEnds()
	if err != nil {
		return err
	}
	t.mu.Lock()
	if t.epoch != epoch {
		t.mu.Unlock()
		return nil
	}
	items := t.inbox
	t.inbox = nil
	t.mu.Unlock()

	var batch []ledger.Entry
	for i := range items {
		it := &items[i]
		if it.kind == dsh.FrameSubscribed {
			t.subscribed(epoch, it)
			continue
		}
		if it.kind == dsh.FrameEvent && !t.follows(epoch, it) {
			continue // a hole: the session's history is read in the next round, and has this event
		}
		if end, over := ends[it.session]; over && it.asks() && it.at >= 0 && it.at <= end {
			t.forget(it.entry.Coordination.RequestID)
			continue // the history was ahead of the stream: the turn that asked is over
		}
		batch = append(batch, it.entry)
	}
	return t.append(ctx, epoch, batch)
}

// asks reports whether the item is a request.
func (it *item) asks() bool {
	return it.kind == dsh.FrameQuestionRequested || it.kind == dsh.FrameApprovalRequested
}

// turnEnds returns the seqs at which the last turns of the sessions ended, of those that did.
func (t *Task) turnEnds() (map[string]int64, error) {
	ends := map[string]int64{}
	err := t.ledger.View(func(state *ledger.State) {
		for id, s := range state.Sessions {
			if s.Turn.Ended && s.Turn.EndSeq > 0 {
				ends[id] = s.Turn.EndSeq
			}
		}
	})
	return ends, err
}

// subscribed compares the last seq of a session with what is covered.
func (t *Task) subscribed(epoch int, it *item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[it.session]
	if t.epoch != epoch || s == nil {
		return
	}
	if !s.covered || it.seq >= s.next {
		s.need = true
	}
}

// follows decides whether an event continues what is covered of its session, and completes its entry. An event that
// does not continue it is left to the history.
func (t *Task) follows(epoch int, it *item) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[it.session]
	if t.epoch != epoch || s == nil {
		return false
	}
	switch {
	case s.covered && it.seq < s.next:
		return false // read from the history already
	case s.covered && it.from <= s.next:
		it.entry.From = s.lo
	case !s.covered && !s.need && it.from == 0:
		s.covered, s.lo = true, 0 // a session seen from its first event on
	default:
		s.need = true
		return false
	}
	s.next = it.seq + 1
	return true
}

// append writes a batch to the ledger. When it fails, the sessions whose events were in it are read again, and the
// rest is kept for another try.
func (t *Task) append(ctx context.Context, epoch int, batch []ledger.Entry) error {
	if len(batch) == 0 {
		return nil
	}
	done, err := t.ledger.Append(ctx, batch)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		for _, e := range batch {
			if !brought(e) || (!fromHistory(e) && t.epoch == epoch) {
				t.unsent = append(t.unsent, e)
			} else if s := t.sessions[e.SourceSessionID]; s != nil && t.epoch == epoch {
				s.need, s.covered = true, false
			}
		}
		var hole *ledger.NotContiguousError
		if errors.As(err, &hole) {
			return nil // another process had less than this one thought; the history will tell
		}
		return err
	}
	if done.Compaction != nil {
		t.log.Warn("the ledger could not be compacted", "err", done.Compaction)
	}
	t.reached(done.Cursor)
	return nil
}

// fromHistory reports whether an entry is one that a history is read for.
func fromHistory(e ledger.Entry) bool {
	return e.Type == ledger.TypeEvent || e.Type == ledger.TypeGap || e.Type == ledger.TypeRewind
}

// resend tries the entries again whose append failed.
func (t *Task) resend(ctx context.Context) error {
	t.mu.Lock()
	batch := t.unsent
	t.unsent = nil
	epoch := t.epoch
	t.mu.Unlock()
	return t.append(ctx, epoch, batch)
}
