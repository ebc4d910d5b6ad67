package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/operator"
	"dsh-agentlink/ledger"
)

// RecoverLocks looks after the locks it is given, as [operator.Operator.Locks] lists them: it takes each one itself,
// which tells that no live process holds it and clears the note of a dead one, and cuts the torn line off the ledger
// behind it. A lock folder of a TypeScript bridge is moved aside. A lock that a live process holds is a problem that
// names it.
func (r *Repair) RecoverLocks(ctx context.Context, locks []operator.Lock) (Report, error) {
	report := newReport()
	for _, l := range locks {
		if err := ctx.Err(); err != nil {
			return report, err
		}
		switch l.State {
		case operator.LockFolder:
			moved, err := r.moveFolder(ctx, &report, l)
			if err != nil {
				return report, err
			}
			if !moved {
				continue
			}
		case operator.LockUnreadable:
			report.problem(l.TaskID, l.Help, "%s", l.Problem)
			continue
		}
		r.takeLock(ctx, &report, l)
	}
	return report, nil
}

func (r *Repair) moveFolder(ctx context.Context, report *Report, l operator.Lock) (moved bool, err error) {
	if others := operator.TypeScriptBridges(ctx); len(others) > 0 {
		report.problem(l.TaskID, fmt.Sprintf("End it, then run %s locks recover again.", operator.Program),
			"%s was left where it is: process %d looks like a TypeScript bridge, which may hold that lock", l.Path, others[0].PID)
		return false, nil
	}
	kept, err := r.home.MoveAside(l.Path, "typescript", r.now())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // another was faster
	}
	if err != nil {
		return false, fmt.Errorf("move %s aside: %w", l.Path, err)
	}
	report.did(Step{TaskID: l.TaskID, Did: "moved the lock folder of a TypeScript bridge aside", Path: l.Path, Kept: kept})
	return true, nil
}

// takeLock takes a lock and gives it back.
func (r *Repair) takeLock(ctx context.Context, report *Report, l operator.Lock) {
	dead := l.State == operator.LockFree && l.Holder != nil
	torn, err := r.mend(ctx, l)
	var locked *home.LockTimeoutError
	var damaged *ledger.DamagedError
	switch {
	case errors.As(err, &locked):
		report.Problems = append(report.Problems, held(ctx, l.TaskID, locked))
		return
	case errors.As(err, &damaged):
		report.problem(l.TaskID, operator.Program+" ledgers recover "+l.TaskID, "the lock is free, and the ledger behind it is damaged: %v", damaged)
	case err != nil:
		report.problem(l.TaskID, "", "%v", err)
		return
	}
	if dead {
		report.did(Step{TaskID: l.TaskID, Did: fmt.Sprintf("cleared the note of process %d, which is gone", l.Holder.PID), Path: l.Path})
	}
	if torn > 0 {
		report.did(Step{TaskID: l.TaskID, Did: fmt.Sprintf("cut a torn line of %d bytes off the ledger", torn), Path: r.home.LedgerDir(l.TaskID) + "/" + ledger.EventsFile})
	}
}

// mend holds a lock for a moment; behind a ledger's it cuts off a torn line.
func (r *Repair) mend(ctx context.Context, l operator.Lock) (torn int64, err error) {
	if l.Kind != operator.LockLedger {
		lock := r.home.Lock(l.Path)
		if err := lock.Acquire(ctx, r.opts.LockTimeout); err != nil {
			return 0, err
		}
		return 0, lock.Release()
	}
	root, err := r.rootOf(l.TaskID)
	if err != nil {
		return 0, err
	}
	file := r.ledger(l.TaskID, root)
	defer func() { err = errors.Join(err, file.Close()) }()
	return file.Mend(ctx)
}

// rootOf is the session of a task, by its mapping or, where that cannot be had, by its ledger.
func (r *Repair) rootOf(taskID string) (string, error) {
	task, err := r.tasks.Load(taskID)
	if err == nil {
		return task.SessionID, nil
	}
	found, inspected := r.look.Inspect(taskID, "")
	if found.Root == "" {
		return "", errors.Join(err, inspected)
	}
	return found.Root, nil
}

// held says who holds a lock and how a person gets it free.
func held(ctx context.Context, taskID string, locked *home.LockTimeoutError) Problem {
	if locked.PID == 0 {
		return Problem{TaskID: taskID, What: locked.Error(), Help: "Run it again; when it stays so, lsof " + locked.Path + " tells who has it open."}
	}
	p := operator.ProcessOf(ctx, locked.PID)
	what := fmt.Sprintf("%s is held by process %d (%s, %s) since %s", locked.Path, p.PID, p.Name, p.State, locked.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
	switch p.State {
	case operator.ProcessStopped:
		return Problem{TaskID: taskID, What: what, Help: fmt.Sprintf("Let it go on with: kill -CONT %d. Or end it, which frees the lock: kill -KILL %d", p.PID, p.PID)}
	case operator.ProcessGone:
		return Problem{TaskID: taskID, What: fmt.Sprintf("%s is held, but by another process than its note names (%d is gone)", locked.Path, p.PID), Help: "Run it again."}
	}
	return Problem{TaskID: taskID, What: what, Help: fmt.Sprintf("A lock is held for milliseconds. If that process hangs, end it, which frees the lock: kill %d, and if it stays: kill -KILL %d", p.PID, p.PID)}
}
