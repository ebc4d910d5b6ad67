package bridge

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/requests"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

type goalAnswer struct {
	TaskID   string `json:"taskId"`
	Action   string `json:"action"`
	Repeated bool   `json:"repeated,omitempty"`
	// Goal is left out when there is none.
	Goal      *goalView        `json:"goal,omitempty"`
	Execution ledger.Execution `json:"execution"`
	// Cursor is that before what begins rounds, so that they lie behind it; otherwise that after the change.
	Cursor             int64  `json:"cursor"`
	ContentUnavailable string `json:"contentUnavailable,omitempty"`
}

// goal looks at a task's goal, or changes it.
func (b *Bridge) goal(ctx context.Context, raw json.RawMessage) (any, error) {
	var args goalArgs
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := args.check(); err != nil {
		return nil, err
	}
	_, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	if args.Action == goalGet {
		return b.getGoal(ctx, t)
	}
	asked := args
	asked.SinceCursor, asked.RequestID = nil, ""
	call := onceCall{again: true, Call: requests.Call{Tool: "dsh_goal", TaskID: t.ID, RequestID: args.RequestID, Arguments: asked}}
	kept := func(a goalAnswer) goalAnswer {
		a.Goal, a.ContentUnavailable = a.Goal.bare(), ""
		return a
	}
	answer, repeated, err := once(ctx, b, call, kept, func() (goalAnswer, error) { return b.changeGoal(ctx, t, args) })
	if err != nil {
		return nil, err
	}
	answer.Repeated = answer.Repeated || repeated
	return answer, b.settled(t)
}

func (b *Bridge) getGoal(ctx context.Context, t *mux.Task) (any, error) {
	row, snap, err := b.fresh(ctx, t)
	if err != nil {
		return nil, err
	}
	answer := goalAnswer{TaskID: t.ID, Action: goalGet, Execution: snap.Execution, Cursor: snap.Cursor}
	if answer.Goal, err = b.goalShown(ctx, b.reader(t, snap), snap, row.Goal); err != nil {
		answer.ContentUnavailable = b.unavailable(err)
	}
	return answer, b.settled(t)
}

// changeGoal makes the one change. That the host takes it at one revision only makes it safe to send it again where
// nobody knows whether it arrived: the history shows it, or it cannot be made twice.
func (b *Bridge) changeGoal(ctx context.Context, t *mux.Task, args goalArgs) (goalAnswer, error) {
	answer := goalAnswer{TaskID: t.ID, Action: args.Action}
	if args.begins() {
		if err := b.needClaim(t.ID); err != nil {
			return answer, err
		}
	}
	row, snap, err := b.fresh(ctx, t)
	if err != nil {
		return answer, err
	}
	write, err := args.write(t.Root)
	if err != nil {
		return answer, err
	}
	if answer.Repeated, err = b.goalChanged(ctx, t, snap, &write, args); err != nil {
		return answer, err
	}
	if answer.Repeated {
		return b.goalAfter(ctx, t, args, answer)
	}
	if err := b.checkView(t, snap, args.SinceCursor, ""); err != nil {
		return answer, err
	}
	ref, err := b.goalRef(ctx, t, snap, row.Goal, args)
	if err != nil {
		return answer, err
	}
	if args.Action == goalCreate || args.Action == goalResume {
		if err := b.needRoute(ctx, t.Root); err != nil {
			return answer, err
		}
	}
	answer.Cursor = snap.Cursor
	write.Goal.ID, write.Goal.Revision = ref.ID, ref.Revision
	if err := b.sendGoal(ctx, t, write, ref, args); err != nil {
		return answer, b.goalRefused(ctx, t, err)
	}
	if args.Action == goalPause {
		if err := b.stopTurn(ctx, t); err != nil {
			return answer, err
		}
	}
	return b.goalAfter(ctx, t, args, answer)
}

// goalChanged reports whether an earlier call made the change already; where it did not, w may be sent.
func (b *Bridge) goalChanged(ctx context.Context, t *mux.Task, snap mux.Snapshot, w *mux.Write, args goalArgs) (bool, error) {
	issued, known, err := t.IssuedPrompt(w.RequestID)
	w.Again = known
	if err != nil || !known || issued.Outcome != ledger.PromptAccepted {
		return false, err
	}
	if args.Objective == "" || snap.Goal == nil || snap.Goal.Seq < 0 || snap.Goal.Cursor != issued.Cursor {
		return true, nil
	}
	ev, ok, err := b.reader(t, snap).event(ctx, t.Root, snap.Goal.Seq)
	if err != nil || !ok || dsh.GoalChangeOf(ev).Goal.Objective == args.Objective {
		return true, err
	}
	// It was another caller's, made in its place: this one is a new write.
	w.RequestID, w.Again = uuid.NewString(), false
	return false, nil
}

// goalRef is the revision of the goal that the change follows.
func (b *Bridge) goalRef(ctx context.Context, t *mux.Task, snap mux.Snapshot, row *dsh.Goal, args goalArgs) (dsh.GoalRef, error) {
	if args.Action == goalCreate {
		return dsh.GoalRef{}, nil
	}
	var ref dsh.GoalRef
	switch {
	case snap.Goal != nil:
		ref = dsh.GoalRef{ID: snap.Goal.ID, Revision: snap.Goal.Revision}
	case row != nil && !snap.GoalKnown:
		ref = row.Ref
	default:
		return ref, &Error{Code: CodeGoalInvalid, Message: "the task has no goal", Hint: "dsh_goal with action create gives it one."}
	}
	if want := args.ExpectedRevision; want != nil && *want != ref.Revision {
		return ref, b.revisionConflict(ctx, t, snap, row)
	}
	return ref, nil
}

// needRoute refuses to begin what would fail at once, since the host cannot reach the session's model.
func (b *Bridge) needRoute(ctx context.Context, sessionID string) error {
	models, err := b.host.Models(ctx, sessionID)
	if err != nil {
		return err
	}
	if !models.Routable {
		return &Error{Code: CodeModelUnroutable, Message: fmt.Sprintf("the host cannot reach %s (%s); nothing was sent", models.Model, models.Provider), Hint: routeHint}
	}
	return nil
}

// sendGoal makes the change at the host.
func (b *Bridge) sendGoal(ctx context.Context, t *mux.Task, write mux.Write, ref dsh.GoalRef, args goalArgs) error {
	rounds := 0
	if args.MaxGoalRounds != nil {
		rounds = *args.MaxGoalRounds
	}
	return t.Issue(ctx, write, func() error {
		var err error
		switch args.Action {
		case goalCreate:
			_, err = b.host.CreateGoal(ctx, t.Root, args.Objective, rounds)
		case goalEdit:
			_, err = b.host.EditGoal(ctx, t.Root, ref, args.Objective, rounds)
		default:
			_, err = b.host.MoveGoal(ctx, t.Root, ref, dsh.GoalAction(args.Action))
		}
		return err
	})
}

// stopTurn cancels the running turn of a goal that was just paused: paused first, the host does not begin another round
// in between, and a pause that is refused has stopped nothing.
func (b *Bridge) stopTurn(ctx context.Context, t *mux.Task) error {
	_, snap, err := b.fresh(ctx, t)
	if err == nil && !snap.Turn.Open() {
		return nil
	}
	if err == nil {
		err = t.Cancel(ctx)
	}
	if err != nil {
		e := *asError(err, b.hostURL)
		e.Message = "the goal is paused, but the running turn was not cancelled: " + e.Message
		e.Hint = "No further round begins. dsh_cancel stops the turn."
		return &e
	}
	b.until(ctx, t, cancelSettles, func(now mux.Snapshot) bool { return !now.Turn.Open() || now.Turn.Number != snap.Turn.Number })
	return nil
}

// goalAfter is the answer once the change is in the ledger.
func (b *Bridge) goalAfter(ctx context.Context, t *mux.Task, args goalArgs, answer goalAnswer) (goalAnswer, error) {
	row, snap, err := b.fresh(ctx, t)
	if err != nil {
		// The change is made, whatever became of the connection since.
		answer.ContentUnavailable = b.unavailable(err)
		if snap, err = t.Snapshot(); err != nil {
			return answer, err
		}
		row.Goal = nil
	}
	answer.Execution = snap.Execution
	if !args.begins() || answer.Repeated {
		answer.Cursor = snap.Cursor
	}
	if answer.ContentUnavailable != "" {
		answer.Goal = b.goalKnown(snap, nil)
		return answer, nil
	}
	if answer.Goal, err = b.goalShown(ctx, b.reader(t, snap), snap, row.Goal); err != nil {
		answer.ContentUnavailable = b.unavailable(err)
	}
	return answer, nil
}
