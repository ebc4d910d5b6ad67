package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
)

// What a lock orders.
const (
	LockRegistry = "registry" // changes of claims
	LockLaunch   = "launch"   // delegations with the same requestId
	LockLedger   = "ledger"   // what is recorded of one task
)

// The states of a lock.
const (
	LockFree       = "free"
	LockHeld       = "held"
	LockHangs      = "hangs"      // held for longer than anything takes that is done under it
	LockStopped    = "stopped"    // held by a process that was stopped
	LockFolder     = "folder"     // a TypeScript bridge's, which looks held for ever
	LockUnreadable = "unreadable" // something that is no lock stands in its place
)

// hangsAfter is far above what is done under a lock: milliseconds for a record, under a minute for a whole launch.
const hangsAfter = 2 * time.Minute

// Lock is one lock of the home.
type Lock struct {
	Kind   string `json:"kind"`
	TaskID string `json:"taskId,omitempty"` // of a ledger's lock
	Path   string `json:"path"`
	State  string `json:"state"`
	// Holder is the process that the owner note names; for a free lock, the one that died without clearing its note.
	Holder *Process `json:"holder,omitempty"`
	Since  string   `json:"since,omitempty"`
	// Problem says what is wrong, Help what to type; both are empty for a lock that is free or at work.
	Problem string `json:"problem,omitempty"`
	Help    string `json:"help,omitempty"`
}

// LocksAnswer is what `locks` shows.
type LocksAnswer struct {
	Locks []Lock `json:"locks"`
	// Free counts the locks that are free, which are listed only on demand.
	Free     int `json:"free"`
	Problems int `json:"problems"`
}

// Locks looks at every lock of the home. Free ones are counted, and listed with all; one that a dead process left its
// note in is always listed.
func (o *Operator) Locks(ctx context.Context, all bool) (LocksAnswer, error) {
	answer := LocksAnswer{Locks: []Lock{}}
	paths, err := o.lockPaths()
	if err != nil {
		return answer, err
	}
	for _, l := range paths {
		if !exists(l.Path) {
			continue
		}
		o.probe(ctx, &l)
		if l.State == LockFree {
			answer.Free++
		}
		if l.Problem != "" {
			answer.Problems++
		}
		if all || l.State != LockFree || l.Holder != nil {
			answer.Locks = append(answer.Locks, l)
		}
	}
	return answer, nil
}

// lockPaths names every lock that the home could have.
func (o *Operator) lockPaths() ([]Lock, error) {
	locks := []Lock{{Kind: LockRegistry, Path: o.home.RegistryLock()}}
	names, err := o.home.Names(o.home.TasksDir())
	if err != nil {
		return nil, fmt.Errorf("the launch locks cannot be listed: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "launch-") && strings.HasSuffix(name, ".lock") {
			locks = append(locks, Lock{Kind: LockLaunch, Path: o.home.TasksDir() + "/" + name})
		}
	}
	ids, err := o.ledgerIDs()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		locks = append(locks, Lock{Kind: LockLedger, TaskID: id, Path: o.home.LedgerDir(id) + "/" + ledger.LockFile})
	}
	return locks, nil
}

// ledgerIDs lists the tasks that have a folder for a ledger.
func (o *Operator) ledgerIDs() ([]string, error) {
	names, err := o.home.Names(o.home.LedgersDir())
	if err != nil {
		return nil, fmt.Errorf("the ledgers cannot be listed: %w", err)
	}
	var ids []string
	for _, name := range names {
		if tasks.ValidID(name) {
			ids = append(ids, name)
		}
	}
	return ids, nil
}

// probe fills in how a lock stands.
func (o *Operator) probe(ctx context.Context, l *Lock) {
	p, err := o.home.ProbeLock(l.Path)
	if err != nil {
		l.State, l.Problem, l.Help = LockUnreadable, err.Error(), "ls -ld "+quote(l.Path)
		return
	}
	l.Since = stamp(p.Since)
	if p.PID > 0 {
		holder := processOf(ctx, p.PID)
		l.Holder = &holder
	}
	recover := Program + " locks recover " + l.target()
	switch p.State {
	case home.LockFolder:
		l.State, l.Help = LockFolder, recover
		l.Problem = "it is a folder, the lock of a TypeScript bridge; while it is there this bridge waits in vain"
	case home.LockHeld:
		l.State = LockHeld
		switch {
		case l.Holder != nil && l.Holder.State == ProcessStopped:
			l.State, l.Help = LockStopped, fmt.Sprintf("kill -CONT %d", p.PID)
			l.Problem = fmt.Sprintf("process %d holds it and is stopped: let it go on, or end it (kill -KILL %d), which frees the lock", p.PID, p.PID)
		case !p.Since.IsZero() && o.now().Sub(p.Since) > hangsAfter:
			l.State, l.Help = LockHangs, fmt.Sprintf("kill %d", p.PID)
			l.Problem = fmt.Sprintf("process %d has held it for %s; if it hangs, end it: the lock goes with it", p.PID, o.now().Sub(p.Since).Round(time.Second))
		}
	default:
		l.State = LockFree
		if l.Holder != nil && l.Holder.State != ProcessGone {
			// Another process has that id by now: the note is older than it, or the lock was given back in between.
			l.Holder = nil
		}
	}
}

// target is what `locks recover` calls the lock.
func (l *Lock) target() string {
	if l.Kind == LockLedger {
		return l.TaskID
	}
	return l.Kind
}

// quote makes a path safe to be typed.
func quote(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+@%:,", r))
	}) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
