package bridge

import (
	"context"
	"encoding/json"

	"dsh-agentlink/mux"
)

type releaseAnswer struct {
	TaskID                 string         `json:"taskId"`
	Released               bool           `json:"released"` // false when there was no claim
	Workspace              *workspace     `json:"workspace,omitempty"`
	WorkspaceClaimSemantic claimSemantics `json:"workspaceClaimSemantics"`
	Warnings               []string       `json:"warnings,omitempty"`
}

// release gives a task's workspace back. It neither closes nor cancels the session, and works without a host.
func (b *Bridge) release(ctx context.Context, raw json.RawMessage) (any, error) {
	var args taskArgs
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	_, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	claim, held, err := b.claims.Release(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	answer := releaseAnswer{TaskID: t.ID, Released: held}
	if held {
		answer.Workspace = &workspace{Cwd: claim.Cwd, Mode: claim.Mode}
	}
	// A damaged ledger must not keep a workspace from being released.
	if snap, err := t.Snapshot(); err == nil && snap.Availability == mux.Connected && snap.Turn.Open() {
		answer.Warnings = append(answer.Warnings, "the task still runs in that directory; dsh_cancel stops its turn")
	}
	return answer, nil
}
