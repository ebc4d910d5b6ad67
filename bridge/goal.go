package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/requests"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// Values of action.
const (
	goalGet      = "get"
	goalCreate   = "create"
	goalEdit     = "edit"
	goalPause    = "pause"
	goalResume   = "resume"
	goalComplete = "complete"
	goalClear    = "clear"
)

const (
	// maxObjective bounds an objective in bytes: the host repeats it in every round.
	maxObjective = 16 << 10
	maxRounds    = 10_000
)

type goalArgs struct {
	TaskID           string `json:"taskId"`
	Action           string `json:"action"`
	Objective        string `json:"objective"`
	MaxGoalRounds    *int   `json:"maxGoalRounds"`
	ExpectedRevision *int64 `json:"expectedRevision"`
	SinceCursor      *int64 `json:"sinceCursor"`
	RequestID        string `json:"requestId"`
}

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

func (a *goalArgs) check() error {
	a.Objective = strings.TrimSpace(a.Objective) // as the host does
	if err := checkTaskID(a.TaskID); err != nil {
		return err
	}
	if err := checkChoice("action", a.Action, goalGet, goalCreate, goalEdit, goalPause, goalResume, goalComplete, goalClear); err != nil {
		return err
	}
	if err := checkSince(a.SinceCursor); err != nil {
		return err
	}
	if err := checkID("requestId", a.RequestID); err != nil {
		return err
	}
	if err := a.checkContent(); err != nil {
		return err
	}
	switch {
	case a.ExpectedRevision == nil:
	case *a.ExpectedRevision < 1:
		return invalid("expectedRevision", *a.ExpectedRevision, "revisions begin with 1", "")
	case a.Action == goalCreate || a.Action == goalGet:
		return invalid("expectedRevision", *a.ExpectedRevision, "it does not go with action "+a.Action, "")
	}
	return nil
}

// checkContent checks objective and maxGoalRounds against the action.
func (a *goalArgs) checkContent() error {
	takes := a.Action == goalCreate || a.Action == goalEdit
	switch {
	case !takes && a.Objective != "":
		return invalid("objective", a.Objective, "it does not go with action "+a.Action, "")
	case !takes && a.MaxGoalRounds != nil:
		return invalid("maxGoalRounds", *a.MaxGoalRounds, "it does not go with action "+a.Action, "")
	case a.Action == goalEdit && a.Objective == "" && a.MaxGoalRounds == nil:
		return invalid("objective", "", "there is nothing to edit", "Give objective, maxGoalRounds or both.")
	case a.Action == goalCreate || a.Objective != "":
		if err := checkObjective("objective", a.Objective); err != nil {
			return err
		}
	}
	return checkRounds("maxGoalRounds", a.MaxGoalRounds)
}

func checkObjective(field, objective string) error {
	switch {
	case strings.TrimSpace(objective) == "":
		return invalid(field, objective, "it is blank", "Say what is to be reached, and how the agent can tell that it is.")
	case len(objective) > maxObjective:
		return &Error{Code: CodeInvalidArgument, Message: fmt.Sprintf("%s: %d bytes are more than %d", field, len(objective), maxObjective),
			Hint: "Put long material into a file of the workspace and name the file."}
	case !utf8.ValidString(objective):
		return &Error{Code: CodeInvalidArgument, Message: field + ": it is not valid UTF-8"}
	}
	return nil
}

func checkRounds(field string, rounds *int) error {
	if rounds == nil {
		return nil
	}
	return checkRange(field, *rounds, 1, maxRounds)
}

// begins reports whether the action sets the agent to work.
func (a *goalArgs) begins() bool {
	return a.Action == goalCreate || a.Action == goalEdit || a.Action == goalResume
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

// goalSpace is the namespace in which a caller's requestId becomes the id under which the ledger follows the change.
var goalSpace = uuid.MustParse("5d1f1c1e-8d0b-4a3c-9a57-0c4d6f1f7a52")

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

// write is the change as the ledger follows it.
func (a *goalArgs) write(sessionID string) (mux.Write, error) {
	w := mux.Write{RequestID: uuid.NewString(), SessionID: sessionID, Goal: &ledger.GoalChange{Operation: a.Action}}
	if a.RequestID == "" {
		return w, nil
	}
	asked := *a
	asked.SinceCursor = nil
	data, err := json.Marshal(asked)
	if err != nil {
		return w, err
	}
	w.RequestID = uuid.NewSHA1(goalSpace, []byte(a.TaskID+"\x00"+a.RequestID)).String()
	w.Fingerprint = tasks.NewRequest(a.RequestID, data).Fingerprint
	return w, nil
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

// revisionConflict says that the goal is not as the caller saw it, and how it is.
func (b *Bridge) revisionConflict(ctx context.Context, t *mux.Task, snap mux.Snapshot, row *dsh.Goal) *Error {
	e := &Error{Code: CodeRevisionConflict, Message: "the goal has another revision than the change was meant for; nothing was changed",
		Hint: "Look at the goal in details, decide again, and pass its revision."}
	if view, err := b.goalShown(ctx, b.reader(t, snap), snap, row); err == nil && view != nil {
		e.with("goal", view)
	}
	return e
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
