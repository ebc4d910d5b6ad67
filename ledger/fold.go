package ledger

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

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
	case TypeWriteIssued:
		s.issued(c.RequestID, c.Fingerprint, c.Outcome, r.Cursor)
		s.issuedGoal(c.RequestID, c.Goal)
	case TypeTurnInterrupted:
		s.applyInterrupted(r)
	case TypeRewind:
		s.rewind(r)
	case TypeGap:
		session := s.session(r.SourceSessionID, r.ParentSessionID, r.Origin)
		session.Watermark = max(session.Watermark, c.To)
		session.LastEvent, session.LastTime, session.LastReason = "", 0, "" // what stood there is not known
		session.Inbox, session.Goal = nil, nil                              // what became of them lies in the gap
		if r.SourceSessionID == s.Root {
			for _, p := range s.Prompts {
				p.Taken = p.Taken || p.Outcome == PromptAccepted
			}
		}
		s.Gaps = append(s.Gaps, Gap{SessionID: r.SourceSessionID, From: c.From, To: c.To, Cursor: r.Cursor})
	}
}

func (s *State) applyEvent(r *Record) {
	c := &r.Coordination
	session := s.session(r.SourceSessionID, r.ParentSessionID, r.Origin)
	session.Watermark, session.LastEvent, session.LastTime = *r.SourceSeq, c.Event, c.Time
	session.LastReason = c.Reason
	if c.Turn > session.Turn.Number && c.Event != "turn/start" {
		// The beginning of this turn, and the end of the one before, lie in a gap.
		session.Turn, session.Candidate = Turn{Number: c.Turn}, -1
	}
	switch c.Event {
	case "turn/start":
		if session.Turn.Open() {
			// It ended in silence, and nobody noticed in time.
			session.Final = session.Candidate
			s.closeSession(r.SourceSessionID, *r.SourceSeq)
			s.settlePrompts(r.SourceSessionID, ReasonAborted)
		}
		if session.Final < 0 {
			session.Final = session.Candidate // from before the turn that the host forgot
		}
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
		s.closeSession(r.SourceSessionID, *r.SourceSeq)
		s.settlePrompts(r.SourceSessionID, c.Reason)
	case "assistant/message":
		if c.Text {
			session.Candidate = *r.SourceSeq
		}
	case "user/message":
		if c.RequestID != "" {
			s.consume(c.RequestID)
			s.issued(c.RequestID, "", PromptAccepted, r.Cursor)
		}
		session.goalMoves(r)
	case "goal/change":
		session.goalMoves(r)
		s.goalShows(r)
	case "agent/inbox/spliced":
		s.splice(session, c)
	case "subagent/descriptor":
		session.Mode = c.Mode
	case "approval/decided":
		s.closeApproval(c.ApprovalID, c.Outcome)
	}
}

// splice follows the inbox of a session. What is taken out of it may be put in again, at another place or in another
// wording; otherwise it becomes a message of the running turn, or nothing.
func (s *State) splice(session *Session, c *Coordination) {
	if c.Inbox == nil {
		return
	}
	if session.Inbox == nil {
		session.Inbox = map[string][]InboxItem{}
	}
	items := session.Inbox[c.Inbox.Target]
	start := min(max(c.Inbox.Start, 0), len(items))
	end := start + min(max(c.Inbox.Removed, 0), len(items)-start)
	for _, item := range items[start:end] {
		if p := s.Prompts[item.RequestID]; p != nil {
			p.Taken = true
		}
	}
	for _, item := range c.Inbox.Inserted {
		if item.RequestID == "" {
			continue
		}
		s.issued(item.RequestID, "", PromptAccepted, s.Cursor)
		if p := s.Prompts[item.RequestID]; p != nil {
			p.Outcome, p.Taken = PromptAccepted, false
		}
	}
	items = slices.Concat(items[:start], c.Inbox.Inserted, items[end:])
	if len(items) == 0 {
		delete(session.Inbox, c.Inbox.Target)
		return
	}
	session.Inbox[c.Inbox.Target] = items
}

// settlePrompts follows the prompts over the end of a turn of the root. Those that were taken for it and did not
// become messages are lost. When it ended badly, the host takes nothing from the inbox until something new arrives.
func (s *State) settlePrompts(sessionID, reason string) {
	if sessionID != s.Root {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.Prompts)) {
		if s.Prompts[id].Taken {
			s.consume(id)
		}
	}
	if reason == ReasonCompleted {
		return
	}
	for _, items := range s.Sessions[s.Root].Inbox {
		for _, item := range items {
			if p := s.Prompts[item.RequestID]; p != nil {
				p.Parked = true
			}
		}
	}
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
	if c.RequestID == "" {
		return
	}
	s.issued(c.RequestID, c.Fingerprint, c.Outcome, r.Cursor)
	if c.Outcome == PromptRefused || slices.Contains(s.Seen, c.RequestID) {
		delete(s.Prompts, c.RequestID)
		return
	}
	p := &Prompt{Outcome: c.Outcome, Cursor: r.Cursor, Since: r.ObservedAt}
	if old := s.Prompts[c.RequestID]; old != nil {
		// The history can be ahead of the call that brought the message.
		p.Parked, p.Taken = old.Parked, old.Taken
		if c.Outcome == PromptAccepted {
			p.Since = old.Since // one of which nothing is known may have arrived up to now
		}
		if old.Outcome == PromptAccepted {
			p.Outcome = PromptAccepted
		}
	}
	s.Prompts[c.RequestID] = p
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
		if p := s.Prompts[c.RequestID]; c.Outcome != PromptParked {
			s.lose(c.RequestID, r.Cursor)
		} else if p != nil {
			p.Parked = true
		}
		return
	}
	session := s.session(r.SourceSessionID, r.ParentSessionID, r.Origin)
	session.Turn.Ended, session.Turn.EndedAt, session.Turn.EndSeq = true, r.ObservedAt, 0
	session.Turn.EndCursor, session.Turn.Reason = r.Cursor, cmp.Or(c.Reason, ReasonInterrupted)
	session.Final = session.Candidate
	s.closeSession(r.SourceSessionID, math.MaxInt64)
	s.settlePrompts(r.SourceSessionID, session.Turn.Reason)
}

func (s *State) open(r *Record, t Type) {
	c := &r.Coordination
	if c.RequestID == "" {
		return
	}
	s.Closed = slices.DeleteFunc(s.Closed, func(closed Closed) bool { return closed.RequestID == c.RequestID })
	s.Pending[c.RequestID] = &Pending{Type: t, SessionID: r.SourceSessionID, ApprovalID: c.ApprovalID, Since: r.ObservedAt, Cursor: r.Cursor, From: c.From}
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
	for _, id := range s.pendingApprovals(approvalID) {
		s.closeRequest(Closed{RequestID: id, Outcome: outcome})
	}
}

// pendingApprovals returns the requests that an approval's id belongs to, oldest first.
func (s *State) pendingApprovals(approvalID string) []string {
	return slices.DeleteFunc(s.PendingInOrder(), func(id string) bool {
		return approvalID == "" || s.Pending[id].ApprovalID != approvalID
	})
}

// closeSession closes what a session still asked when its turn ended at seq end: it took the asking tool call
// with it.
func (s *State) closeSession(sessionID string, end int64) {
	for _, id := range s.PendingInOrder() {
		if p := s.Pending[id]; p.SessionID == sessionID && p.From <= end {
			s.closeRequest(Closed{RequestID: id, Outcome: "cancelled", Withdrawn: true})
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
