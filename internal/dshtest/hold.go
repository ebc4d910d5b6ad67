package dshtest

import (
	"context"
	"math"
	"time"
)

// hold stops answers that are being spoken, and commands that sleep.
type hold struct {
	behind  int           // the words after which an answer stops; 0 for none that does
	release chan struct{} // closed to let them go on
}

// HoldWork makes every answer that is spoken with a delay stop behind its n-th word, and every command that sleeps sleep
// on, so that a test has its running turn for as long as it needs it, however slow the machine. n is 0 for no hold.
// ReleaseWork and ClearFaults let them go on; a cancel or the end of the host ends them.
func (h *Host) HoldWork(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.work.letGo()
	h.faults.work = hold{behind: n, release: make(chan struct{})}
}

// ReleaseWork takes HoldWork back.
func (h *Host) ReleaseWork() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.work.letGo()
}

func (w *hold) letGo() {
	if w.behind > 0 {
		close(w.release)
	}
	*w = hold{}
}

// asleep is the place of a command that sleeps, which is behind every word.
const asleep = math.MaxInt

// pace waits at a place that is held from hold.behind on: between two words of an answer, the n-th of which was the last,
// or asleep. It reports false when ctx ended first.
func (h *Host) pace(ctx context.Context, n int, delay time.Duration) bool {
	if !pause(ctx, delay) {
		return false
	}
	h.mu.Lock()
	held := h.faults.work
	h.mu.Unlock()
	if delay <= 0 || held.behind == 0 || n < held.behind {
		return true
	}
	select {
	case <-held.release:
		return true
	case <-ctx.Done():
		return false
	}
}
