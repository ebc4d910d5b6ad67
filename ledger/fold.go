package ledger

import (
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
	// Final points at the last message of the ended turn that has text, -1 for none.
	Final int64 `json:"final"`
	// Candidate is that message while the turn runs, -1 for none.
	Candidate int64 `json:"candidate"`
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

// Pending is a request that waits for an answer.
type Pending struct {
	Type       Type   `json:"type"` // TypeQuestionRequested or TypeApprovalRequested
	SessionID  string `json:"sessionId"`
	ApprovalID string `json:"approvalId,omitempty"`
	Since      int64  `json:"since"`  // ObservedAt of the record that opened it
	Cursor     int64  `json:"cursor"` // of the record that opened it
}

// Prompt is a message handed to the host that has not shown up in the history yet.
type Prompt struct {
	Outcome string `json:"outcome"` // a Prompt… outcome
	Cursor  int64  `json:"cursor"`  // of its last record
	Since   int64  `json:"since"`   // ObservedAt of its last record
	// Parked is set while the message lies in a queue that nothing takes from: the turn before it failed or was
	// cancelled, and the host waits for another prompt.
	Parked bool `json:"parked,omitempty"`
}

// Issued is a prompt whose caller may repeat it: the same fingerprint gets the first outcome.
type Issued struct {
	RequestID   string `json:"requestId"`
	Fingerprint string `json:"fingerprint"`
	Outcome     string `json:"outcome"` // a Prompt… outcome
	Cursor      int64  `json:"cursor"`  // of the record that told the outcome
}

// Closed is a request that was pending once.
type Closed struct {
	RequestID  string `json:"requestId"`
	ApprovalID string `json:"approvalId,omitempty"`
	Withdrawn  bool   `json:"withdrawn,omitempty"`
	Outcome    string `json:"outcome,omitempty"`
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
		if p.Outcome == PromptAccepted && !p.Parked {
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

// Watermark is the seq up to which a session's events are recorded, -1 for none.
func (s *State) Watermark(sessionID string) int64 {
	if session := s.Sessions[sessionID]; session != nil {
		return session.Watermark
	}
	return -1
}

// PendingInOrder lists the ids of the pending requests, oldest first.
func (s *State) PendingInOrder() []string {
	return slices.SortedFunc(maps.Keys(s.Pending), func(a, b string) int {
		return int(s.Pending[a].Cursor - s.Pending[b].Cursor)
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

// session returns the session's state, made on first mention.
func (s *State) session(id, parent, origin string) *Session {
	session := s.Sessions[id]
	if session == nil {
		session = &Session{Parent: parent, Origin: origin, Watermark: -1, Final: -1, Candidate: -1}
		s.Sessions[id] = session
	}
	return session
}

// apply folds one record into the state. It never fails: a record of an unknown type moves the cursor and nothing else.
func (s *State) apply(r *Record) {
	s.Cursor, s.UpdatedAt = r.Cursor, r.ObservedAt
	c := &r.Coordination
	switch r.Type {
	case TypeEvent:
		s.applyEvent(r)
	case TypeQuestionRequested, TypeApprovalRequested:
		s.open(r, r.Type)
	case TypeReplayed:
		t := TypeQuestionRequested
		if c.ApprovalID != "" {
			t = TypeApprovalRequested
		}
		s.open(r, t)
	case TypeQuestionResolved:
		s.closeRequest(Closed{RequestID: c.RequestID, Outcome: c.Outcome})
	case TypeApprovalResolved:
		s.closeApproval(c.ApprovalID, c.Outcome)
	case TypeWithdrawn:
		s.closeRequest(Closed{RequestID: c.RequestID, ApprovalID: c.ApprovalID, Withdrawn: true})
	case TypeQueue:
		s.session(r.SourceSessionID, r.ParentSessionID, r.Origin).Queue = nonNil(c.Queue)
	case TypeJobs:
		s.session(r.SourceSessionID, r.ParentSessionID, r.Origin).Jobs = nonNil(c.Jobs)
	case TypePromptIssued:
		s.applyPrompt(r)
	case TypeTurnInterrupted:
		s.applyInterrupted(r)
	case TypeGap:
		session := s.session(r.SourceSessionID, r.ParentSessionID, r.Origin)
		session.Watermark = max(session.Watermark, c.To)
		s.Gaps = append(s.Gaps, Gap{SessionID: r.SourceSessionID, From: c.From, To: c.To, Cursor: r.Cursor})
	}
}

func (s *State) applyEvent(r *Record) {
	c := &r.Coordination
	session := s.session(r.SourceSessionID, r.ParentSessionID, r.Origin)
	session.Watermark = *r.SourceSeq
	switch c.Event {
	case "turn/start":
		session.Turn = Turn{Number: max(c.Turn, 1), StartedAt: c.Time, StartSeq: *r.SourceSeq}
		session.Candidate = -1
		if r.SourceSessionID == s.Root {
			for _, p := range s.Prompts {
				p.Parked = false
			}
		}
	case "turn/end":
		session.Turn.Number = max(c.Turn, session.Turn.Number, 1)
		session.Turn.Ended, session.Turn.EndedAt, session.Turn.EndSeq = true, c.Time, *r.SourceSeq
		session.Turn.EndCursor, session.Turn.Reason = r.Cursor, c.Reason
		session.Final, session.Candidate = session.Candidate, -1
		s.closeSession(r.SourceSessionID)
		if r.SourceSessionID == s.Root && c.Reason != ReasonCompleted {
			s.parkQueued(session)
		}
	case "assistant/message":
		if c.Text {
			session.Candidate = *r.SourceSeq
		}
	case "user/message":
		if c.RequestID != "" {
			s.consume(c.RequestID)
			s.issued(c.RequestID, "", PromptAccepted, r.Cursor)
		}
	case "agent/inbox/spliced":
		s.splice(session, c)
	case "subagent/descriptor":
		session.Mode = c.Mode
	case "approval/decided":
		s.closeApproval(c.ApprovalID, c.Outcome)
	}
}

// splice follows the inbox of a session. A prompt that is taken out of it as canceled will never become a message.
func (s *State) splice(session *Session, c *Coordination) {
	if c.Inbox == nil {
		return
	}
	for _, item := range c.Inbox.Inserted {
		if item.RequestID != "" {
			s.issued(item.RequestID, "", PromptAccepted, s.Cursor)
		}
	}
	if session.Inbox == nil {
		session.Inbox = map[string][]InboxItem{}
	}
	items := session.Inbox[c.Inbox.Target]
	start := min(max(c.Inbox.Start, 0), len(items))
	end := min(start+max(c.Inbox.Removed, 0), len(items))
	if c.Outcome == "canceled" {
		for _, item := range items[start:end] {
			if item.RequestID != "" {
				s.consume(item.RequestID)
			}
		}
	}
	items = slices.Concat(items[:start], c.Inbox.Inserted, items[end:])
	if len(items) == 0 {
		delete(session.Inbox, c.Inbox.Target)
		return
	}
	session.Inbox[c.Inbox.Target] = items
}

// parkQueued marks the prompts that lie in the root's inbox when a turn ends badly: the host takes nothing from the
// inbox until the next prompt comes.
func (s *State) parkQueued(root *Session) {
	for _, items := range root.Inbox {
		for _, item := range items {
			if p := s.Prompts[item.RequestID]; p != nil {
				p.Parked = true
			}
		}
	}
}

// Arrived reports whether the history shows that the host got the prompt with that request id.
func (s *State) Arrived(requestID string) bool {
	if slices.Contains(s.Seen, requestID) {
		return true
	}
	for _, session := range s.Sessions {
		for _, items := range session.Inbox {
			if slices.ContainsFunc(items, func(item InboxItem) bool { return item.RequestID == requestID }) {
				return true
			}
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

// issued follows the outcome of a prompt that may be repeated. What the history shows is accepted, whatever became of
// the call.
func (s *State) issued(requestID, fingerprint, outcome string, cursor int64) {
	i := slices.IndexFunc(s.Issued, func(p Issued) bool { return p.RequestID == requestID })
	switch {
	case i >= 0:
		if s.Issued[i].Outcome != PromptAccepted {
			s.Issued[i].Outcome, s.Issued[i].Cursor = outcome, cursor
		}
	case fingerprint != "":
		s.Issued = remember(s.Issued, Issued{RequestID: requestID, Fingerprint: fingerprint, Outcome: outcome, Cursor: cursor})
	}
}

func (s *State) applyPrompt(r *Record) {
	c := &r.Coordination
	s.issued(c.RequestID, c.Fingerprint, c.Outcome, r.Cursor)
	if c.Outcome == PromptRefused || slices.Contains(s.Seen, c.RequestID) {
		delete(s.Prompts, c.RequestID)
		return
	}
	s.Prompts[c.RequestID] = &Prompt{Outcome: c.Outcome, Cursor: r.Cursor, Since: r.ObservedAt}
	if c.Outcome == PromptAccepted {
		// The host takes parked messages up again with every new prompt.
		for _, p := range s.Prompts {
			p.Parked = false
		}
	}
}

// consume notes that a prompt became a message, or was taken out of the queue.
func (s *State) consume(requestID string) {
	delete(s.Prompts, requestID)
	s.Seen = remember(s.Seen, requestID)
}

// applyInterrupted ends what died with the host: a prompt (RequestID), or the running turn of a session.
func (s *State) applyInterrupted(r *Record) {
	c := &r.Coordination
	if c.RequestID != "" {
		s.consume(c.RequestID)
		return
	}
	session := s.session(r.SourceSessionID, r.ParentSessionID, r.Origin)
	session.Turn.Ended, session.Turn.EndedAt, session.Turn.EndSeq = true, r.ObservedAt, 0
	session.Turn.EndCursor, session.Turn.Reason = r.Cursor, ReasonInterrupted
	session.Final = session.Candidate
	s.closeSession(r.SourceSessionID)
}

func (s *State) open(r *Record, t Type) {
	c := &r.Coordination
	s.Closed = slices.DeleteFunc(s.Closed, func(closed Closed) bool { return closed.RequestID == c.RequestID })
	s.Pending[c.RequestID] = &Pending{Type: t, SessionID: r.SourceSessionID, ApprovalID: c.ApprovalID, Since: r.ObservedAt, Cursor: r.Cursor}
}

func (s *State) closeRequest(closed Closed) {
	if closed.RequestID == "" {
		return
	}
	if p := s.Pending[closed.RequestID]; p != nil {
		closed.ApprovalID = p.ApprovalID
	}
	delete(s.Pending, closed.RequestID)
	s.Closed = slices.DeleteFunc(s.Closed, func(c Closed) bool { return c.RequestID == closed.RequestID })
	s.Closed = remember(s.Closed, closed)
}

func (s *State) closeApproval(approvalID, outcome string) {
	for id, p := range s.Pending {
		if p.ApprovalID == approvalID && approvalID != "" {
			s.closeRequest(Closed{RequestID: id, ApprovalID: approvalID, Outcome: outcome})
		}
	}
}

// closeSession closes what a session still asked when its turn ended: the end of the turn took the asking tool call
// with it.
func (s *State) closeSession(sessionID string) {
	for id, p := range s.Pending {
		if p.SessionID == sessionID {
			s.closeRequest(Closed{RequestID: id, Outcome: "cancelled"})
		}
	}
}

// remember appends to a list of bounded length.
func remember[T any](list []T, item T) []T {
	if len(list) >= maxRemembered {
		list = slices.Delete(list, 0, len(list)-maxRemembered+1)
	}
	return append(list, item)
}

// nonNil tells an empty snapshot from one that was never seen.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
