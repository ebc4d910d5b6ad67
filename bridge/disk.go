package bridge

import (
	"context"
	"io/fs"
	"log/slog"
	"time"

	"dsh-agentlink/internal/home"
	"dsh-agentlink/ledger"
)

// homeDisk lets a ledger reach its files through the home, with the home's care about symlinks and permissions.
type homeDisk struct{ home *home.Home }

func (d homeDisk) OpenFile(path string) (ledger.File, error) { return d.home.Edit(path) }

func (d homeDisk) Stat(path string) (fs.FileInfo, error) { return d.home.Stat(path) }

func (d homeDisk) ReadFile(path string, maxBytes int64) ([]byte, error) {
	return d.home.ReadFile(path, maxBytes)
}

func (d homeDisk) WriteFile(path string, data []byte) error { return d.home.WriteFile(path, data) }

// ledgerLock gives a ledger the lock of its folder.
type ledgerLock struct {
	lock    *home.Lock
	timeout time.Duration
	log     *slog.Logger
}

func (l ledgerLock) Acquire(ctx context.Context) error { return l.lock.Acquire(ctx, l.timeout) }

func (l ledgerLock) Release() {
	if err := l.lock.Release(); err != nil {
		l.log.Error("release a lock", "path", l.lock.Path(), "err", err)
	}
}
