package bridge

import (
	"context"
	"encoding/json"

	"dsh-agentlink/internal/requests"
	"dsh-agentlink/mux"
)

type releaseArgs struct {
	TaskID    string `json:"taskId"`
	RequestID string `json:"requestId"`
}

type releaseAnswer struct {
	TaskID string `json:"taskId"`
	// Repeated is set when a call with the same requestId had done this before.
	Repeated               bool           `json:"repeated,omitempty"`
	Released               bool           `json:"released"` // false when there was no claim
	Workspace              *workspace     `json:"workspace,omitempty"`
	WorkspaceClaimSemantic claimSemantics `json:"workspaceClaimSemantics"`
	Warnings               []string       `json:"warnings,omitempty"`
}

// release gives a task's workspace back. It neither closes nor cancels the session, and works without a host.
func (b *Bridge) release(ctx context.Context, raw json.RawMessage) (any, error) {
	var args releaseArgs
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := checkID("requestId", args.RequestID); err != nil {
		return nil, err
	}
	_, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	call := onceCall{again: true, Call: requests.Call{Tool: "dsh_release_workspace", TaskID: t.ID, RequestID: args.RequestID, Arguments: args}}
	answer, repeated, err := once(ctx, b, call, func(a releaseAnswer) releaseAnswer { return a }, func() (releaseAnswer, error) {
		claim, held, err := b.claims.Release(ctx, t.ID)
		answer := releaseAnswer{TaskID: t.ID, Released: held}
		if held {
			answer.Workspace = &workspace{Cwd: claim.Cwd, Mode: claim.Mode}
		}
		return answer, err
	})
	if err != nil {
		return nil, err
	}
	answer.Repeated = repeated
	// A damaged ledger must not keep a workspace from being released.
	if snap, err := t.Snapshot(); err == nil && snap.Availability == mux.Connected && snap.Turn.Open() {
		answer.Warnings = append(answer.Warnings, "the task still runs in that directory; dsh_cancel stops its turn")
	}
	return answer, nil
}
