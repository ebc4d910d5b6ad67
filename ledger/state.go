package ledger

import (
	"cmp"
	"maps"
	"slices"
)

// Execution is how far a task is.
type Execution string

// The executions of a task.
const (
	Starting         Execution = "starting" // a prompt was accepted and its turn has not begun
	Running          Execution = "running"
	AwaitingApproval Execution = "awaiting_approval"
	AwaitingInput    Execution = "awaiting_input"
	TurnCompleted    Execution = "turn_completed"
	Failed           Execution = "failed"
	Canceled         Execution = "canceled"
	Interrupted      Execution = "interrupted" // the host died inside the turn
)

// Terminal reports whether nothing goes on by itself any more, background jobs aside.
func (e Execution) Terminal() bool {
	switch e {
	case TurnCompleted, Failed, Canceled, Interrupted:
		return true
	}
	return false
}

// NeedsAttention reports whether the task waits for somebody's answer.
func (e Execution) NeedsAttention() bool { return e == AwaitingApproval || e == AwaitingInput }

// Reasons of a turn's end, in Coordination.Reason and Turn.Reason.
const (
	ReasonCompleted   = "completed"
	ReasonAborted     = "aborted"
	ReasonError       = "error"
	ReasonInterrupted = "interrupted"
	ReasonOther       = "other" // a word of a newer host; the failure's text tells it
)

// State is what the records of a task fold to. It depends on the records alone, so every process that reads the same
// ledger holds the same state.
type State struct {
	// Cursor is that of the last record.
	Cursor int64 `json:"cursor"`
	// UpdatedAt is when the last record was written, in milliseconds since the epoch.
	UpdatedAt int64 `json:"updatedAt,omitempty"`
	// Root is the task's own session.
	Root string `json:"root"`
	// Sessions holds the root and its subagents by session id.
	Sessions map[string]*Session `json:"sessions,omitempty"`
	// Pending holds the requests that wait for an answer, by request id.
	Pending map[string]*Pending `json:"pending,omitempty"`
	// Prompts holds the prompts of this home that have not become a message yet, by request id.
	Prompts map[string]*Prompt `json:"prompts,omitempty"`
	// Gaps are the runs of events that could not be recovered.
	Gaps []Gap `json:"gaps,omitempty"`

	// Closed remembers requests that are no longer pending, so that a late observer of their beginning does not
	// open them again.
	Closed []Closed `json:"closed,omitempty"`
	// Issued remembers the last prompts whose callers may repeat them.
	Issued []Issued `json:"issued,omitempty"`
	// Seen remembers the request ids of the last messages, so that a prompt recorded after its message was is not
	// awaited.
	Seen []string `json:"seen,omitempty"`
}

// maxRemembered bounds Closed, Issued and Seen: an observer that is later than so many requests has been disconnected long
// since, and reconciles instead.
const maxRemembered = 256

// Session is what is known of one session of the task.
type Session struct {
	Parent string `json:"parent,omitempty"`
	Origin string `json:"origin"`
	Mode   string `json:"mode,omitempty"` // of a subagent
	// Watermark is the seq of the last recorded event, -1 for none. Every event up to it is recorded, was a chunk,
	// or lies in a gap.
	Watermark int64 `json:"watermark"`
	Turn      Turn  `json:"turn"`
	// LastEvent is the wire type of the event at the watermark.
	LastEvent string `json:"lastEvent,omitempty"`
	// LastTime is the host's time of that event, in milliseconds since the epoch.
	LastTime int64 `json:"lastTime,omitempty"`
	// LastReason is its reason, if it ended a turn.
	LastReason string `json:"lastReason,omitempty"`
	// Final points at the last message of the ended turn that has text, -1 for none.
	Final int64 `json:"final"`
	// Candidate is that message while the turn runs, -1 for none. Behind a turn that the host forgot, which has no last
	// message, it is the one of the turn before.
	Candidate int64 `json:"candidate"`
	// Goal is the session's goal; nil when it never had one, or its ledger is older than goals in ledgers.
	Goal *Goal `json:"goal,omitempty"`
	// Inbox is what waits in the session according to its history, by target.
	Inbox map[string][]InboxItem `json:"inbox,omitempty"`
	// Queue and Jobs are the last snapshots seen by anybody of this home; nil before the first.
	Queue []QueueItem `json:"queue"`
	Jobs  []JobState  `json:"jobs"`
}

// Turn is the last turn of a session. Number 0 means that there was none.
type Turn struct {
	Number    int    `json:"number,omitempty"`
	StartedAt int64  `json:"startedAt,omitempty"` // milliseconds since the epoch, by the host's clock
	StartSeq  int64  `json:"startSeq,omitempty"`
	Ended     bool   `json:"ended,omitempty"`
	EndedAt   int64  `json:"endedAt,omitempty"`
	EndSeq    int64  `json:"endSeq,omitempty"` // 0 where the end was inferred and not read
	EndCursor int64  `json:"endCursor,omitempty"`
	Reason    string `json:"reason,omitempty"` // a Reason… constant
}

// Open reports whether the turn runs, as far as the records tell.
func (t Turn) Open() bool { return t.Number > 0 && !t.Ended }

// Goal is what a session works on by itself, one turn (a round) after the other.
type Goal struct {
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
	Phase    string `json:"phase,omitempty"` // a Goal… constant; empty once the goal was cleared
	// Rounds is how many rounds were begun of at most MaxRounds.
	Rounds    int `json:"rounds,omitempty"`
	MaxRounds int `json:"maxRounds,omitempty"`
	// Seq and Cursor are those of the last change (Seq is -1 where it lies in a gap), ChangedAt its time by the host's clock in milliseconds since the epoch.
	Seq       int64 `json:"seq"`
	Cursor    int64 `json:"cursor"`
	ChangedAt int64 `json:"changedAt,omitempty"`
}

// Phases of a goal. A word of a newer host is recorded as other.
const (
	GoalActive   = "active" // the host begins the next round by itself
	GoalPaused   = "paused"
	GoalBlocked  = "blocked"
	GoalComplete = "complete"
)

// GoalRound is the Operation of a message that begins a round.
const GoalRound = "round"

// Pending is a request that waits for an answer.
type Pending struct {
	Type       Type   `json:"type"` // TypeQuestionRequested or TypeApprovalRequested
	SessionID  string `json:"sessionId"`
	ApprovalID string `json:"approvalId,omitempty"`
	Since      int64  `json:"since"`  // ObservedAt of the record that opened it
	Cursor     int64  `json:"cursor"` // of the record that opened it
	// From is how far its session was when it was asked, as the next seq: what ended before has nothing to do with it.
	From int64 `json:"from,omitempty"`
}

// Prompt is a message handed to the host that has not shown up in the history yet.
type Prompt struct {
	Outcome string `json:"outcome"` // a Prompt… outcome
	Cursor  int64  `json:"cursor"`  // of its last record
	Since   int64  `json:"since"`   // ObservedAt of its last record; of the one that it is being sent when it was accepted
	// Parked is set while the message lies in a queue that nothing takes from: the turn before it failed or was
	// cancelled, and the host waits for another prompt.
	Parked bool `json:"parked,omitempty"`
	// Taken is set once the message has left the inbox: it becomes one of the running turn, or is lost with it.
	Taken bool `json:"taken,omitempty"`
}

// Issued is a prompt, or another write, whose caller may repeat it: the same fingerprint gets the first outcome.
type Issued struct {
	RequestID   string `json:"requestId"`
	Fingerprint string `json:"fingerprint"`
	Outcome     string `json:"outcome"` // a Prompt… outcome
	Cursor      int64  `json:"cursor"`  // of the record that told the outcome
	// Goal is the change that a write was to make, nil for a message.
	Goal *GoalChange `json:"goal,omitempty"`
}

// Closed is a request that was pending once.
type Closed struct {
	RequestID  string `json:"requestId"`
	ApprovalID string `json:"approvalId,omitempty"`
	// Withdrawn is set when nobody saw an answer to it: the host did not bring it again, or its turn ended. When the
	// host brings it after all, it is open again.
	Withdrawn bool   `json:"withdrawn,omitempty"`
	Outcome   string `json:"outcome,omitempty"`
}

// Gap is a run of a session's events that the host's history no longer holds.
type Gap struct {
	SessionID string `json:"sessionId"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
	Cursor    int64  `json:"cursor"`
}

// newState returns the state of an empty ledger.
func newState(root string) *State {
	return &State{Root: root, Sessions: map[string]*Session{}, Pending: map[string]*Pending{}, Prompts: map[string]*Prompt{}}
}

// Execution tells how far the task is.
func (s *State) Execution() Execution {
	asks := false
	for _, p := range s.Pending {
		if p.Type == TypeApprovalRequested {
			return AwaitingApproval
		}
		asks = true
	}
	if asks {
		return AwaitingInput
	}
	turn := s.RootTurn()
	if turn.Open() {
		return Running
	}
	for _, p := range s.Prompts {
		if p.Outcome == PromptAccepted && !p.Parked && !p.Taken {
			return Starting
		}
	}
	if turn.Number == 0 {
		return Starting
	}
	switch turn.Reason {
	case ReasonError, ReasonOther:
		return Failed
	case ReasonAborted:
		return Canceled
	case ReasonInterrupted:
		return Interrupted
	}
	return TurnCompleted
}

// RootTurn is the last turn of the task's own session.
func (s *State) RootTurn() Turn {
	if root := s.Sessions[s.Root]; root != nil {
		return root.Turn
	}
	return Turn{}
}

// RootGoal is the goal of the task's own session; nil when there is none, or it was cleared.
func (s *State) RootGoal() *Goal {
	if root := s.Sessions[s.Root]; root != nil && root.Goal != nil && root.Goal.Phase != "" {
		return root.Goal
	}
	return nil
}

// Watermark is the seq up to which a session's events are recorded, -1 for none.
func (s *State) Watermark(sessionID string) int64 {
	if session := s.Sessions[sessionID]; session != nil {
		return session.Watermark
	}
	return -1
}

// At is the last recorded event of a session; its Seq is -1 for none, its Event empty where what stands at the
// watermark is not known.
func (s *State) At(sessionID string) Mark {
	session := s.Sessions[sessionID]
	if session == nil {
		return Mark{Seq: -1}
	}
	return Mark{Seq: session.Watermark, Event: session.LastEvent, Time: session.LastTime, Reason: session.LastReason}
}

// PendingInOrder lists the ids of the pending requests, oldest first.
func (s *State) PendingInOrder() []string {
	return slices.SortedFunc(maps.Keys(s.Pending), func(a, b string) int {
		return cmp.Compare(s.Pending[a].Cursor, s.Pending[b].Cursor)
	})
}

// ClosedRequest tells how a request that was pending once came to its end.
func (s *State) ClosedRequest(requestID string) (Closed, bool) {
	i := slices.IndexFunc(s.Closed, func(c Closed) bool { return c.RequestID == requestID })
	if i < 0 {
		return Closed{}, false
	}
	return s.Closed[i], true
}

// Arrived reports whether the history shows that the host got the prompt with that request id.
func (s *State) Arrived(requestID string) bool {
	if p := s.Prompts[requestID]; slices.Contains(s.Seen, requestID) || (p != nil && p.Taken) {
		return true
	}
	for _, session := range s.Sessions {
		if session.waits(requestID) {
			return true
		}
	}
	return false
}

// Stranded reports whether a prompt lies in the inbox of the root, in which no turn runs, and nothing recorded explains
// why none has begun: a host that lives begins one at once.
func (s *State) Stranded(requestID string) bool {
	p, root := s.Prompts[requestID], s.Sessions[s.Root]
	return p != nil && p.Outcome == PromptAccepted && !p.Parked && !p.Taken && root != nil && !root.Turn.Open() && root.waits(requestID)
}

// waits reports whether a prompt lies in the session's inbox.
func (s *Session) waits(requestID string) bool {
	for _, items := range s.Inbox {
		if slices.ContainsFunc(items, func(item InboxItem) bool { return item.RequestID == requestID }) {
			return true
		}
	}
	return false
}

// IssuedPrompt returns the prompt with that request id, if its caller may repeat it.
func (s *State) IssuedPrompt(requestID string) (Issued, bool) {
	i := slices.IndexFunc(s.Issued, func(p Issued) bool { return p.RequestID == requestID })
	if i < 0 {
		return Issued{}, false
	}
	return s.Issued[i], true
}
