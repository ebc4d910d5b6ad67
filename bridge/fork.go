package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/mux"
)

type forkArgs struct {
	TaskID        string      `json:"taskId"`
	Turn          *int        `json:"turn"`
	Prompt        string      `json:"prompt"`
	Title         string      `json:"title"`
	WorkspaceMode claims.Mode `json:"workspaceMode"`
	WaitSeconds   int         `json:"waitSeconds"`
	RequestID     string      `json:"requestId"`
}

type forkAnswer struct {
	delegateAnswer
	ForkedFrom forkedFrom `json:"forkedFrom"`
}

// forkedFrom names the last turn that a fork has of its source.
type forkedFrom struct {
	TaskID string `json:"taskId"`
	Turn   int    `json:"turn,omitempty"` // left out where an earlier call made the fork
}

func (a *forkArgs) check() error {
	if a.WorkspaceMode == "" {
		a.WorkspaceMode = claims.ExclusiveWrite
	}
	if err := checkTaskID(a.TaskID); err != nil {
		return err
	}
	if a.Turn != nil && *a.Turn < 1 {
		return invalid("turn", *a.Turn, "turns are counted from 1", "Leave it out for the last finished one.")
	}
	if a.Prompt != "" {
		if err := checkPrompt(a.Prompt); err != nil {
			return err
		}
	}
	return checkLaunch(a.Title, a.WorkspaceMode, a.WaitSeconds, a.RequestID)
}

// fork makes a new task that goes on from a finished turn of another.
//
// The host chooses the id of a fork. So the mapping that is on disk before the call stands for a session that does not
// exist yet, and names the source instead: from there a repeated call finds the fork that the host may have made.
func (b *Bridge) fork(ctx context.Context, raw json.RawMessage) (any, error) {
	var args forkArgs
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := args.check(); err != nil {
		return nil, err
	}
	source, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	row, snap, err := b.fresh(ctx, t)
	if err != nil {
		return nil, err
	}
	cwd, err := claims.Canonical(row.Cwd)
	if err != nil {
		return nil, &Error{Code: CodeInvalidArgument, Message: "taskId: a fork works in its source's directory: " + err.Error(), Hint: "Only a task whose directory is on this machine can be forked."}
	}
	at, err := b.forkPoint(ctx, t, snap, args.Turn)
	if err != nil {
		return nil, err
	}
	l, release, err := b.forkLaunch(ctx, source, args, cwd)
	if err != nil {
		return nil, err
	}
	defer release()
	l.forkAt = at
	if err := l.run(ctx); err != nil {
		return nil, b.forkFailed(err, source)
	}
	answer := forkAnswer{ForkedFrom: forkedFrom{TaskID: source.TaskID, Turn: l.forked}}
	if args.WaitSeconds > 0 {
		l.answer.waited = b.waitFor(ctx, l.watched, waitArgs{Until: untilAttention, TimeoutSec: args.WaitSeconds})
		l.answer.Cursor, l.answer.Goal = l.answer.NextCursor, nil
	}
	answer.delegateAnswer = l.answer
	return answer, b.settled(l.watched)
}

// forkLaunch begins the launch of a fork, or finds the one that an earlier call with the same requestId began.
func (b *Bridge) forkLaunch(ctx context.Context, source tasks.Task, args forkArgs, cwd string) (l *launch, release func(), err error) {
	task := tasks.Task{
		TaskID: tasks.NewID(), SessionID: "fork-" + uuid.NewString(), CreatedAt: b.now().UTC(),
		Preset: source.Preset, Stage: tasks.Mapped, PromptSent: tasks.SentNo, ForkOf: source.SessionID,
	}
	if args.Prompt != "" {
		task.PromptID = uuid.NewString()
	}
	known := false
	release = func() {}
	if args.RequestID != "" {
		asked := args
		asked.WaitSeconds = 0 // how long a caller waits does not change what it asks for
		if task, known, release, err = b.claimRequest(ctx, task, source.TaskID+"\x00"+args.RequestID, asked); err != nil {
			return nil, nil, err
		}
	}
	l = &launch{b: b, task: task, known: known,
		args: delegateArgs{Prompt: args.Prompt, Cwd: cwd, Title: args.Title, WorkspaceMode: args.WorkspaceMode}}
	l.answer = delegateAnswer{TaskID: task.TaskID, SessionID: task.SessionID, Repeated: known}
	if task.Stage.Reached(tasks.Created) {
		l.watched = b.follow(task)
	}
	return l, release, nil
}

// forkPoint is the seq of the end of the turn that is the fork's last; -1 leaves it to the host, which takes the last
// turn that is over.
func (b *Bridge) forkPoint(ctx context.Context, t *mux.Task, snap mux.Snapshot, turn *int) (int64, error) {
	last := snap.Turn
	unavailable := func(problem string) error {
		return (&Error{Code: CodeForkUnavailable, Message: problem + "; nothing was made",
			Hint: "Fork from a turn that is over; dsh_tail shows their ends. Without turn it is the last of them."}).with("lastTurn", last.Number)
	}
	switch {
	case turn == nil:
		if last.Ended && last.EndSeq > 0 {
			return last.EndSeq, nil
		}
		return -1, nil
	case *turn > last.Number:
		return 0, unavailable(fmt.Sprintf("the task has no turn %d", *turn))
	case *turn == last.Number && last.Open():
		return 0, unavailable(fmt.Sprintf("turn %d is not over", *turn))
	case *turn == last.Number && last.EndSeq > 0:
		return last.EndSeq, nil
	}
	seq, found, err := b.reader(t, snap).turnEnd(ctx, t.Root, *turn)
	if err == nil && !found {
		err = unavailable(fmt.Sprintf("the host's history has no end of turn %d", *turn))
	}
	return seq, err
}

// turnEnd looks for the end of a turn, from the end of a session's history.
func (r *reader) turnEnd(ctx context.Context, session string, turn int) (seq int64, found bool, err error) {
	before, messages := int64(0), 64
	for {
		first, more, err := r.page(ctx, session, before, messages)
		if err != nil {
			return 0, false, err
		}
		for ev := range r.read(session) {
			if ev.Type == "turn/end" && dsh.TurnEndOf(ev).Turn == turn {
				return ev.Seq, true, nil
			}
		}
		if first < 0 || !more {
			return 0, false, nil
		}
		before, messages = first, messages*16
	}
}

// fork makes the session of a launch that is a fork.
func (l *launch) fork(ctx context.Context) error {
	if l.task.Stage.Reached(tasks.Created) {
		return nil
	}
	if l.known {
		if id, err := l.orphan(ctx); err != nil || id != "" {
			return errors.Join(err, l.adopt(ctx, id))
		}
	}
	id, err := l.b.host.Fork(ctx, l.task.ForkOf, l.forkAt)
	if err != nil {
		return l.notMade(ctx, "fork", err)
	}
	return l.adopt(ctx, id)
}

// orphan finds the fork that the host made for an earlier call which did not live to note it; empty when it made none.
func (l *launch) orphan(ctx context.Context) (string, error) {
	claim, held, err := l.b.claims.Get(l.task.TaskID)
	if err != nil {
		return "", err
	}
	if held && claim.SessionID != l.task.SessionID {
		return claim.SessionID, nil // it was noted there
	}
	rows, err := l.b.rows(ctx)
	if err != nil {
		return "", err
	}
	all, _, err := l.b.tasks.List()
	if err != nil {
		return "", err
	}
	for _, t := range all {
		delete(rows, t.SessionID)
	}
	var found []string
	for id, row := range rows {
		if row.ParentSessionID == l.task.ForkOf && row.Origin == "" && row.UpdatedAt >= l.task.CreatedAt.UnixMilli() {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0], nil
	}
	return "", l.incomplete("the source has several forks since that are no tasks, and which is this call's cannot be told", nil).with("candidates", found)
}

// adopt notes the session that the host made, first in the claim and then in the mapping, and reads its history.
func (l *launch) adopt(ctx context.Context, sessionID string) error {
	if sessionID == "" {
		return nil
	}
	claim := claims.Claim{TaskID: l.task.TaskID, SessionID: sessionID, Cwd: l.args.Cwd, Mode: l.args.WorkspaceMode, CreatedAt: l.task.CreatedAt}
	if err := l.b.claims.Adopt(ctx, claim); err != nil {
		return err
	}
	l.task.SessionID, l.answer.SessionID = sessionID, sessionID
	if err := l.save(tasks.Created, tasks.SentNo); err != nil {
		return err
	}
	l.watched = l.b.follow(l.task)
	if _, _, err := l.watched.Fresh(ctx); err != nil {
		return l.incomplete("the fork is made, but its history could not be read", err)
	}
	snap, err := l.watched.Snapshot()
	if err != nil {
		return err
	}
	l.answer.Preset, l.forked = l.task.Preset, snap.Turn.Number
	if l.answer.Goal = l.b.goalKnown(snap, nil); l.answer.Goal != nil {
		l.answer.Goal.Idle = l.answer.Goal.Phase == dsh.GoalActive // no host goes on with the goal of a fork by itself
	}
	return nil
}

// forkFailed says in the terms of a fork why there is none.
func (b *Bridge) forkFailed(err error, source tasks.Task) error {
	if dsh.IsCode(err, dsh.CodeForkUnavailable) {
		return &Error{Code: CodeForkUnavailable, Message: "the source has no such finished turn: " + refusalWords(err), Hint: "Wait for the end of its turn, then fork."}
	}
	if conflict, ok := errors.AsType[*claims.ConflictError](err); ok && conflict.Holder.TaskID == source.TaskID {
		e := *asError(err, b.hostURL)
		e.Message = "a fork works in its source's directory, which the source holds as " + string(conflict.Holder.Mode)
		e.Hint = "Call dsh_release_workspace on the source when it has no more to do. Two tasks share a directory only when both are read-only; the host cannot give a fork another one."
		return &e
	}
	return err
}
