package mux

import (
	"context"
	"sync"
	"time"
)

// burst watches the opening frames of a connection for their end. Nothing on the wire marks it: the host sends them in
// one go, and afterwards only now and then.
type burst struct {
	mu    sync.Mutex
	began time.Time
	last  time.Time
}

// maxBurst is when the opening burst counts as over, whatever comes: on a host where sessions are resumed all the time
// it is never quiet.
const maxBurst = time.Minute

func newBurst() *burst { return &burst{began: time.Now(), last: time.Now()} }

// seen notes a frame of a kind that the burst is made of.
func (b *burst) seen() {
	b.mu.Lock()
	b.last = time.Now()
	b.mu.Unlock()
}

// quiet waits until no such frame has come for d, and reports false when ctx ends before.
func (b *burst) quiet(ctx context.Context, d time.Duration) bool {
	for {
		b.mu.Lock()
		rest := min(d-time.Since(b.last), maxBurst-time.Since(b.began))
		b.mu.Unlock()
		if rest <= 0 {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}
