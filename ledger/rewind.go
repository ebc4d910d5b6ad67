package ledger

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Mark identifies a recorded event of a session: a host that lost its last events writes others under their seqs.
type Mark struct {
	Seq   int64
	Event string // the wire type
	Time  int64  // the host's time of it, in milliseconds since the epoch
	// Reason is how the turn ended, if the event is its end: a host that repairs a broken turn gives its end the time
	// of an older event.
	Reason string
	// RequestID is the prompt that became this message, if the event is one.
	RequestID string
}

// Same reports whether the two are the same event, as far as a record tells.
func (m Mark) Same(other Mark) bool {
	return m.Seq == other.Seq && m.Event == other.Event && m.Time == other.Time && m.Reason == other.Reason
}

// errAllRead ends a scan that has found what it looked for.
var errAllRead = errors.New("all read")

// Marks returns, in ascending seq, the recorded events of a session that are still in the file and were not taken back.
// If the last one before them is known, from the checkpoint, it comes first.
func (l *Ledger) Marks(sessionID string) ([]Mark, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.refresh(); err != nil {
		return nil, err
	}
	if l.file == nil || len(l.marks) == 0 {
		return nil, nil
	}
	var list []Mark
	back := int64(math.MaxInt64) // how far down the rewinds behind the checkpoint go
	err := l.scan(l.marks[0].offset, l.offset, func(raw []byte, end int64) error {
		var r Record
		if err := l.decoder.decode(raw, &r); err != nil {
			return &DamagedError{Path: l.path, Reason: fmt.Sprintf("a record before byte %d changed under the reader: %v", end, err)}
		}
		switch {
		case r.SourceSessionID != sessionID:
		case r.Type == TypeEvent:
			list = append(list, Mark{Seq: *r.SourceSeq, Event: r.Coordination.Event, Time: r.Coordination.Time, Reason: r.Coordination.Reason, RequestID: r.Coordination.RequestID})
		case r.Type == TypeRewind:
			if r.Cursor > l.checkpoint {
				back = min(back, r.Coordination.From)
			}
			for len(list) > 0 && list[len(list)-1].Seq >= r.Coordination.From {
				list = list[:len(list)-1]
			}
		}
		if end >= l.offset {
			return errAllRead
		}
		return nil
	})
	if err != nil && !errors.Is(err, errAllRead) {
		return nil, err
	}
	return l.checkpointed(sessionID, list, back)
}

// checkpointed puts the last event that the checkpoint has of a session before those that are in the file, unless one of
// the rewinds behind it, which go down to back, may have taken it back.
func (l *Ledger) checkpointed(sessionID string, list []Mark, back int64) ([]Mark, error) {
	if l.checkpoint == 0 {
		return list, nil
	}
	state, err := l.readCheckpoint()
	if err != nil {
		return nil, err
	}
	at := state.At(sessionID)
	if at.Event != "" && at.Seq < back && (len(list) == 0 || at.Seq < list[0].Seq) {
		return append([]Mark{at}, list...), nil
	}
	return list, nil
}

// Prefix folds the first events of a session, as they are before a rewind goes on from there.
func Prefix(root string, entries []Entry) *Session {
	state := newState(root)
	var session *Session
	for i := range entries {
		r := entries[i].Record
		state.apply(&r)
		session = state.Sessions[r.SourceSessionID]
	}
	return session
}

// rewind takes a session back to what the host still has of it. A turn that was begun and is lost counts as
// interrupted: nothing in the history will ever tell of it. If the host is left in the middle of a turn before it, that
// one is the last: its end is still to come.
func (s *State) rewind(r *Record) {
	c := &r.Coordination
	before := s.session(r.SourceSessionID, r.ParentSessionID, r.Origin)
	after := &Session{Final: -1, Candidate: -1}
	if c.Session != nil {
		copied := *c.Session
		copied.Inbox = maps.Clone(copied.Inbox)
		after = &copied
	}
	after.Parent, after.Origin = before.Parent, before.Origin
	if c.Session == nil {
		after.Watermark = -1
	}
	after.Queue, after.Jobs = before.Queue, before.Jobs
	if before.Turn.Number == after.Turn.Number && after.Turn.Ended {
		after.Turn.EndCursor = before.Turn.EndCursor
	}
	if b, a := before.Goal, after.Goal; b != nil && a != nil && b.ID == a.ID && b.Revision == a.Revision {
		same := *a
		same.Cursor = b.Cursor
		after.Goal = &same
	}
	if before.Turn.Number > after.Turn.Number && !after.Turn.Open() {
		after.Turn = before.Turn
		after.Turn.Ended, after.Turn.EndedAt, after.Turn.EndSeq = true, r.ObservedAt, 0
		after.Turn.EndCursor, after.Turn.Reason = r.Cursor, ReasonInterrupted
		after.Final, after.Candidate = -1, after.Final
	}
	s.Sessions[r.SourceSessionID] = after
	s.closeSession(r.SourceSessionID, math.MaxInt64)
	if r.SourceSessionID != s.Root {
		return
	}
	for _, id := range c.Lost {
		s.lose(id, r.Cursor)
	}
	for _, id := range slices.Sorted(maps.Keys(s.Prompts)) {
		switch p := s.Prompts[id]; {
		case after.waits(id):
			// A host that comes back takes nothing from the inbox until something new arrives.
			p.Taken, p.Parked = false, !after.Turn.Open()
		case before.waits(id) || p.Taken:
			s.lose(id, r.Cursor)
		}
	}
}

// lose forgets a prompt that went down with the host: nothing will come of it, and its caller may send it again.
func (s *State) lose(requestID string, cursor int64) {
	delete(s.Prompts, requestID)
	s.Seen = slices.DeleteFunc(s.Seen, func(id string) bool { return id == requestID })
	for i := range s.Issued {
		if s.Issued[i].RequestID == requestID {
			s.Issued[i].Outcome, s.Issued[i].Cursor = PromptRefused, cursor
		}
	}
}
