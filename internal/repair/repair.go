// Package repair is what a person runs to mend a bridge's home: stuck locks, damaged ledgers, claims that nobody will
// release any more, the home of a TypeScript bridge.
//
// What it promises: it never breaks into a lock that a live process holds, it deletes nothing that cannot be had again
// (what is replaced is kept under another name beside it), and it reports each thing that it did and nothing that it
// did not do. Whoever calls it has asked the person first.
package repair

import (
	"fmt"
	"log/slog"
	"time"

	"dsh-agentlink/bridge"
	"dsh-agentlink/claims"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
)

// Options is what a Repair works on.
type Options struct {
	Home    *home.Home
	Host    dsh.Host
	HostURL string // as shown
	// LockTimeout is how long a lock is waited for.
	LockTimeout time.Duration
	// LedgerMaxBytes is the size past which a ledger is compacted; 0 for the default.
	LedgerMaxBytes int64
	// Now is the clock of the names that files are kept under; nil means time.Now.
	Now func() time.Time
}

// Repair mends one home.
type Repair struct {
	opts   Options
	home   *home.Home
	tasks  *tasks.Store
	claims *claims.Registry
	look   *operator.Operator
	now    func() time.Time
}

// New returns a Repair that has touched neither disk nor network.
func New(opts Options) *Repair {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Repair{
		opts: opts, home: opts.Home, now: opts.Now,
		tasks: tasks.Open(opts.Home), claims: claims.Open(opts.Home, opts.LockTimeout),
		look: operator.New(operator.Options{Home: opts.Home, Host: opts.Host, HostURL: opts.HostURL, LedgerMaxBytes: opts.LedgerMaxBytes, Now: opts.Now}),
	}
}

// Report is what a repair did, in order, and what it could not mend.
type Report struct {
	Done     []Step    `json:"done"`
	Problems []Problem `json:"problems,omitempty"`
}

// Step is one thing that was done.
type Step struct {
	TaskID string `json:"taskId,omitempty"`
	// Did says what was done, in words, Path to what.
	Did  string `json:"did"`
	Path string `json:"path,omitempty"`
	// Kept is the name under which the file or folder that was there is kept.
	Kept string `json:"kept,omitempty"`
}

// Problem is something that was found and left as it is.
type Problem struct {
	TaskID string `json:"taskId,omitempty"`
	What   string `json:"what"`
	// Help is what the person can do about it.
	Help string `json:"help,omitempty"`
}

func (r *Report) did(s Step) { r.Done = append(r.Done, s) }

func (r *Report) problem(taskID, help, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{TaskID: taskID, What: fmt.Sprintf(format, args...), Help: help})
}

func newReport() Report { return Report{Done: []Step{}} }

// ledger opens the ledger of a task. The caller closes it.
func (r *Repair) ledger(taskID, root string) *ledger.Ledger {
	return bridge.OpenLedger(r.home, taskID, root, bridge.LedgerOptions{
		LockTimeout: r.opts.LockTimeout, MaxBytes: r.opts.LedgerMaxBytes, Log: slog.New(slog.DiscardHandler),
	})
}
