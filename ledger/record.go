// Package ledger keeps the coordination record of one task: an append-only file of JSON lines that several bridge
// processes share, and the state that folds out of it.
//
// What it promises: cursors run 1, 2, 3… without hole or repeat and are never given to another record; a durable
// event of a session is recorded once, in the order of its seqs; a process killed inside a write costs nothing but
// the torn line it left; a file that is damaged in any other way is refused, never repaired in silence. What it does
// not do: it holds no content of a conversation ([Coordination] has no field for any), it knows nothing of the
// host's wire, and it never talks to anybody.
package ledger

import (
	"errors"
	"fmt"
	"strings"
)

// Type is what a record is about.
type Type string

// The types of records.
const (
	// TypeEvent is a durable event of the host's history; Coordination.Event holds its wire type.
	TypeEvent Type = "session/event"
	// TypeQuestionRequested, TypeQuestionResolved, TypeApprovalRequested and TypeApprovalResolved follow the
	// requests that wait for a person.
	TypeQuestionRequested Type = "question/requested"
	TypeQuestionResolved  Type = "question/resolved"
	TypeApprovalRequested Type = "approval/requested"
	TypeApprovalResolved  Type = "approval/resolved"
	// TypeWithdrawn marks a request that the host no longer brought after a reconnect; TypeReplayed reopens it.
	TypeWithdrawn Type = "interaction/withdrawn"
	TypeReplayed  Type = "interaction/replayed"
	// TypeQueue and TypeJobs are the last known whole queue and job list of a session, as ids and states.
	TypeQueue Type = "session/queue"
	TypeJobs  Type = "session/jobs"
	// TypeStreamError notes that the host reported an error on its event stream.
	TypeStreamError Type = "stream/error"
	// TypeRespondAccepted and TypeRespondNotPending are the receipts of answers given through this home.
	TypeRespondAccepted   Type = "respond/accepted"
	TypeRespondNotPending Type = "respond/not-pending"
	// TypePromptIssued follows a prompt of this home; Outcome is one of the Prompt… outcomes.
	TypePromptIssued Type = "bridge/prompt-issued"
	// TypeWriteIssued follows any other write of this home whose caller may repeat it: a message to a subagent, or a
	// change of the goal (Goal is set). Outcome is one of the Prompt… outcomes.
	TypeWriteIssued Type = "bridge/write-issued"
	// TypeTurnInterrupted notes that a turn, or a prompt that waited for one, came to its end without a turn/end in the
	// history: with the host (Reason is empty), or cancelled before the model had said anything (Reason is aborted).
	TypeTurnInterrupted Type = "bridge/turn-interrupted"
	// TypeRewind notes that the host lost events it had sent: From is the first seq that is void, Session what is left.
	TypeRewind Type = "ledger/rewind"
	// TypeGap notes that the host's history no longer holds the events From to To.
	TypeGap Type = "ledger/gap"
)

// Outcomes of a prompt, in Coordination.Outcome of a TypePromptIssued record.
const (
	PromptSending  = "sending"  // about to be sent; written before the call
	PromptAccepted = "accepted" // the host has it
	PromptRefused  = "refused"  // the host does not have it
	PromptUnknown  = "unknown"  // the call broke off; the history will tell
	// PromptParked is of a TypeTurnInterrupted record: the message lies in the inbox of a host that was started anew, and
	// stays there until another prompt comes.
	PromptParked = "parked"
)

// Origins of a session.
const (
	OriginRoot     = "root"
	OriginSubagent = "subagent"
)

// Record is one line of the ledger.
type Record struct {
	// Cursor numbers the task's records from 1. It is the order in which this home observed them, not a causal
	// order of the host.
	Cursor int64 `json:"cursor"`
	// ObservedAt is when the record was written, in milliseconds since the epoch.
	ObservedAt int64 `json:"observedAt"`
	// SourceSessionID is the session the record speaks of.
	SourceSessionID string `json:"sourceSessionId,omitempty"`
	// SourceSeq is the event's seq in its session; nil for everything but TypeEvent.
	SourceSeq *int64 `json:"sourceSeq,omitempty"`
	// ParentSessionID and Origin tell a subagent's session from the root.
	ParentSessionID string       `json:"parentSessionId,omitempty"`
	Origin          string       `json:"origin"`
	Type            Type         `json:"type"`
	Coordination    Coordination `json:"coordination"`
}

// Coordination is what a record keeps of what it observed: ids, numbers and words of a fixed vocabulary. It has no
// field that could hold a text of the conversation, and a record whose strings are not ids or words of a
// vocabulary is refused.
type Coordination struct {
	Event      string `json:"event,omitempty"`      // the event's wire type
	Time       int64  `json:"time,omitempty"`       // the host's time of it, in milliseconds since the epoch
	Turn       int    `json:"turn,omitempty"`       // turn number
	Step       int    `json:"step,omitempty"`       // step number within the turn
	Reason     string `json:"reason,omitempty"`     // how a turn ended: completed, aborted, error, interrupted, other
	Text       bool   `json:"text,omitempty"`       // the assistant message has text that a person would see
	SourceKind string `json:"sourceKind,omitempty"` // who wrote a user message: user, plugin, goal, other
	RequestID  string `json:"requestId,omitempty"`  // rpcId of a question, an approval or a prompt
	ApprovalID string `json:"approvalId,omitempty"`
	Outcome    string `json:"outcome,omitempty"` // of a request, a prompt or a queued message
	Bridge     bool   `json:"bridge,omitempty"`  // the message was sent through this home
	// Fingerprint is the digest of the arguments of a prompt that its caller may repeat.
	Fingerprint string       `json:"fingerprint,omitempty"`
	Mode        string       `json:"mode,omitempty"` // of a prompt (queue, steer) or a subagent (one-shot, continuable)
	Inbox       *InboxChange `json:"inbox,omitempty"`
	Goal        *GoalChange  `json:"goal,omitempty"` // of goal/change, of a message that begins a round, of a write
	Queue       []QueueItem  `json:"queue,omitempty"`
	Jobs        []JobState   `json:"jobs,omitempty"`
	From        int64        `json:"from,omitempty"`    // first seq of a gap or a rewind; for a request, the next seq of its session when it came
	To          int64        `json:"to,omitempty"`      // last seq of a gap
	Session     *Session     `json:"session,omitempty"` // what a rewind leaves of the session
	Lost        []string     `json:"lost,omitempty"`    // the prompts that a rewind takes back, by request id
}

// InboxChange is a change of a session's inbox as its history tells it: at Start, Removed items go and Inserted come.
type InboxChange struct {
	Target   string      `json:"target"` // next-turn or next-step
	Start    int         `json:"start,omitempty"`
	Removed  int         `json:"removed,omitempty"`
	Inserted []InboxItem `json:"inserted,omitempty"`
}

// InboxItem is one message in an inbox. RequestID is the rpcId of the prompt that brought it, empty for the host's own.
type InboxItem struct {
	ID        string `json:"id"`
	RequestID string `json:"requestId,omitempty"`
}

// GoalChange is what a record tells of a session's goal.
type GoalChange struct {
	ID string `json:"id,omitempty"`
	// Revision is that after the change; of a TypeWriteIssued record, the one that the change is to follow.
	Revision  int64  `json:"revision,omitempty"`
	Operation string `json:"operation,omitempty"` // create, edit, pause, resume, complete, block, clear; round for the beginning of one
	Phase     string `json:"phase,omitempty"`     // active, paused, blocked, complete; empty once cleared
	Rounds    int    `json:"rounds,omitempty"`    // how many were begun
	MaxRounds int    `json:"maxRounds,omitempty"`
}

// QueueItem is one message in a queue snapshot.
type QueueItem struct {
	ID        string `json:"id"`
	Placement string `json:"placement"`
}

// JobState is one background job in a job snapshot.
type JobState struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// IsWord reports whether s has the form of every string a record may hold: an id or a word of a vocabulary, never a
// sentence.
func IsWord(s string) bool {
	if len(s) > 128 {
		return false
	}
	for i := range len(s) {
		if place := wordBytes[s[i]]; place == nowhere || (place == inside && i == 0) {
			return false
		}
	}
	return true
}

// Where a byte may stand in a word.
const (
	nowhere = iota
	anywhere
	inside // not at its beginning
)

var wordBytes = func() (places [256]uint8) {
	for c := range places {
		switch c := byte(c); {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			places[c] = anywhere
		case strings.IndexByte("._:@/+-", c) >= 0:
			places[c] = inside
		}
	}
	return places
}()

// check refuses a record that is not of the form this package writes, naming the field.
func (r *Record) check() error {
	if r.Type == "" {
		return fmt.Errorf("type is missing")
	}
	if (r.Type == TypeEvent) != (r.SourceSeq != nil) {
		return fmt.Errorf("sourceSeq belongs to %s records and to no others", TypeEvent)
	}
	if r.SourceSeq != nil && *r.SourceSeq < 0 {
		return fmt.Errorf("sourceSeq %d is negative", *r.SourceSeq)
	}
	var bad string
	see := func(field, value string) {
		if bad == "" && !IsWord(value) {
			bad = fmt.Sprintf("%s is not an id or a word of the vocabulary (%d bytes)", field, len(value))
		}
	}
	seeWaiting := func(of string, queue []QueueItem, jobs []JobState) {
		for _, item := range queue {
			see(of+".queue.id", item.ID)
			see(of+".queue.placement", item.Placement)
		}
		for _, job := range jobs {
			see(of+".jobs.id", job.ID)
			see(of+".jobs.status", job.Status)
		}
	}
	c := &r.Coordination
	see("type", string(r.Type))
	see("origin", r.Origin)
	see("sourceSessionId", r.SourceSessionID)
	see("parentSessionId", r.ParentSessionID)
	see("coordination.event", c.Event)
	see("coordination.reason", c.Reason)
	see("coordination.sourceKind", c.SourceKind)
	see("coordination.requestId", c.RequestID)
	see("coordination.approvalId", c.ApprovalID)
	see("coordination.outcome", c.Outcome)
	see("coordination.mode", c.Mode)
	see("coordination.fingerprint", c.Fingerprint)
	if c.Inbox != nil {
		see("coordination.inbox.target", c.Inbox.Target)
		for _, item := range c.Inbox.Inserted {
			see("coordination.inbox.inserted.id", item.ID)
			see("coordination.inbox.inserted.requestId", item.RequestID)
		}
	}
	if g := c.Goal; g != nil {
		see("coordination.goal.id", g.ID)
		see("coordination.goal.operation", g.Operation)
		see("coordination.goal.phase", g.Phase)
	}
	for _, id := range c.Lost {
		see("coordination.lost", id)
	}
	if s := c.Session; s != nil {
		if !s.complete() {
			return errors.New("coordination.session is incomplete")
		}
		see("coordination.session.parent", s.Parent)
		see("coordination.session.origin", s.Origin)
		see("coordination.session.mode", s.Mode)
		see("coordination.session.lastEvent", s.LastEvent)
		see("coordination.session.lastReason", s.LastReason)
		see("coordination.session.turn.reason", s.Turn.Reason)
		if s.Goal != nil {
			see("coordination.session.goal.id", s.Goal.ID)
			see("coordination.session.goal.phase", s.Goal.Phase)
		}
		for target, items := range s.Inbox {
			see("coordination.session.inbox", target)
			for _, item := range items {
				see("coordination.session.inbox.id", item.ID)
				see("coordination.session.inbox.requestId", item.RequestID)
			}
		}
		seeWaiting("coordination.session", s.Queue, s.Jobs)
	}
	seeWaiting("coordination", c.Queue, c.Jobs)
	if bad != "" {
		return errors.New(bad)
	}
	return nil
}
