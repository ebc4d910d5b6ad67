package operator

import (
	"context"
	"encoding/json"
	"errors"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// Files are the paths of what the home has of a task; those of missing files are left out.
type Files struct {
	Task   string `json:"task"`
	Claim  string `json:"claim,omitempty"`
	Ledger string `json:"ledger,omitempty"`
}

// Sheet is everything that is known of one task.
type Sheet struct {
	TaskID    string `json:"taskId"`
	SessionID string `json:"sessionId"`
	CreatedAt string `json:"createdAt"`
	Preset    string `json:"preset,omitempty"`
	Launch    Launch `json:"launch"`
	Files     Files  `json:"files"`
	Ledger    Ledger `json:"ledger"`
	Claim     *Claim `json:"claim,omitempty"`
	// Unrecorded counts what the host did that no bridge has recorded yet.
	Unrecorded int64 `json:"unrecorded,omitempty"`
	// Status is the answer of dsh_status, without the cursors of a ledger that is not the home's.
	Status  json.RawMessage `json:"status,omitempty"`
	Problem string          `json:"problem,omitempty"`
	Help    string          `json:"help,omitempty"`
}

// Show tells everything about a task. An error is for a task whose own file cannot be used; what is wrong with the rest
// is the sheet's Problem.
func (o *Operator) Show(ctx context.Context, taskID string) (Sheet, error) {
	task, err := o.tasks.Load(taskID)
	if err != nil {
		return Sheet{}, err
	}
	sheet := Sheet{TaskID: taskID, SessionID: task.SessionID, CreatedAt: stamp(task.CreatedAt), Preset: task.Preset,
		Launch: Launch{Stage: task.Stage, PromptSent: task.PromptSent, Complete: task.Launched()}, Files: Files{Task: o.home.TaskFile(taskID)}, Ledger: o.inspect(taskID)}
	if exists(sheet.Ledger.Path) {
		sheet.Files.Ledger = sheet.Ledger.Path
	}
	o.showClaim(ctx, &sheet)
	if sheet.Ledger.Problem != "" {
		sheet.Problem, sheet.Help = sheet.Ledger.Problem, sheet.Ledger.Help
		return sheet, nil
	}
	r, err := o.replicate(task)
	if err != nil {
		sheet.blame(err)
		return sheet, nil
	}
	answer, err := r.Look(ctx, "dsh_status", map[string]string{"taskId": taskID})
	if err == nil {
		sheet.Status, sheet.Unrecorded, err = withoutCursors(answer, r.recorded[taskID])
	}
	if err = errors.Join(err, r.close()); err != nil {
		sheet.blame(err)
	}
	return sheet, nil
}

func (s *Sheet) blame(err error) {
	s.Problem = err.Error()
	if _, damaged := errors.AsType[*ledger.DamagedError](err); damaged {
		s.Help = mending(s.TaskID, err)
	}
}

func (o *Operator) showClaim(ctx context.Context, sheet *Sheet) {
	claim, held, err := o.claims.Get(sheet.TaskID)
	if err == nil && !held {
		return
	}
	sheet.Files.Claim = o.home.ClaimFile(sheet.TaskID)
	if err != nil {
		sheet.Claim = &Claim{TaskID: sheet.TaskID, Problem: err.Error(), Help: Program + " claims release " + sheet.TaskID}
	} else {
		view := o.judgeClaim(claim, hostView{err: &dsh.Error{Kind: dsh.NotSent}})
		view.Session = ""
		sheet.Claim = &view
	}
	if sheet.Claim.Problem != "" {
		sheet.Problem, sheet.Help = sheet.Claim.Problem, sheet.Claim.Help
	}
}

// withoutCursors takes out of a status what belongs to the copy that it was made from, and what the sheet tells
// already.
func withoutCursors(status json.RawMessage, recorded int64) (json.RawMessage, int64, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(status, &fields); err != nil {
		return nil, 0, err
	}
	var cursor int64
	if err := json.Unmarshal(fields["cursor"], &cursor); err != nil {
		return nil, 0, err
	}
	for _, name := range []string{"taskId", "sessionId", "cursor", "earliestCursor", "workspace", "workspaceClaimSemantics", "delegation"} {
		delete(fields, name)
	}
	rest, err := json.Marshal(fields)
	return rest, max(0, cursor-recorded), err
}
