package bridge

import (
	"context"
	"errors"
	"strings"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/mux"
)

// revisionConflict says that the goal is not as the caller saw it, and how it is.
func (b *Bridge) revisionConflict(ctx context.Context, t *mux.Task, snap mux.Snapshot, row *dsh.Goal) *Error {
	e := &Error{Code: CodeRevisionConflict, Message: "the goal has another revision than the change was meant for; nothing was changed",
		Hint: "Look at the goal in details, decide again, and pass its revision."}
	if view, err := b.goalShown(ctx, b.reader(t, snap), snap, row); err == nil && view != nil {
		e.with("goal", view)
	}
	return e
}

// goalRefused explains why the host did not change the goal.
func (b *Bridge) goalRefused(ctx context.Context, t *mux.Task, err error) error {
	code := dsh.GoalCode(err)
	if code == "" {
		return err
	}
	row, snap, looking := b.fresh(ctx, t)
	if looking != nil {
		return errors.Join(err, looking)
	}
	if code == dsh.GoalStaleRevision {
		return b.revisionConflict(ctx, t, snap, row.Goal)
	}
	e := (&Error{Code: CodeGoalInvalid, Message: "the host refused it: " + refusalWords(err), Hint: goalHints[code]}).with("hostCode", code)
	if view, looking := b.goalShown(ctx, b.reader(t, snap), snap, row.Goal); looking == nil && view != nil {
		e.with("goal", view)
	}
	return e
}

// goalHints lead out of the host's refusals.
var goalHints = map[string]string{
	dsh.GoalAlreadyExists:     "Edit it, or clear it and create another.",
	dsh.GoalNotFound:          "dsh_goal with action create gives the task one.",
	dsh.GoalInvalidTransition: "The phase in details says what can be done: an active goal is paused, a paused or blocked one resumed (one out of rounds after an edit of maxGoalRounds), any but a complete one completed, and every one cleared.",
}

// refusalWords are the host's own.
func refusalWords(err error) string {
	if host, ok := errors.AsType[*dsh.Error](err); ok {
		return strings.TrimPrefix(host.Message, "GoalError: ")
	}
	return err.Error()
}
