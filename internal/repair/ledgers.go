package repair

import (
	"context"
	"errors"
	"fmt"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/operator"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// RecoverLedger puts a new ledger in the place of a damaged one and fills it from the host's history. The damaged files
// are kept, and the cursors go on above theirs. A sound ledger loses a torn line at most. When the host cannot be
// reached nothing is touched. above is a cursor that somebody knows of the ledger, 0 for none: one that ends before it is
// damaged.
func (r *Repair) RecoverLedger(ctx context.Context, taskID string, above int64) (Report, error) {
	report := newReport()
	root, err := r.rootOf(taskID)
	if err != nil {
		return report, err
	}
	if _, err := r.opts.Host.Sessions(ctx); err != nil {
		return report, fmt.Errorf("nothing was changed, since the host at %s, whose history a ledger is rebuilt from, cannot be asked: %w", r.opts.HostURL, err)
	}
	done, err := r.replace(ctx, taskID, root, above)
	path := r.home.LedgerDir(taskID) + "/" + ledger.EventsFile
	var locked *home.LockTimeoutError
	switch {
	case errors.As(err, &locked):
		report.Problems = append(report.Problems, held(ctx, taskID, locked))
		return report, nil
	case err != nil:
		return report, err
	case done.Torn > 0:
		report.did(Step{TaskID: taskID, Did: fmt.Sprintf("cut a torn line of %d bytes off the ledger, which is sound otherwise", done.Torn), Path: path})
		return report, nil
	case done.Damage == nil:
		return report, nil
	}
	for _, kept := range done.Kept {
		report.did(Step{TaskID: taskID, Did: "kept a file of the damaged ledger", Kept: kept})
	}
	report.did(Step{TaskID: taskID, Did: fmt.Sprintf("began a new ledger behind cursor %d, since the highest of the damaged one was %d", done.After, done.Highest), Path: path})
	added, gone, err := r.refill(ctx, taskID, root, done.After)
	switch {
	case err != nil:
		report.problem(taskID, "The next bridge that reaches the host goes on with it.", "the history could not be read to its end: %v", err)
	case gone:
		report.problem(taskID, operator.Program+" claims release "+taskID, "the host does not know the task's session, so the new ledger stays empty")
	}
	report.did(Step{TaskID: taskID, Did: fmt.Sprintf("recorded %d events of the host's history", added)})
	return report, nil
}

func (r *Repair) replace(ctx context.Context, taskID, root string, above int64) (done ledger.Recovered, err error) {
	file := r.ledger(taskID, root)
	defer func() { err = errors.Join(err, file.Close()) }()
	return file.Recover(ctx, above, func(path string) (string, error) { return r.home.Keep(path, "damaged", r.now()) })
}

// refill reads the task's history into its ledger, and tells how many records came and whether the host does not know
// the session.
func (r *Repair) refill(ctx context.Context, taskID, root string, after int64) (added int64, gone bool, err error) {
	m := mux.New(mux.Options{Host: r.opts.Host, Ledger: r.ledger})
	defer m.Close()
	t := m.Track(taskID, root)
	m.Start()
	if _, _, err := t.Fresh(ctx); err != nil && !dsh.IsCode(err, dsh.CodeSessionNotFound) {
		return 0, false, err
	}
	if err := t.Ledger().Sync(); err != nil {
		return 0, false, err
	}
	snap, err := t.Snapshot()
	return max(snap.Cursor-after, 0), snap.Availability == mux.SessionNotFound, errors.Join(err, snap.Fault)
}

// CompactLedger moves all but a ledger's last records into its checkpoint. Older cursors expire.
func (r *Repair) CompactLedger(ctx context.Context, taskID string) (Report, error) {
	report := newReport()
	root, err := r.rootOf(taskID)
	if err != nil {
		return report, err
	}
	before, err := r.look.Inspect(taskID, root)
	if err != nil {
		return report, err
	}
	file := r.ledger(taskID, root)
	err = errors.Join(file.Compact(ctx), file.Close())
	var locked *home.LockTimeoutError
	if errors.As(err, &locked) {
		report.Problems = append(report.Problems, held(ctx, taskID, locked))
		return report, nil
	}
	if err != nil {
		return report, err
	}
	after, err := r.look.Inspect(taskID, root)
	if err != nil {
		return report, err
	}
	if after.First > before.First {
		report.did(Step{TaskID: taskID, Path: r.home.LedgerDir(taskID) + "/" + ledger.EventsFile,
			Did: fmt.Sprintf("compacted the ledger from %d to %d bytes; cursors before %d have expired", before.Size, after.Size, after.First-1)})
	}
	return report, nil
}
