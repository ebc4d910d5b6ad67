package dshtest

import (
	"context"
	"time"
)

// hold stops answers that are being spoken.
type hold struct {
	behind  int           // the words after which an answer stops; 0 for none that does
	release chan struct{} // closed to let them go on
}

// HoldWords makes every answer that is spoken with a delay stop behind its n-th word, so that a test has its running
// turn for as long as it needs it, however slow the machine. ReleaseWords and ClearFaults let them go on; a cancel or
// the end of the host ends them.
func (h *Host) HoldWords(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.words.letGo()
	h.faults.words = hold{behind: n, release: make(chan struct{})}
}

// ReleaseWords takes HoldWords back.
func (h *Host) ReleaseWords() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.words.letGo()
}

func (w *hold) letGo() {
	if w.behind > 0 {
		close(w.release)
	}
	*w = hold{}
}

// pace waits between two words of an answer, the n-th of which was the last. It reports false when ctx ended first.
func (h *Host) pace(ctx context.Context, n int, delay time.Duration) bool {
	if !pause(ctx, delay) {
		return false
	}
	h.mu.Lock()
	held := h.faults.words
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
