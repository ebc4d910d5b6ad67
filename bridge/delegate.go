package bridge

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/tasks"
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
	if err := checkID("agentPreset", a.AgentPreset); err != nil {
		return err
	}
	return checkLaunch(a.Title, a.WorkspaceMode, a.WaitSeconds, a.RequestID)
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
