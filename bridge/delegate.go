package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/requests"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

type delegateArgs struct {
	Prompt        string      `json:"prompt"`
	Cwd           string      `json:"cwd"`
	Title         string      `json:"title"`
	AgentPreset   string      `json:"agentPreset"`
	WorkspaceMode claims.Mode `json:"workspaceMode"`
	WaitSeconds   int         `json:"waitSeconds"`
	RequestID     string      `json:"requestId"`
	// Goal is what the agent works on by itself, behind the prompt if there is one.
	Goal *goalSpec `json:"goal,omitempty"`
}

// workspace is the claim of a task, as a caller sees it.
type workspace struct {
	Cwd  string      `json:"cwd,omitempty"`
	Mode claims.Mode `json:"mode,omitempty"`
}

// claimSemantics goes along with every claim, so that nobody takes the claim for a sandbox.
type claimSemantics struct {
	ControlsDshSandbox bool `json:"controlsDshSandbox"`
}

type heldClaim struct {
	TaskID string `json:"taskId"`
	workspace
}

func claimOf(c claims.Claim) heldClaim {
	return heldClaim{TaskID: c.TaskID, workspace: workspace{Cwd: c.Cwd, Mode: c.Mode}}
}

type delegateAnswer struct {
	TaskID    string `json:"taskId"`
	SessionID string `json:"sessionId"`
	Accepted  bool   `json:"accepted"`
	// Repeated is set when a call with the same requestId had done this before.
	Repeated               bool           `json:"repeated,omitempty"`
	Model                  string         `json:"model,omitempty"`
	Routable               bool           `json:"routable"`
	Preset                 string         `json:"preset,omitempty"`
	Workspace              *workspace     `json:"workspace,omitempty"`
	WorkspaceClaimSemantic claimSemantics `json:"workspaceClaimSemantics"`
	Goal                   *goalView      `json:"goal,omitempty"` // left out where the fields of wait have it
	// Cursor is that before the prompt, so that all it brings about lies behind it; with waitSeconds it is nextCursor.
	Cursor   int64    `json:"cursor"`
	Warnings []string `json:"warnings,omitempty"`
	*waited
}

func (a *delegateArgs) check(b *Bridge) error {
	if a.WorkspaceMode == "" {
		a.WorkspaceMode = claims.ExclusiveWrite
	}
	if a.AgentPreset == "" {
		a.AgentPreset = b.opts.AgentPreset
	}
	if err := a.Goal.check(); err != nil {
		return err
	}
	if a.Prompt != "" || a.Goal == nil {
		if err := checkPrompt(a.Prompt); err != nil {
			return err
		}
	}
	cwd, err := claims.Canonical(a.Cwd)
	if err != nil {
		return &Error{Code: CodeInvalidArgument, Message: err.Error()}
	}
	a.Cwd = cwd
	if utf8.RuneCountInString(a.Title) > maxTitle {
		return invalid("title", a.Title, fmt.Sprintf("it has more than %d characters", maxTitle), "")
	}
	if err := checkID("agentPreset", a.AgentPreset); err != nil {
		return err
	}
	if err := checkChoice("workspaceMode", string(a.WorkspaceMode), string(claims.ExclusiveWrite), string(claims.ReadOnly)); err != nil {
		return err
	}
	if err := checkRange("waitSeconds", a.WaitSeconds, 0, maxWaitSeconds); err != nil {
		return err
	}
	return checkID("requestId", a.RequestID)
}

// delegate launches a task. The stages of a launch are on disk before the step that they announce, so that a launch
// that breaks off anywhere leaves a task that can be explained and, with its requestId, completed.
func (b *Bridge) delegate(ctx context.Context, raw json.RawMessage) (any, error) {
	var args delegateArgs
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := args.check(b); err != nil {
		return nil, err
	}
	wait := args.WaitSeconds
	args.WaitSeconds = 0 // how long a caller waits does not change what it asks for
	task := tasks.Task{
		TaskID: tasks.NewID(), SessionID: "session-" + uuid.NewString(), CreatedAt: b.now().UTC(),
		Preset: args.AgentPreset, Stage: tasks.Mapped, PromptSent: tasks.SentNo,
	}
	if args.Prompt != "" {
		task.PromptID = uuid.NewString()
	}
	if args.Goal != nil {
		task.GoalSent = tasks.SentNo
	}
	launch, err := b.launch(ctx, task, args)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		launch.answer.waited = b.waitFor(ctx, launch.watched, waitArgs{Until: untilAttention, TimeoutSec: wait})
	}
	if launch.answer.waited != nil {
		launch.answer.Cursor, launch.answer.Goal = launch.answer.NextCursor, nil
	}
	return launch.answer, b.settled(launch.watched)
}

// launch takes a fresh task to its first prompt, or the one that an earlier call with the same requestId made as far as
// it has to go.
func (b *Bridge) launch(ctx context.Context, task tasks.Task, args delegateArgs) (*launch, error) {
	known := false
	if args.RequestID != "" {
		var release func()
		var err error
		if task, known, release, err = b.claimRequest(ctx, task, args.RequestID, args); err != nil {
			return nil, err
		}
		defer release()
	}
	l := &launch{b: b, args: args, task: task, known: known, watched: b.follow(task)}
	l.answer = delegateAnswer{TaskID: task.TaskID, SessionID: task.SessionID, Repeated: known}
	return l, l.run(ctx)
}

// claimRequest makes sure that a requestId makes one task, whatever number of calls and processes bring it, and that
// one of them at a time works on its launch. It returns the task that an earlier call made, or the fresh one.
func (b *Bridge) claimRequest(ctx context.Context, fresh tasks.Task, requestID string, args any) (task tasks.Task, known bool, release func(), err error) {
	data, err := json.Marshal(args)
	if err != nil {
		return fresh, false, nil, err
	}
	request := tasks.NewRequest(requestID, data)
	release, err = b.launchLock(ctx, requestID)
	if err != nil {
		return fresh, false, nil, err
	}
	task, known, err = b.earlier(fresh, requestID, request)
	if err != nil {
		release()
		return fresh, false, nil, err
	}
	return task, known, release, nil
}

// launchLock makes sure that one call at a time, of all processes, works on what the key names.
func (b *Bridge) launchLock(ctx context.Context, key string) (release func(), err error) {
	unlock, err := b.requests.lock(ctx, key)
	if err != nil {
		return nil, err
	}
	// One of 256 files, since a lock file is never removed.
	launching := b.opts.Home.Lock(b.opts.Home.LaunchLock(tasks.NewRequest(key, nil).ID))
	if err := launching.Acquire(ctx, b.opts.LockTimeout); err != nil {
		unlock()
		return nil, err
	}
	return func() {
		if err := launching.Release(); err != nil {
			b.log.Error("release a lock", "path", launching.Path(), "err", err)
		}
		unlock()
	}, nil
}

// earlier returns the task that a call with this requestId made before, or the fresh one with the request noted in it.
func (b *Bridge) earlier(fresh tasks.Task, requestID string, request tasks.Request) (tasks.Task, bool, error) {
	before, found, err := b.tasks.FindRequest(requestID, b.now().Add(-requests.Lifetime))
	if err != nil {
		return fresh, false, err
	}
	if !found {
		fresh.Request = &request
		return fresh, false, nil
	}
	if before.Request == nil || *before.Request != request {
		return fresh, false, (&Error{Code: CodeRequestIDConflict, Message: "this requestId was used for a delegation with other arguments",
			Hint: "Use a new requestId for a new delegation."}).with("taskId", before.TaskID)
	}
	return before, true, nil
}

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
	switch dsh.KindOf(err) {
	case 0:
		if err != nil {
			return err
		}
	case dsh.NotSent, dsh.Refused, dsh.Incompatible:
		return errors.Join(err, l.forget(ctx))
	default:
		return l.incomplete("whether the host made the session is not known", err)
	}
	l.answer.Preset = created.AgentPreset
	if l.task.Preset != "" && created.AgentPreset != "" && created.AgentPreset != l.task.Preset {
		return (&Error{Code: CodePresetMismatch, Message: fmt.Sprintf("the host made the session with preset %q instead of %q", created.AgentPreset, l.task.Preset),
			Hint: "Nothing was prompted. Release the workspace and delegate again."}).with("taskId", l.task.TaskID)
	}
	return l.save(tasks.Created, tasks.SentNo)
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
