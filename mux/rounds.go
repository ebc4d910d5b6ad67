package mux

import (
	"context"
	"time"

	"dsh-agentlink/internal/dsh"
)

// wake lets the worker look for work, at once even after a fault.
func (t *Task) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused = false
	if t.resume != nil {
		t.resume.Stop()
	}
	t.start()
}

// nudge lets the worker look for work, unless it pauses after a fault.
func (t *Task) nudge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start()
}

// start begins a worker if there is none and something for one to do. t.mu is held.
func (t *Task) start() {
	t.watched = true
	if t.working || t.paused || !t.due() {
		return
	}
	t.working = t.m.spawn(t.work)
}

// work runs until there is nothing left to do, or until a fault; after a fault it comes back by itself.
func (t *Task) work() {
	for {
		t.mu.Lock()
		if !t.due() || t.m.ctx.Err() != nil {
			t.working = false
			t.notify()
			t.endRound()
			t.mu.Unlock()
			return
		}
		epoch := t.epoch
		t.begun++
		t.suspect = false
		t.mu.Unlock()

		during := t.m.during(epoch)
		err := t.step(during, epoch)

		t.mu.Lock()
		t.done++
		if err != nil && t.epoch == epoch && during.Err() != nil {
			// The connection is over, and the task is about to be told.
			t.working = false
			t.notify()
			t.endRound()
			t.mu.Unlock()
			return
		}
		if err == nil || t.epoch != epoch {
			t.fault = nil
			t.retry.Reset()
			t.endRound()
			t.mu.Unlock()
			continue
		}
		t.fault = err
		t.working, t.paused = false, true
		pause := t.retry.NextBackOff()
		t.resume = time.AfterFunc(pause, t.wake)
		t.notify()
		t.endRound()
		t.mu.Unlock()
		if t.m.ctx.Err() == nil {
			t.log.Warn("the task's ledger could not be brought up to date", "err", logged(err), "retryIn", pause)
		}
		return
	}
}

// endRound tells those who wait for the worker. t.mu is held.
func (t *Task) endRound() {
	close(t.round)
	t.round = make(chan struct{})
}

// due reports whether the worker has something to do. t.mu is held.
func (t *Task) due() bool {
	if len(t.unsent) > 0 {
		return true
	}
	if t.epoch == 0 || t.listedOn != t.epoch {
		return false // without a connection, or before its list, nothing can be worked out
	}
	if !t.active || t.suspect || len(t.inbox) > 0 || (t.settle && t.settledOn != t.epoch) || t.fault != nil {
		return true
	}
	for _, s := range t.sessions {
		if s.due() {
			return true
		}
	}
	return false
}

// due reports whether the session's history has to be read and can be.
func (s *source) due() bool { return s.need && !s.gone && !s.unreadable }

// errLost is returned when the connection changed while somebody waited for the worker.
var errLost error = &dsh.Error{Kind: dsh.OutcomeUnknown, Method: dsh.MethodEvents, Message: "the connection was lost meanwhile"}

// idle waits until what came before the call is in the ledger, or the worker failed at it. On a busy task there is
// always something to do, so it waits for two rounds of the worker at most: the first finds a hole, the second fills
// it.
func (t *Task) idle(ctx context.Context, epoch int) error {
	t.mu.Lock()
	enough := t.begun + 2
	for {
		lost := t.epoch != epoch
		over := t.done >= enough || (!t.working && (t.fault != nil || !t.due()))
		fault, round := t.fault, t.round
		t.mu.Unlock()
		switch {
		case t.m.ctx.Err() != nil:
			return ErrClosed
		case lost:
			return errLost
		case over:
			return fault
		}
		select {
		case <-round:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.m.ctx.Done():
		}
		t.mu.Lock()
	}
}
