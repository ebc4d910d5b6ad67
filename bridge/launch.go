package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// launch is one delegation, or one fork, on its way.
type launch struct {
	b       *Bridge
	args    delegateArgs
	forkAt  int64 // of a fork: an event of the last turn that it is to have, -1 for the last finished one
	forked  int   // and that turn's number, once it is made
	task    tasks.Task
	known   bool // an earlier call began it
	watched *mux.Task
	answer  delegateAnswer
}

func (l *launch) run(ctx context.Context) error {
	if l.known && l.task.Launched() {
		l.answer.Accepted = true
		return l.describe(ctx)
	}
	err := l.b.mux.Connected(ctx)
	if err == nil && l.task.ForkOf == "" {
		err = l.checkPreset(ctx)
	}
	if err != nil && !l.task.Stage.Reached(tasks.Claimed) {
		return errors.Join(err, l.forget(ctx)) // nothing has been made yet
	}
	if err != nil {
		return err
	}
	if l.known && l.task.PromptID != "" && l.task.PromptSent == tasks.SentUnknown {
		if done, err := l.settlePrompt(ctx); (done && l.task.Launched()) || err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{l.claim, l.make, l.route, l.prompt, l.goal} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	l.answer.Accepted = true
	l.rename(ctx)
	return l.describeClaim()
}

// make makes the session.
func (l *launch) make(ctx context.Context) error {
	if l.task.ForkOf != "" {
		return l.fork(ctx)
	}
	return l.create(ctx)
}

// checkPreset refuses a preset that the host does not have or cannot use, before anything is made.
func (l *launch) checkPreset(ctx context.Context) error {
	presets, err := l.b.host.Presets(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(presets, func(p dsh.Preset) bool {
		return p.ID == l.task.Preset || (l.task.Preset == "" && p.IsDefault)
	})
	if i < 0 {
		if l.task.Preset == "" {
			return nil // the host has its reasons; session.create will tell
		}
		ids := make([]string, 0, len(presets))
		for _, p := range presets {
			ids = append(ids, p.ID)
		}
		return (&Error{Code: CodePresetNotFound, Message: fmt.Sprintf("the host has no agent preset %q", l.task.Preset),
			Hint: "Use one of the available ones, or leave agentPreset out for the host's default."}).with("available", ids)
	}
	if p := presets[i]; isBroken(p) {
		return (&Error{Code: CodePresetBroken, Message: fmt.Sprintf("the host cannot use its agent preset %q", p.ID),
			Hint: "A person mends it in the DSH web UI; another preset may work meanwhile."}).with("host", p.Broken)
	}
	return nil
}

// claim takes the workspace before the session is made: a session that was made for nothing could not be taken back.
func (l *launch) claim(ctx context.Context) error {
	if l.task.Stage.Reached(tasks.Claimed) {
		return nil
	}
	if err := l.save(tasks.Mapped, tasks.SentNo); err != nil {
		return err
	}
	err := l.b.claims.Acquire(ctx, claims.Claim{TaskID: l.task.TaskID, SessionID: l.task.SessionID, Cwd: l.args.Cwd,
		Mode: l.args.WorkspaceMode, CreatedAt: l.b.now().UTC()})
	if err != nil {
		return errors.Join(err, l.forget(ctx))
	}
	return l.save(tasks.Claimed, tasks.SentNo)
}

// create makes the session under the id that is on disk already, so that repeating it makes no second one.
func (l *launch) create(ctx context.Context) error {
	if l.task.Stage.Reached(tasks.Created) {
		return nil
	}
	created, err := l.b.host.Create(ctx, dsh.CreateRequest{SessionID: l.task.SessionID, Cwd: l.args.Cwd, AgentPreset: l.task.Preset})
	if err != nil {
		return l.notMade(ctx, "session", err)
	}
	l.answer.Preset = created.AgentPreset
	if l.task.Preset != "" && created.AgentPreset != "" && created.AgentPreset != l.task.Preset {
		return (&Error{Code: CodePresetMismatch, Message: fmt.Sprintf("the host made the session with preset %q instead of %q", created.AgentPreset, l.task.Preset),
			Hint: "Nothing was prompted. Release the workspace and delegate again."}).with("taskId", l.task.TaskID)
	}
	return l.save(tasks.Created, tasks.SentNo)
}

// notMade ends a launch at a call that failed: it is forgotten where the host is known to have made nothing of it.
func (l *launch) notMade(ctx context.Context, what string, err error) error {
	switch dsh.KindOf(err) {
	case 0:
		return err
	case dsh.NotSent, dsh.Refused, dsh.Incompatible:
		return errors.Join(err, l.forget(ctx))
	}
	return l.incomplete("whether the host made the "+what+" is not known", err)
}

// route refuses to prompt a session whose model cannot be reached: the turn would fail at once.
func (l *launch) route(ctx context.Context) error {
	models, err := l.b.host.Models(ctx, l.task.SessionID)
	if err != nil {
		return l.incomplete("the session is made, but what it runs on could not be read", err)
	}
	l.answer.Model, l.answer.Routable = models.Model, models.Routable
	if !models.Routable && (l.task.PromptID != "" || l.args.Goal != nil) {
		return (&Error{Code: CodeModelUnroutable, Message: fmt.Sprintf("the host cannot reach %s (%s); the session is made and nothing was prompted", models.Model, models.Provider),
			Hint: routeHint}).with("taskId", l.task.TaskID).with("sessionId", l.task.SessionID).with("stage", l.task.Stage).with("promptSent", l.task.PromptSent)
	}
	return nil
}

func (l *launch) prompt(ctx context.Context) error {
	before, err := l.watched.Snapshot()
	if err != nil {
		return err
	}
	l.answer.Cursor = before.Cursor
	if l.task.PromptID == "" || l.task.PromptSent == tasks.SentYes {
		return nil
	}
	if err := l.save(tasks.Prompted, tasks.SentUnknown); err != nil {
		return err
	}
	err = l.watched.Prompt(ctx, dsh.PromptRequest{RPCID: l.task.PromptID, SessionID: l.task.SessionID, Mode: dsh.ModeQueue,
		Text: l.args.Prompt, TimeZone: l.b.opts.TimeZone}, l.fingerprint())
	switch dsh.KindOf(err) {
	case 0:
		if _, before := errors.AsType[*ledger.IssuedError](err); before {
			return l.incomplete("the prompt was sent before, and whether the host got it is still not known", nil)
		}
		if err != nil { // the ledger could not note it, so nothing was sent
			return errors.Join(err, l.save(tasks.Created, tasks.SentNo))
		}
	case dsh.NotSent, dsh.Refused, dsh.Incompatible:
		return errors.Join(l.incomplete("the session is made, but the prompt was not taken", err), l.save(tasks.Created, tasks.SentNo))
	default:
		return l.incomplete("whether the host got the prompt is not known", err)
	}
	return l.save(tasks.Prompted, tasks.SentYes)
}

// fingerprint is the digest of what the caller may ask for again; empty when it did not say that it may.
func (l *launch) fingerprint() string {
	if l.task.Request == nil {
		return ""
	}
	return l.task.Request.Fingerprint
}

func (l *launch) rename(ctx context.Context) {
	if l.args.Title == "" {
		return
	}
	if err := l.b.host.Rename(ctx, l.task.SessionID, l.args.Title); err != nil {
		l.answer.Warnings = append(l.answer.Warnings, "the title was not set: "+asError(err, l.b.hostURL).Message)
	}
}

// save notes the stage on disk.
func (l *launch) save(stage tasks.Stage, sent tasks.Sent) error {
	l.task.Stage, l.task.PromptSent = stage, sent
	return l.b.tasks.Save(l.task)
}

// forget takes back a launch of which the host has nothing.
func (l *launch) forget(ctx context.Context) error {
	// A claim may be on disk although making it failed. Without the mapping nobody could release it.
	if _, _, err := l.b.claims.Release(context.WithoutCancel(ctx), l.task.TaskID); err != nil {
		return err
	}
	l.b.mux.Untrack(l.task.TaskID)
	return l.b.tasks.Delete(l.task.TaskID)
}
