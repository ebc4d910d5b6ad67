package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dsh-agentlink/ledger"
)

// locks are the lock files of a home. The kernel frees a lock when the process that holds it dies.
type locks struct {
	*journal

	mu    sync.Mutex
	files map[string]*lockFile
}

type lockFile struct {
	holder   *process // nil when free
	released chan struct{}
}

// lockTimeout is how long a process waits for a lock, as the bridge does by default.
const lockTimeout = 5 * time.Second

// errLocked is the failure of a wait for a lock.
var errLocked = errors.New("the lock is held by another process")

func newLocks(j *journal) *locks { return &locks{journal: j, files: map[string]*lockFile{}} }

// lock is the lock of one file as one open handle of a process sees it; it is the process's [ledger.Locker].
type lock struct {
	locks *locks
	path  string
	p     *process
	// slow draws whether the process stops for a while as soon as it has the lock.
	slow func() bool
}

var _ ledger.Locker = (*lock)(nil)

// try takes the lock if it is free; otherwise it returns who has it, and what is closed when he gives it back.
func (l *locks) try(path string, p *process) (holder *process, released chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[path]
	if f == nil {
		f = &lockFile{}
		l.files[path] = f
	}
	if f.holder != nil && f.holder.alive() {
		return f.holder, f.released
	}
	f.holder, f.released = p, make(chan struct{})
	return nil, nil
}

// Acquire implements [ledger.Locker].
func (l *lock) Acquire(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	for {
		if !l.p.alive() {
			return errDead
		}
		holder, released := l.locks.try(l.path, l.p)
		if holder == nil {
			break
		}
		select {
		case <-released:
		case <-holder.ctx.Done():
		case <-l.p.ctx.Done():
		case <-wait.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("waiting for a lock: %w", ctx.Err())
			}
			l.locks.count("lock: wait timed out")
			return errLocked
		}
	}
	if l.slow() {
		l.locks.count("lock: holder stopped for a while")
		sleep(l.p.ctx, l.p.dice.between(100*time.Millisecond, 8*time.Second))
	}
	return nil
}

// Release implements [ledger.Locker].
func (l *lock) Release() {
	l.locks.mu.Lock()
	defer l.locks.mu.Unlock()
	if f := l.locks.files[l.path]; f.holder == l.p {
		f.holder = nil
		close(f.released)
	}
}

// sleep waits, and reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
