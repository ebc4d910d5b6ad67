package bridge

import (
	"context"
	"errors"

	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
)

// settlePrompt finds out what became of a prompt whose outcome was not known. It is done when the host's history has
// it, and not done when it may be sent: it never left, or it went down with the host.
func (l *launch) settlePrompt(ctx context.Context) (done bool, err error) {
	if _, _, err := l.watched.Fresh(ctx); err != nil {
		return false, err
	}
	arrived, err := l.watched.Arrived(l.task.PromptID)
	if err != nil {
		return false, err
	}
	if arrived {
		l.answer.Accepted = true
		return true, errors.Join(l.save(tasks.Prompted, tasks.SentYes), l.describe(ctx))
	}
	// Every prompt is on record before it is sent.
	if issued, sent, err := l.watched.IssuedPrompt(l.task.PromptID); err != nil || (sent && issued.Outcome != ledger.PromptRefused) {
		return false, errors.Join(err, l.incomplete("whether the host got the prompt is still not known", nil))
	}
	return false, l.save(tasks.Created, tasks.SentNo)
}

// describe fills the answer of a launch that was complete before this call. Its caller has seen nothing of it yet.
func (l *launch) describe(ctx context.Context) error {
	if err := l.watched.Ledger().Refresh(); err != nil {
		return err
	}
	l.answer.Cursor = l.watched.Ledger().Earliest() - 1
	if models, err := l.b.host.Models(ctx, l.task.SessionID); err == nil {
		l.answer.Model, l.answer.Routable = models.Model, models.Routable
	} else {
		l.answer.Warnings = append(l.answer.Warnings, "the model could not be read: "+asError(err, l.b.hostURL).Message)
	}
	l.answer.Preset = l.task.Preset
	snap, err := l.watched.Snapshot()
	if err != nil {
		return err
	}
	l.answer.Goal = l.b.goalKnown(snap, nil)
	return l.describeClaim()
}

func (l *launch) describeClaim() error {
	claim, held, err := l.b.claims.Get(l.task.TaskID)
	if err == nil && held {
		l.answer.Workspace = &workspace{Cwd: claim.Cwd, Mode: claim.Mode}
	}
	return err
}

// incomplete explains a launch that broke off, and what to do about it.
func (l *launch) incomplete(what string, cause error) *Error {
	e := incompleteError(l.task, what)
	if cause != nil {
		e.Message += ": " + asError(cause, l.b.hostURL).Message
	}
	return e
}

// incompleteError is the failure of a delegation that left something behind.
func incompleteError(task tasks.Task, what string) *Error {
	hint := "Repeat the call with the same requestId and arguments to complete it"
	goal := task.GoalSent != "" && (task.PromptID == "" || task.PromptSent == tasks.SentYes)
	switch {
	case task.Launched():
		hint = "Nothing is missing; dsh_status tells how it goes on"
	case goal && task.GoalSent == tasks.SentUnknown:
		hint = "Call dsh_goal with action get on this taskId: it tells whether the goal is there. Only when it is not, create it with dsh_goal"
	case goal && task.Request == nil && task.Stage.Reached(tasks.Created):
		hint = "Create the goal with dsh_goal on this taskId"
	case task.PromptSent == tasks.SentUnknown:
		hint = "Call dsh_status on this taskId: it tells whether the prompt arrived. Only when it did not, send it again with dsh_followup"
	case task.Request != nil:
	case task.Stage.Reached(tasks.Created):
		hint = "Send the prompt with dsh_followup on this taskId"
	default:
		hint = "Begin anew, after dsh_release_workspace on this taskId; nothing was prompted"
	}
	e := (&Error{Code: CodeDelegationIncomplete, Message: what, Hint: hint + ". dsh_release_workspace frees its directory."}).
		with("taskId", task.TaskID).with("stage", task.Stage).with("promptSent", task.PromptSent)
	if task.ForkOf == "" || task.Stage.Reached(tasks.Created) {
		e.with("sessionId", task.SessionID)
	}
	if task.GoalSent != "" {
		e.with("goalSent", task.GoalSent)
	}
	return e
}
