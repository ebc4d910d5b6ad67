package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Instructions tell a supervising agent, on initialize, how to use the tools.
const Instructions = `dsh-agentlink hands whole tasks to DeepSeek Harness (DSH), a second agent with its own sandbox, and keeps you in charge.
1. dsh_delegate {prompt, cwd}: one self-contained task for one directory; a git worktree of its own is best. Do not edit a directory that a task holds as exclusive-write.
2. dsh_wait {taskId, sinceCursor, until:"attention"} until it returns terminal or attention; pass nextCursor on. dsh_tail shows what happened, dsh_status everything at once.
3. A pending question or approval belongs to your user: show it whole, then pass the answer on with dsh_answer_question or dsh_resolve_approval. Never decide it yourself.
4. dsh_followup continues (mode steer: enters the running turn). dsh_cancel stops the turn, or clears the queue.
5. A finished turn is not always the end: background jobs start new turns. Check the result yourself, then dsh_release_workspace.
status "unknown" means that the host is away, not that the task failed. When an answer says outcome "unknown", look before you repeat. A claim coordinates bridges; it is no sandbox.`

// tool is one MCP tool: what callers see of it, and what it does.
type tool struct {
	definition mcp.Tool
	handle     func(ctx context.Context, args json.RawMessage) (any, error)
}

// hints are a tool's annotations. All tools talk to a host that does things in the world.
func hints(title string, readOnly, destructive, idempotent bool) mcp.ToolOption {
	return mcp.WithToolAnnotation(mcp.ToolAnnotation{Title: title, ReadOnlyHint: &readOnly, DestructiveHint: &destructive,
		IdempotentHint: &idempotent, OpenWorldHint: mcp.ToBoolPtr(true)})
}

func define(name, description string, opts ...mcp.ToolOption) mcp.Tool {
	opts = append([]mcp.ToolOption{mcp.WithDescription(description), mcp.WithSchemaAdditionalProperties(false)}, opts...)
	return mcp.NewTool(name, opts...)
}

// withUserInteraction marks a tool that a client must not call without its user.
func withUserInteraction(t mcp.Tool) mcp.Tool {
	t.Meta = mcp.NewMetaFromMap(map[string]any{"anthropic/requiresUserInteraction": true})
	return t
}

const taskIDPattern = "^dsh_[0-9a-f]{12}$"

// Arguments that several tools share.
var (
	argTaskID  = mcp.WithString("taskId", mcp.Required(), mcp.Description("The task, as dsh_delegate or dsh_list gave it."), mcp.Pattern(taskIDPattern))
	argSince   = mcp.WithInteger("sinceCursor", mcp.Min(0), mcp.Description("Refuse with stale_view when anything happened behind this cursor."))
	argRev     = mcp.WithString("expectedRevision", mcp.Description("Refuse with stale_view unless the task still has this revision (dsh_status)."))
	argWait    = mcp.WithInteger("waitSeconds", mcp.Min(0), mcp.Max(maxWaitSeconds), mcp.DefaultNumber(0), mcp.Description("Also wait so long for the end of the turn or a pending request."))
	argRequest = mcp.WithString("requestId", mcp.Required(), mcp.Description("The pending request, as dsh_status or dsh_wait shows it."))
	argOnce    = mcp.WithString("requestId", mcp.MaxLength(maxID), mcp.Description("Makes your own retry safe: the same id and arguments get the first outcome."))
	argReqID   = mcp.WithString("requestId", mcp.MaxLength(maxID), mcp.Description("Makes your own retry safe: the same id and arguments get the first outcome, never a second prompt."))
)

// tools is the table of everything the bridge offers.
func (b *Bridge) tools() []tool {
	followup := []mcp.ToolOption{
		argTaskID,
		mcp.WithString("prompt", mcp.Required(), mcp.Description("The message.")),
		mcp.WithString("mode", mcp.Enum("queue", "steer"), mcp.DefaultString("queue"), mcp.Description("queue: a turn of its own after the running one. steer: enters the running turn at its next step.")),
		argSince, argRev, argWait, argReqID,
		hints("Continue a task", false, true, false),
	}
	wait := []mcp.ToolOption{
		mcp.WithString("taskId", mcp.Description("The task."), mcp.Pattern(taskIDPattern)),
		mcp.WithInteger("sinceCursor", mcp.Min(0), mcp.Description("The nextCursor of your last call; what came behind it returns at once.")),
		mcp.WithArray("taskIds", mcp.MinItems(1), mcp.MaxItems(maxWaitTasks), mcp.Description("Instead of taskId: several tasks. Returns at the first that has something to tell, with a line for each of the others."),
			mcp.Items(map[string]any{"type": "string", "pattern": taskIDPattern})),
		mcp.WithObject("sinceCursors", mcp.Description("With taskIds: the nextCursor of each task, by task id."), mcp.AdditionalProperties(map[string]any{"type": "integer", "minimum": 0})),
		mcp.WithInteger("timeoutSec", mcp.Min(0), mcp.Max(maxWaitSeconds), mcp.DefaultNumber(maxWaitSeconds)),
		mcp.WithString("until", mcp.Enum(untilChange, untilAttention), mcp.DefaultString(untilChange), mcp.Description("change: any event. attention: only an end, a pending question or approval, or a lost host.")),
		hints("Wait for a task", true, false, true),
	}
	return []tool{
		{define("dsh_host_status", "Tell whether the DeepSeek Harness (DSH) host answers, and which model and agent presets a delegated task would run on.",
			hints("DSH host status", true, false, true)), b.hostStatus},
		{define("dsh_delegate", "Delegate a whole coding task to a DeepSeek agent (DSH), which works on its own in its sandbox. Answers at once with a taskId to follow its progress; claims the directory so that two tasks do not collide.",
			mcp.WithString("prompt", mcp.Description("The whole task: goal, context, constraints, how to verify. The agent sees nothing of your conversation. Required without goal.")),
			mcp.WithString("cwd", mcp.Required(), mcp.Description("Absolute path of an existing directory to work in.")),
			mcp.WithString("title", mcp.MaxLength(maxTitle), mcp.Description("Title in the DSH web UI.")),
			mcp.WithString("agentPreset", mcp.Description("Agent preset (dsh_host_status lists them); it is no permission policy.")),
			mcp.WithString("workspaceMode", mcp.Enum("exclusive-write", "read-only"), mcp.DefaultString("exclusive-write"), mcp.Description("Kind of the claim on cwd. It coordinates delegations and does not restrict the agent.")),
			mcp.WithObject("goal", mcp.Description("Something to work on by itself over many turns (rounds), behind the prompt or instead of one; see dsh_goal."),
				mcp.AdditionalProperties(false), mcp.Properties(map[string]any{
					"objective":     map[string]any{"type": "string", "description": "What is to be reached, and how the agent can tell."},
					"maxGoalRounds": map[string]any{"type": "integer", "minimum": 1, "maximum": maxRounds},
				})),
			argWait, argReqID,
			hints("Delegate a task", false, true, false)), b.delegate},
		{define("dsh_fork", "Make a new task out of a finished turn of another: its agent knows all that was said up to there. It works in the same directory, so the source's claim has to be released first, unless both are read-only.",
			argTaskID,
			mcp.WithInteger("turn", mcp.Min(1), mcp.Description("The last turn that the fork has; left out: the last finished one.")),
			mcp.WithString("prompt", mcp.Description("What the fork is to do; left out: it waits for dsh_followup.")),
			mcp.WithString("title", mcp.MaxLength(maxTitle)),
			mcp.WithString("workspaceMode", mcp.Enum("exclusive-write", "read-only"), mcp.DefaultString("exclusive-write")),
			argWait, argOnce,
			hints("Fork a task", false, true, false)), b.fork},
		{define("dsh_subagent", "Send a message to a continuable subagent of a delegated task, or stop its turn. dsh_status lists the subagents; their questions and approvals are the task's.",
			argTaskID,
			mcp.WithString("subagentSessionId", mcp.Required(), mcp.Description("The subagent's session, as dsh_status shows it.")),
			mcp.WithString("action", mcp.Required(), mcp.Enum(subagentPrompt, subagentInterrupt)),
			mcp.WithString("prompt", mcp.Description("prompt: the message; a running subagent takes it up after its turn.")),
			argSince, argReqID,
			hints("A task's subagent", false, true, false)), b.subagent},
		{define("dsh_followup", "Send a follow-up message to a delegated DeepSeek agent task: a next turn, or steering for the running one. It cannot answer a pending question or approval.", followup...), b.followup},
		{define("dsh_continue", "The same as dsh_followup.", followup...), b.followup},
		{define("dsh_status", "Full status of a delegated task: progress, final message, failure, pending questions and approvals, queue, background jobs, subagents, model, workspace, cursor and revision.",
			argTaskID, hints("Task status", true, false, true)), b.status},
		{define("dsh_tail", "Read what a delegated DeepSeek agent did: messages whole, tool calls and results cut, turn ends, pending requests. Pass nextCursor as sinceCursor to go on.",
			argTaskID,
			mcp.WithInteger("sinceCursor", mcp.Min(0), mcp.Description("Show what came behind this cursor; left out: from the earliest.")),
			mcp.WithInteger("maxEvents", mcp.Min(1), mcp.Max(500), mcp.DefaultNumber(defaultTailEvents)),
			mcp.WithInteger("maxBytes", mcp.Min(1024), mcp.Max(1_000_000), mcp.DefaultNumber(defaultTailBytes)),
			hints("Read a task's progress", true, false, true)), b.tail},
		{define("dsh_result", "Read what one turn of a delegated DeepSeek agent did: final message, files, commands with exit status, test runs with counts, commits, todos, subagents, running jobs, warnings, tokens. Each item names the event (seq) it was read from.",
			argTaskID,
			mcp.WithInteger("turn", mcp.Min(1), mcp.Description("Number of the turn; left out: the last one, also while it runs.")),
			mcp.WithInteger("maxBytes", mcp.Min(minResultBytes), mcp.Max(maxResultBytes), mcp.DefaultNumber(defaultResultBytes)),
			hints("What a turn did", true, false, true)), b.result},
		{define("dsh_wait", "Wait until a delegated task makes progress, ends, or needs attention (a question or an approval), for up to 30 seconds.", wait...), b.wait},
		{define("dsh_observe", "The same as dsh_wait.", wait...), b.wait},
		{define("dsh_cancel", "Stop a delegated task: abort its running turn (queued messages and background jobs stay), or remove its queued messages one by one.",
			argTaskID,
			mcp.WithString("scope", mcp.Enum(scopeTurn, scopeQueue), mcp.DefaultString(scopeTurn)),
			argSince, argRev, argOnce,
			hints("Cancel a task's turn or queue", false, true, true)), b.cancel},
		{define("dsh_sessions", "List the DSH host's sessions, latest first, also those that a person began in the web UI, and which of them are tasks.",
			mcp.WithString("cwd", mcp.Description("Only those in this directory or below it.")),
			mcp.WithString("query", mcp.Description("Only those with this text in title or directory.")),
			mcp.WithInteger("limit", mcp.Min(1), mcp.Max(maxSessions), mcp.DefaultNumber(defaultSessions)),
			hints("List the host's sessions", true, false, true)), b.sessions},
		{define("dsh_attach", "Make an existing session of the DSH host a task, with a claim on its directory: to supervise, continue or stop what was begun in the web UI.",
			mcp.WithString("sessionId", mcp.Required(), mcp.Description("A root session, as dsh_sessions lists it.")),
			mcp.WithString("workspaceMode", mcp.Enum("exclusive-write", "read-only"), mcp.DefaultString("exclusive-write")),
			argOnce,
			hints("Attach a session", false, false, true)), b.attach},
		{define("dsh_goal", "Give a delegated task a goal that the agent works on by itself, round after round, until it is complete or blocked; look at it, edit, pause (stops the running turn), resume, complete or clear it.",
			argTaskID,
			mcp.WithString("action", mcp.Required(), mcp.Enum(goalGet, goalCreate, goalEdit, goalPause, goalResume, goalComplete, goalClear)),
			mcp.WithString("objective", mcp.Description("create, edit: what is to be reached, and how the agent can tell.")),
			mcp.WithInteger("maxGoalRounds", mcp.Min(1), mcp.Max(maxRounds), mcp.Description("create, edit: rounds after which the host blocks it (the host's default: 256).")),
			mcp.WithInteger("expectedRevision", mcp.Min(1), mcp.Description("Refuse with revision_conflict unless the goal has this revision.")),
			argSince, argOnce,
			hints("A task's goal", false, true, false)), b.goal},
		{define("dsh_list", "List the tasks delegated to DeepSeek agents, latest first, with status and workspace.",
			mcp.WithString("state", mcp.Enum(stateActive, stateAll), mcp.DefaultString(stateActive)),
			mcp.WithInteger("limit", mcp.Min(1), mcp.Max(maxList), mcp.DefaultNumber(defaultList)),
			hints("List tasks", true, false, true)), b.list},
		{define("dsh_answer_question", "Answer a pending question of a delegated task with your user's words, or dismiss it. Every question of the batch has to be answered, in order.",
			argTaskID, argRequest,
			mcp.WithArray("answers", mcp.Description("One for each question, in order."), mcp.Items(map[string]any{
				"type": "object", "additionalProperties": false, "required": []string{"id"},
				"properties": map[string]any{
					"id":       map[string]any{"type": "string", "description": "The question's id."},
					"selected": map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "Labels, exactly as offered; one for a single choice."},
					"custom":   map[string]any{"type": "string", "description": "Free text: instead of a label, or beside labels where several may be chosen."},
				}})),
			mcp.WithBoolean("dismiss", mcp.Description("Instead of answers: tell the agent that there will be none.")),
			argSince, argRev,
			hints("Answer a task's question", false, true, false)), b.answerQuestion},
		{withUserInteraction(define("dsh_resolve_approval", "Decide a pending approval of a delegated task: allow its one tool call once, or reject it. The decision is your user's; where the client can, a person is asked to confirm the exact command first.",
			argTaskID, argRequest,
			mcp.WithString("outcome", mcp.Required(), mcp.Enum(outcomeAllow, outcomeReject)),
			argSince, argRev,
			hints("Decide a task's approval", false, true, false))), b.resolveApproval},
		{define("dsh_release_workspace", "End a task's claim on its directory once its work is accepted. The session stays; it is neither closed nor cancelled, but follow-ups are refused from then on.",
			argTaskID, argOnce, hints("Release a task's workspace", false, false, true)), b.release},
	}
}

// Register adds the tools, the resources and the prompt to an MCP server, which has to have [Bridge.Hooks].
func (b *Bridge) Register(s *server.MCPServer) {
	for _, t := range b.tools() {
		s.AddTool(t.definition, b.handler(t))
	}
	b.registerResources(s)
	b.registerPrompts(s)
}

// handler runs a tool and makes its answer: one text block of compact JSON, or a failure that says what to do.
func (b *Bridge) handler(t tool) server.ToolHandlerFunc {
	return func(ctx context.Context, request mcp.CallToolRequest) (result *mcp.CallToolResult, err error) {
		log := b.log.With("tool", t.definition.Name)
		defer func() {
			if r := recover(); r != nil {
				log.Error("a tool panicked", "panic", fmt.Sprintf("%T", r))
				result, err = failed(&Error{Code: CodeInternal, Message: "a fault of the bridge; its log has the tool's name"}), nil
			}
		}()
		ctx = withProgress(withPerson(ctx, request), request)
		raw, err := arguments(request)
		if err != nil {
			return failed(asError(err, b.hostURL)), nil
		}
		started := b.now()
		answer, err := t.handle(ctx, raw)
		if ask, ok := errors.AsType[needsInput](err); ok {
			return ask.result, nil
		}
		if err != nil {
			e := asError(err, b.hostURL)
			log.Info("tool call failed", "code", e.Code, "ms", b.now().Sub(started).Milliseconds())
			return failed(e), nil
		}
		text, err := encode(answer)
		if err != nil {
			return failed(asError(err, b.hostURL)), nil
		}
		log.Log(ctx, slog.LevelDebug, "tool call", "bytes", len(text), "ms", b.now().Sub(started).Milliseconds())
		return mcp.NewToolResultText(text), nil
	}
}

func arguments(request mcp.CallToolRequest) (json.RawMessage, error) {
	if len(request.Params.RawArguments) > 0 {
		return request.Params.RawArguments, nil
	}
	return json.Marshal(request.Params.Arguments)
}

func failed(e *Error) *mcp.CallToolResult {
	text, err := encode(map[string]*Error{"error": e})
	if err != nil {
		text = `{"error":{"code":"internal","message":"the failure could not be encoded"}}`
	}
	return mcp.NewToolResultError(text)
}

// encode makes compact JSON.
func encode(v any) (string, error) {
	text, err := newEncoder().encode(v)
	return string(text), err
}

// encoder makes compact JSON of the parts of an answer. No browser reads it, so &, < and > stay as they are: a caller pays
// for every byte.
type encoder struct {
	text bytes.Buffer // of all parts
	json *json.Encoder
}

func newEncoder() *encoder {
	e := &encoder{}
	e.json = json.NewEncoder(&e.text)
	e.json.SetEscapeHTML(false)
	return e
}

// encode returns a part.
func (e *encoder) encode(v any) (json.RawMessage, error) {
	start := e.text.Len()
	if err := e.json.Encode(v); err != nil {
		return nil, err
	}
	part := e.text.Bytes()[start:]
	return part[: len(part)-len("\n") : len(part)-len("\n")], nil
}
