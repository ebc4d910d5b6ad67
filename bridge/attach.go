package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/requests"
	"dsh-agentlink/internal/tasks"
)

type attachArgs struct {
	SessionID     string      `json:"sessionId"`
	WorkspaceMode claims.Mode `json:"workspaceMode"`
	RequestID     string      `json:"requestId"`
}

type attachAnswer struct {
	TaskID    string `json:"taskId"`
	SessionID string `json:"sessionId"`
	// Attached is false when the session was a task already; Claimed says whether the claim is new.
	Attached bool `json:"attached"`
	Claimed  bool `json:"claimed"`
	Repeated bool `json:"repeated,omitempty"`
}

type attachView struct {
	attachAnswer
	Title string `json:"title,omitempty"`
	condition
	Workspace              *workspace     `json:"workspace,omitempty"`
	WorkspaceClaimSemantic claimSemantics `json:"workspaceClaimSemantics"`
	Cursor                 int64          `json:"cursor"`
}

// attach makes a session of the host, begun in its web UI, say, a task of this home. For a session that is a task
// already it makes sure that the task has its claim, and changes nothing else.
func (b *Bridge) attach(ctx context.Context, raw json.RawMessage) (any, error) {
	var args attachArgs
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if !dsh.ValidID(args.SessionID) {
		return nil, invalid("sessionId", args.SessionID, "it is no id of a session", "dsh_sessions lists the host's sessions.")
	}
	if args.WorkspaceMode != "" {
		if err := checkChoice("workspaceMode", string(args.WorkspaceMode), string(claims.ExclusiveWrite), string(claims.ReadOnly)); err != nil {
			return nil, err
		}
	}
	if err := checkID("requestId", args.RequestID); err != nil {
		return nil, err
	}
	row, err := b.rootRow(ctx, args.SessionID)
	if err != nil {
		return nil, err
	}
	// Two calls for one session make one task.
	release, err := b.launchLock(ctx, "attach "+args.SessionID)
	if err != nil {
		return nil, err
	}
	defer release()
	call := onceCall{again: true, Call: requests.Call{Tool: "dsh_attach", RequestID: args.RequestID, Arguments: args}}
	answer, repeated, err := once(ctx, b, call, func(a attachAnswer) attachAnswer { return a }, func() (attachAnswer, error) {
		return b.attachRow(ctx, row, args.WorkspaceMode)
	})
	if err != nil {
		return nil, err
	}
	answer.Repeated = repeated
	return b.attached(ctx, answer, row)
}

// rootRow finds a root session on the host.
func (b *Bridge) rootRow(ctx context.Context, sessionID string) (dsh.Session, error) {
	rows, err := b.rows(ctx)
	if err != nil {
		return dsh.Session{}, err
	}
	row, known := rows[sessionID]
	if !known {
		return dsh.Session{}, &Error{Code: CodeSessionNotFound, Message: "the host has no session " + sessionID, Hint: "dsh_sessions lists its sessions."}
	}
	if row.Origin != dsh.OriginSubagent {
		return *row, nil
	}
	root := row
	for range len(rows) { // whatever the host says, this ends
		up, known := rows[root.ParentSessionID]
		if root.Origin != dsh.OriginSubagent || !known {
			break
		}
		root = up
	}
	return *row, (&Error{Code: CodeInvalidArgument, Message: fmt.Sprintf("sessionId: %s is a subagent's session, which belongs to the task of its root", sessionID),
		Hint: "Attach its root session; the subagent comes along."}).with("rootSessionId", root.ID)
}

// attachRow makes the task and its claim, in the mode that the caller asks for, if any. The mapping comes first: a claim
// without a task could not be released.
func (b *Bridge) attachRow(ctx context.Context, row dsh.Session, mode claims.Mode) (attachAnswer, error) {
	task, found, err := b.taskOf(row.ID)
	if err != nil {
		return attachAnswer{}, err
	}
	if row.Cwd == "" {
		return attachAnswer{}, &Error{Code: CodeHostError, Message: "the host does not tell the directory of session " + row.ID + ", so it cannot be claimed",
			Hint: "Open the session once in the DSH web UI, then attach it again."}
	}
	cwd, err := claims.Canonical(row.Cwd)
	if err != nil {
		return attachAnswer{}, &Error{Code: CodeInvalidArgument, Message: "sessionId: " + err.Error(), Hint: "Only a session whose directory is on this machine can be claimed."}
	}
	if !found {
		task = tasks.Task{TaskID: tasks.NewID(), SessionID: row.ID, CreatedAt: b.now().UTC(), Stage: tasks.Prompted, PromptSent: tasks.SentYes}
		if err := b.tasks.Save(task); err != nil {
			return attachAnswer{}, err
		}
	}
	held, had, err := b.claims.Get(task.TaskID)
	if err == nil && !had {
		err = b.claims.Acquire(ctx, claims.Claim{TaskID: task.TaskID, SessionID: row.ID, Cwd: cwd, Mode: cmp.Or(mode, claims.ExclusiveWrite), CreatedAt: b.now().UTC()})
	}
	if err != nil && !found {
		// A claim may be on disk although making it failed.
		_, _, releasing := b.claims.Release(context.WithoutCancel(ctx), task.TaskID)
		if releasing == nil {
			releasing = b.tasks.Delete(task.TaskID)
		}
		return attachAnswer{}, errors.Join(err, releasing)
	}
	if err != nil {
		return attachAnswer{}, err
	}
	if had && mode != "" && held.Mode != mode {
		return attachAnswer{}, (&Error{Code: CodeWorkspaceConflict, Message: fmt.Sprintf("task %s holds the directory as %s already", task.TaskID, held.Mode),
			Hint: "Leave it so, or call dsh_release_workspace first and attach again."}).with("taskId", task.TaskID)
	}
	return attachAnswer{TaskID: task.TaskID, SessionID: row.ID, Attached: !found, Claimed: !had}, nil
}

// taskOf finds the task of a session.
func (b *Bridge) taskOf(sessionID string) (tasks.Task, bool, error) {
	all, bad, err := b.tasks.List()
	if err != nil {
		return tasks.Task{}, false, err
	}
	i := slices.IndexFunc(all, func(t tasks.Task) bool { return t.SessionID == sessionID })
	if i >= 0 {
		return all[i], true, nil
	}
	if len(bad) > 0 {
		return tasks.Task{}, false, bad[0] // it could be that one
	}
	return tasks.Task{}, false, nil
}

// attached shows an attached task as it is now.
func (b *Bridge) attached(ctx context.Context, answer attachAnswer, row dsh.Session) (any, error) {
	t := b.mux.Track(answer.TaskID, answer.SessionID)
	if err := t.Current(ctx); err != nil {
		return nil, err
	}
	snap, err := t.Snapshot()
	if err != nil {
		return nil, err
	}
	view := attachView{attachAnswer: answer, Title: row.Title, condition: conditionOf(snap), Cursor: snap.Cursor}
	claim, held, err := b.claims.Get(answer.TaskID)
	if err != nil {
		return nil, err
	}
	if held {
		view.Workspace = &workspace{Cwd: claim.Cwd, Mode: claim.Mode}
	}
	return view, b.settled(t)
}
