package bridge

import (
	"log/slog"
	"time"

	"dsh-agentlink/internal/home"
	"dsh-agentlink/ledger"
)

// LedgerOptions is how the ledgers of a home are opened.
type LedgerOptions struct {
	LockTimeout time.Duration
	MaxBytes    int64 // size past which a ledger is compacted; 0 for the default
	Log         *slog.Logger
}

// OpenLedger returns the ledger of a task of a home, without touching the disk. The caller closes it.
func OpenLedger(h *home.Home, taskID, sessionID string, opts LedgerOptions) *ledger.Ledger {
	dir := h.LedgerDir(taskID)
	lock := h.Lock(dir + "/" + ledger.LockFile)
	return ledger.Open(ledger.Options{Dir: dir, TaskID: taskID, Root: sessionID, Disk: homeDisk{h}, MaxBytes: opts.MaxBytes,
		Lock: ledgerLock{lock, opts.LockTimeout, opts.Log}})
}
