package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

type followupArgs struct {
	TaskID           string `json:"taskId"`
	Prompt           string `json:"prompt"`
	Mode             string `json:"mode"`
	SinceCursor      *int64 `json:"sinceCursor"`
	ExpectedRevision string `json:"expectedRevision"`
	WaitSeconds      int    `json:"waitSeconds"`
	RequestID        string `json:"requestId"`
}

type followupAnswer struct {
	TaskID   string `json:"taskId"`
	Accepted bool   `json:"accepted"`
	// Repeated is set when a call with the same requestId had done this before.
	Repeated bool   `json:"repeated,omitempty"`
	Mode     string `json:"mode"`
	Model    string `json:"model,omitempty"`
	Routable *bool  `json:"routable,omitempty"`
	// Cursor is that before the prompt, so that all it brings about lies behind it; with waitSeconds it is nextCursor.
	Cursor int64 `json:"cursor"`
	*waited
}

func (a *followupArgs) check() error {
	if a.Mode == "" {
		a.Mode = string(dsh.ModeQueue)
	}
	if err := checkTaskID(a.TaskID); err != nil {
		return err
	}
	if err := checkPrompt(a.Prompt); err != nil {
		return err
	}
	if err := checkSince(a.SinceCursor); err != nil {
		return err
	}
	if err := checkChoice("mode", a.Mode, string(dsh.ModeQueue), string(dsh.ModeSteer)); err != nil {
		return err
	}
	if err := checkRange("waitSeconds", a.WaitSeconds, 0, maxWaitSeconds); err != nil {
		return err
	}
	return checkID("requestId", a.RequestID)
}

// followupSpace is the namespace in which a caller's requestId becomes the rpcId of its prompt, so that a repeated
// call is recognised by what the ledger and the host's history say of that prompt.
var followupSpace = uuid.MustParse("9a3f0ad5-4c0f-4b52-9f0c-6f1f5b8a4b11")

// promptID returns the rpcId of the prompt and the digest of what it asks for; the digest is empty when the caller did
// not say that it may repeat the call.
func (a *followupArgs) promptID() (rpcID, fingerprint string) {
	if a.RequestID == "" {
		return uuid.NewString(), ""
	}
	what, err := json.Marshal([]string{a.Prompt, a.Mode})
	if err != nil {
		return uuid.NewString(), "" // strings always encode
	}
	return uuid.NewSHA1(followupSpace, []byte(a.TaskID+"\x00"+a.RequestID)).String(), tasks.NewRequest(a.RequestID, what).Fingerprint
}

// followup hands another message to a task's session.
func (b *Bridge) followup(ctx context.Context, raw json.RawMessage) (any, error) {
	var args followupArgs
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := args.check(); err != nil {
		return nil, err
	}
	task, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	if args.RequestID != "" {
		unlock, err := b.requests.lock(ctx, args.TaskID+" "+args.RequestID)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	answer := followupAnswer{TaskID: t.ID, Mode: args.Mode}
	if err := b.sendFollowup(ctx, task, t, args, &answer); err != nil {
		return nil, err
	}
	if args.WaitSeconds > 0 {
		answer.waited = b.waitFor(ctx, t, waitArgs{Until: untilAttention, TimeoutSec: args.WaitSeconds})
	}
	if answer.waited != nil {
		answer.Cursor = answer.NextCursor
	}
	return answer, b.settled(t)
}

// sendFollowup checks everything that can be checked before the one call that cannot be taken back.
func (b *Bridge) sendFollowup(ctx context.Context, task tasks.Task, t *mux.Task, args followupArgs, answer *followupAnswer) error {
	if err := b.needClaim(task.TaskID); err != nil {
		return err
	}
	row, snap, err := b.fresh(ctx, t)
	if err != nil {
		return err
	}
	view, err := b.launchOf(task, t)
	if err != nil {
		return err
	}
	if task.Preset != "" && row.AgentPreset != "" && row.AgentPreset != task.Preset {
		return &Error{Code: CodePresetMismatch, Message: fmt.Sprintf("the session runs preset %q, the task was delegated to %q", row.AgentPreset, task.Preset),
			Hint: "Another session stands under this id; delegate anew."}
	}
	rpcID, fingerprint := args.promptID()
	if done, err := b.repeated(t, rpcID, fingerprint, answer); done || err != nil {
		return err
	}
	if err := b.checkView(t, snap, args.SinceCursor, args.ExpectedRevision); err != nil {
		return err
	}
	models, err := b.host.Models(ctx, t.Root)
	if err != nil {
		return err
	}
	answer.Cursor = snap.Cursor
	answer.Model, answer.Routable = models.Model, &models.Routable
	if !models.Routable {
		return &Error{Code: CodeModelUnroutable, Message: fmt.Sprintf("the host cannot reach %s (%s); nothing was sent", models.Model, models.Provider), Hint: routeHint}
	}
	err = t.Prompt(ctx, dsh.PromptRequest{RPCID: rpcID, SessionID: t.Root, Mode: dsh.Mode(args.Mode), Text: args.Prompt, TimeZone: b.opts.TimeZone}, fingerprint)
	if _, before := errors.AsType[*ledger.IssuedError](err); before {
		_, err = b.repeated(t, rpcID, fingerprint, answer) // another process was first
		return err
	}
	if err != nil {
		return err
	}
	answer.Accepted = true
	if view == nil {
		return nil
	}
	// The launch had broken off before its prompt was seen to arrive; this one completes it.
	task.Stage, task.PromptSent, task.PromptID = tasks.Prompted, tasks.SentYes, rpcID
	return b.tasks.Save(task)
}

// repeated answers a call whose prompt was issued before. A prompt that was refused may be sent again.
func (b *Bridge) repeated(t *mux.Task, rpcID, fingerprint string, answer *followupAnswer) (done bool, err error) {
	if fingerprint == "" {
		return false, nil
	}
	issued, known, err := t.IssuedPrompt(rpcID)
	if err == nil && !known {
		// The record of it went down with the machine, but the host may have it.
		if answer.Repeated, err = t.Arrived(rpcID); answer.Repeated {
			answer.Accepted = true
			return true, err
		}
	}
	if err != nil || !known || issued.Outcome == ledger.PromptRefused {
		return false, err
	}
	if issued.Fingerprint != fingerprint {
		return true, (&Error{Code: CodeRequestIDConflict, Message: "this requestId was used in this task with another prompt or mode", Hint: "Use a new requestId for a new message."}).
			with("cursor", issued.Cursor)
	}
	if issued.Outcome != ledger.PromptAccepted {
		return true, (&Error{Code: CodeHostUnreachable, Message: "this prompt was sent before, and whether the host got it is still not known; it was not sent again",
			Hint: "dsh_tail shows whether it arrived. To send it again all the same, use a new requestId."}).with("outcome", "unknown")
	}
	answer.Accepted, answer.Repeated, answer.Cursor = true, true, issued.Cursor
	return true, nil
}

// needClaim refuses to go on with a task whose workspace was released.
func (b *Bridge) needClaim(taskID string) error {
	_, held, err := b.claims.Get(taskID)
	if err != nil {
		return err
	}
	if !held {
		return &Error{Code: CodeWorkspaceClaimMissing, Message: "the task no longer holds its workspace, so another may work there",
			Hint: "dsh_attach with its sessionId (dsh_status) claims the directory again, if nobody else holds it. dsh_status, dsh_tail and dsh_cancel work without."}
	}
	return nil
}

// fresh brings the view of a task up to date before a write.
func (b *Bridge) fresh(ctx context.Context, t *mux.Task) (dsh.Session, mux.Snapshot, error) {
	row, _, err := t.Fresh(ctx)
	if err != nil {
		return row, mux.Snapshot{}, err
	}
	snap, err := t.Snapshot()
	if err != nil {
		return row, snap, err
	}
	switch snap.Availability {
	case mux.SessionNotFound:
		return row, snap, &dsh.Error{Kind: dsh.Refused, Method: "session.list", Code: dsh.CodeSessionNotFound}
	case mux.HostUnreachable:
		return row, snap, &dsh.Error{Kind: dsh.NotSent, Method: "events.mux", Err: b.mux.Err()}
	}
	return row, snap, nil
}
