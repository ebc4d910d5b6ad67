// Package dsh speaks the wire of a DeepSeek Harness (DSH) web host: the unary calls under /api, the answers to
// questions and approvals, and the events.mux stream.
//
// The rest of the bridge sees a host only through [Host] and [Stream] and the plain types of this file, so that a
// second wire generation can be added here without touching the coordination above it. The package knows sessions,
// events and requests; it knows nothing of tasks, ledgers or claims, it never retries a call, and it writes nothing
// to disk.
package dsh

import (
	"context"
	"encoding/json"
)

// SpokenVersions names the host releases whose wire this package speaks.
const SpokenVersions = "0.1.0-rc.6 to 0.1.1-rc.2"

// Host is what the bridge needs of a DSH host.
//
// Every method is one round trip. Failures are *[Error] values whose Kind tells apart a call that never left, one
// whose outcome is unknown, a refusal by the host, a host of another generation and an answer that makes no sense.
// No method retries.
type Host interface {
	// Describe says what the host is and what it would run by default.
	Describe(ctx context.Context) (Description, error)
	// Presets lists the agent presets a session may be created with.
	Presets(ctx context.Context) ([]Preset, error)

	// Sessions lists all sessions of the host, newest first, subagents included.
	Sessions(ctx context.Context) ([]Session, error)
	// Create makes a session. Repeating it with the same id and cwd answers the same session.
	Create(ctx context.Context, req CreateRequest) (Created, error)
	// Models says what a session runs on and whether that route can be reached.
	Models(ctx context.Context, sessionID string) (Models, error)
	// Rename sets a session's title.
	Rename(ctx context.Context, sessionID, title string) error

	// Prompt hands a message to a session. req.RPCID becomes the rpcId of the call, and the host repeats it on the
	// user/message event that the prompt becomes.
	Prompt(ctx context.Context, req PromptRequest) error
	// Cancel aborts the running turn; it succeeds when nothing runs, too. Queued messages stay queued.
	Cancel(ctx context.Context, sessionID string) error
	// RemoveQueued takes one message out of a session's queue; a message that was taken meanwhile is a host error
	// with code [CodeQueueItemNotFound].
	RemoveQueued(ctx context.Context, sessionID, itemID string) error

	// History reads one page of a session's durable events.
	History(ctx context.Context, req HistoryRequest) (HistoryPage, error)
	// Subagents lists the children of a session.
	Subagents(ctx context.Context, parentSessionID string) ([]Subagent, error)

	// PromptSubagent hands a message to a continuable subagent. RPCID is repeated on its user/message event.
	PromptSubagent(ctx context.Context, req SubagentPrompt) error
	// InterruptSubagent aborts the running turn of a continuable subagent; it succeeds when nothing runs, too.
	InterruptSubagent(ctx context.Context, parentSessionID, sessionID string) error

	// Fork makes a new session out of an existing one's first events, as they were at the end of the turn that atSeq
	// lies in; -1 means all of it. The host chooses the id. Goals are copied with the rest.
	Fork(ctx context.Context, sessionID string, atSeq int64) (newSessionID string, err error)

	// CreateGoal gives a session an objective that it works on, turn after turn, by itself. maxRounds 0 is the host's
	// default. A session that has a goal refuses with [GoalAlreadyExists].
	CreateGoal(ctx context.Context, sessionID, objective string, maxRounds int) (GoalRef, error)
	// EditGoal changes the objective (unless empty) and the number of rounds (unless 0) of the goal at ref.
	EditGoal(ctx context.Context, sessionID string, ref GoalRef, objective string, maxRounds int) (GoalRef, error)
	// MoveGoal takes the goal at ref to another phase. Clearing it returns the zero GoalRef.
	MoveGoal(ctx context.Context, sessionID string, ref GoalRef, action GoalAction) (GoalRef, error)

	// Providers lists the model providers that requests can be sent to, with the models of each.
	Providers(ctx context.Context) ([]Provider, error)
	// Workspaces lists the directories that the host's own user interface knows.
	Workspaces(ctx context.Context) ([]Workspace, error)

	// Respond answers a pending question or approval.
	Respond(ctx context.Context, answer Answer) (Receipt, error)

	// Subscribe opens the host's event stream. The stream carries every session of the host.
	Subscribe(ctx context.Context) (Stream, error)
}

// Stream is one open events.mux connection. It is read by one goroutine.
type Stream interface {
	// Next waits for the next frame. After an error the stream is dead and has to be closed.
	Next(ctx context.Context) (Frame, error)
	// Close ends the stream; a Next that waits returns an error.
	Close() error
}

// Description is the answer of host.describe. Its wire field version is a placeholder of the host and is left out.
type Description struct {
	Cwd              string `json:"cwd"`
	Provider         string `json:"provider"`
	Model            string `json:"model"`
	AttachedSessions int    `json:"attachedSessions"`
	Home             string `json:"home"`
}

// Preset is one agent composition of the host.
type Preset struct {
	ID        string `json:"id"`
	Trust     string `json:"trust"`
	IsDefault bool   `json:"isDefault"`
	Name      string `json:"name"`
	// Broken holds the host's account of why the preset cannot be used; nil when it can.
	Broken json.RawMessage `json:"broken"`
}

// OriginSubagent is the Origin of a session that an agent started for itself.
const OriginSubagent = "subagent"

// Session is one row of session.list.
type Session struct {
	ID              string
	UpdatedAt       int64 // milliseconds since the epoch, by the host's clock
	Running         bool  // whether a turn runs now
	Blank           bool  // whether nothing was ever said in it
	ParentSessionID string
	Origin          string // OriginSubagent, or empty
	Cwd             string
	AgentPreset     string
	Title           string // the host's title projection; empty when it has none
	// LastSeq is the seq of the session's last event, or -1 when the host does not say (a cold session). For a cold
	// session it can be stale.
	LastSeq int64
	// Goal is the session's goal projection; nil when it has none or the host does not say.
	Goal *Goal
}

// CreateRequest asks for a session. Cwd has to be absolute; the host does not check that it exists.
type CreateRequest struct {
	SessionID   string `json:"sessionId,omitempty"`
	Cwd         string `json:"cwd,omitempty"`
	AgentPreset string `json:"agentPreset,omitempty"`
}

// Created is the answer of session.create.
type Created struct {
	SessionID   string `json:"sessionId"`
	AgentPreset string `json:"agentPreset"`
}

// Models says what a session runs on.
type Models struct {
	Provider        string
	Model           string
	ReasoningEffort string
	// Routable says whether the host can reach that model now (credentials, provider); it cannot be derived from
	// the list of models.
	Routable bool
}

// Mode says when the host takes up a prompt.
type Mode string

const (
	// ModeQueue starts a turn of its own after the running one.
	ModeQueue Mode = "queue"
	// ModeSteer enters the running turn at its next step; on an idle session it starts a turn.
	ModeSteer Mode = "steer"
)

// PromptRequest hands text to a session.
type PromptRequest struct {
	// RPCID is the id of the call, chosen by the caller: it is how the message is found again in the history.
	RPCID     string
	SessionID string
	Mode      Mode
	Text      string
	// TimeZone is the person's IANA time zone, empty for none.
	TimeZone string
}

// HistoryRequest selects a page of a session's history, counted back from the end or from BeforeSeq.
type HistoryRequest struct {
	SessionID string
	// BeforeSeq is the first seq that is not wanted; 0 means the end of the history.
	BeforeSeq int64
	// MaxMessages bounds the page by the number of user and assistant messages in it, not by events; the host has
	// no upper limit. On a cold session the host reads its whole log for every page.
	MaxMessages int
	// ParentSessionID and SubagentMode address a subagent's history; both are empty for a root session.
	ParentSessionID string
	SubagentMode    string
}

// HistoryPage is a contiguous run of events in ascending seq, chunks included. The Data of its events can share the
// memory of the whole page: it must not be written to, and whoever keeps one for long keeps all of them.
type HistoryPage struct {
	Events []Event
	// HasMore says that there are older events than Events[0].
	HasMore bool
}

// Subagent is one child of a session.
type Subagent struct {
	SessionID string
	Mode      string // "one-shot" or "continuable"
	Label     string
	Running   bool
}

// Event is one durable event of a session.
type Event struct {
	Type string `json:"type"`
	Seq  int64  `json:"seq"`  // contiguous per session, from 0
	Time int64  `json:"time"` // milliseconds since the epoch, by the host's clock
	// Data is the event's body as sent. It is content: it may be shown to a caller, never written to disk.
	Data json.RawMessage `json:"data"`
}

// EventChunk is the event type of a piece of streamed text. Chunks take seqs but are never recorded.
const EventChunk = "assistant/chunk"

// FrameKind is the payload type of a frame.
type FrameKind string

// The frames of events.mux. A frame of any other kind is passed on as it is.
const (
	FrameEvent             FrameKind = "session/event"
	FrameSubscribed        FrameKind = "session/subscribed"
	FrameQuestionRequested FrameKind = "question/requested"
	FrameQuestionResolved  FrameKind = "question/resolved"
	FrameApprovalRequested FrameKind = "approval/requested"
	FrameApprovalResolved  FrameKind = "approval/resolved"
	FrameQueue             FrameKind = "session/queue"
	FrameJobs              FrameKind = "session/jobs"
	FrameProjection        FrameKind = "session/projection"
	FrameStreamError       FrameKind = "stream/error"
)

// Frame is one message of the event stream, decoded only as far as routing needs: its kind, its session and, for an
// event, the event's type and seq. The rest is decoded by the methods of this type when somebody wants it.
type Frame struct {
	Kind      FrameKind
	RPCID     string // the envelope's id; for a request it is what an answer has to echo
	SessionID string // empty for FrameStreamError
	EventType string // FrameEvent only
	Seq       int64  // the event's seq (FrameEvent) or the session's last seq (FrameSubscribed)
	// Payload is the frame's payload as sent, valid JSON. The frame owns it. It is nil for FrameProjection and for
	// an event of type EventChunk, which nobody reads.
	Payload json.RawMessage
}

// Question is one question of a batch.
type Question struct {
	ID          string   `json:"id"`
	Question    string   `json:"question"`
	Header      string   `json:"header,omitempty"`
	Detail      string   `json:"detail,omitempty"`
	Options     []Option `json:"options,omitempty"`
	MultiSelect bool     `json:"multiSelect,omitempty"`
	// Intent is the host's hint to user interfaces, an object such as {"kind":"plan-review","approve":<label>}.
	Intent json.RawMessage `json:"intent,omitempty"`
}

// Option is one choice of a question.
type Option struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// Approval is a pending request to allow one tool call. The command itself is in the tool/call event with CallID.
type Approval struct {
	ApprovalID string `json:"approvalId"`
	ToolName   string `json:"toolName"`
	CallID     string `json:"callId"`
	Reason     string `json:"reason"`
}

// Resolution tells that a question or an approval is no longer pending.
type Resolution struct {
	// RequestRPCID is the rpcId of the question; empty for an approval.
	RequestRPCID string
	// ApprovalID is the approval's id; empty for a question.
	ApprovalID string
	// Outcome is "answered" or "cancelled" for a question; "allowed-once", "rejected", "cancelled" or "unavailable"
	// for an approval.
	Outcome string
}

// Placements of a queued message.
const (
	PlacementQueued   = "queued"   // starts a turn of its own
	PlacementSteering = "steering" // enters the running turn at its next step
	PlacementContext  = "context"  // goes along with the next step
)

// QueueItem is one message that waits in a session's queue. Its text is left out.
type QueueItem struct {
	ID        string
	Placement string
}

// Job is one background job of a session.
type Job struct {
	ID         string `json:"id"`
	Kind       string `json:"kind"`
	Label      string `json:"label"`
	Status     string `json:"status"` // "running", "completed", …
	StartedAt  int64  `json:"startedAt"`
	FinishedAt int64  `json:"finishedAt"`
	Detail     string `json:"detail"`
}

// Answer answers one pending request of the host. Exactly one of Questions, Approval and Cancel is set.
type Answer struct {
	RPCID     string // the rpcId of the request
	SessionID string
	// Questions answers a question request, one answer for each question, in order.
	Questions []QuestionAnswer
	// Approval answers an approval request.
	Approval *ApprovalAnswer
	// Cancel dismisses a question request.
	Cancel bool
}

// QuestionAnswer answers one question of a batch.
type QuestionAnswer struct {
	ID       string   `json:"id"`
	Selected []string `json:"selected"`
	Custom   string   `json:"custom,omitempty"`
}

// ApprovalAnswer decides one approval. There is no outcome wider than allowing one call once.
type ApprovalAnswer struct {
	ApprovalID string
	// Allow allows the call once; false rejects it.
	Allow bool
}

// Receipt is the host's answer to an answer.
type Receipt struct {
	Accepted bool
	// Reason says why it was not accepted; empty when it was.
	Reason string
}

// Reasons of a receipt.
const (
	ReasonNotPending  = "not-pending"  // answered, cancelled or gone meanwhile
	ReasonBadResponse = "bad-response" // the answer does not fit the request, which stays pending
)
