package repair

import (
	"context"
	"errors"
	"fmt"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/operator"
)

// ReleaseClaim ends the claim of a task. The host is not asked, so this works as well for a claim whose session or host
// is gone. A claim file that cannot be read is moved aside.
func (r *Repair) ReleaseClaim(ctx context.Context, taskID string) (Report, error) {
	report := newReport()
	claim, found, err := r.claims.Release(ctx, taskID)
	var unreadable *claims.FileError
	switch {
	case errors.As(err, &unreadable):
		kept, err := r.claims.Discard(ctx, taskID, r.now())
		if err != nil {
			return report, err
		}
		report.did(Step{TaskID: taskID, Did: "moved a claim that cannot be read aside", Path: unreadable.Path, Kept: kept})
	case err != nil:
		return report, err
	case !found:
		report.problem(taskID, operator.Program+" claims", "task %s has no claim", taskID)
	default:
		report.did(Step{TaskID: taskID, Did: fmt.Sprintf("released the %s claim on %s", claim.Mode, claim.Cwd), Path: r.home.ClaimFile(taskID)})
	}
	return report, nil
}

// Runs reports whether the host says that the task is at work. It is false when the host cannot be asked.
func (r *Repair) Runs(ctx context.Context, taskID string) bool {
	root, err := r.rootOf(taskID)
	if err != nil {
		return false
	}
	sessions, err := r.opts.Host.Sessions(ctx)
	if err != nil {
		return false
	}
	for _, s := range sessions {
		if s.ID == root && s.Running {
			return true
		}
	}
	return false
}
