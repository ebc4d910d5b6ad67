package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Entry is a record to be appended. The ledger fills in Cursor and ObservedAt.
type Entry struct {
	Record
	// From is the lowest seq of the session such that the writer has seen every event from there to SourceSeq; it is
	// used with TypeEvent only. The ledger refuses events that do not follow its watermark without a hole.
	From int64
	// Seen is used with TypeRewind only: the last event of the session that the writer found void. The rewind is
	// dropped when the ledger has moved on from there, for then another process was first.
	Seen Mark
}

// Appended tells what an append did.
type Appended struct {
	// Added counts the records written; the other entries were in the ledger already.
	Added int
	// Moved reports whether the ledger is ahead of where this process last saw it, through this append or through
	// those of other processes.
	Moved bool
	// Cursor is that of the last record.
	Cursor int64
	// Compaction is why the file could not be compacted, if it had to be. The records are in the ledger all the same.
	Compaction error
}

// Append records the entries that are not in the ledger yet, in order, with one lock and one write. It fails whole: a
// *NotContiguousError, a lock time out, damage or a disk fault leaves no entry acknowledged. The records are not
// synced; see [Ledger.Sync]. The ledger keeps the entries' lists, which the caller must not change afterwards.
func (l *Ledger) Append(ctx context.Context, entries []Entry) (Appended, error) {
	if len(entries) == 0 {
		return Appended{}, nil
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return Appended{}, err
	}
	defer unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.seen
	if err := l.prepare(); err != nil {
		return Appended{}, err
	}
	spare := buffers.Get().(*[]byte)
	buf, ends, err := l.admitAll(entries, (*spare)[:0])
	if err != nil {
		l.stale = true
		return Appended{}, err
	}
	if len(buf) > 0 {
		if err := l.write(buf, ends); err != nil {
			return Appended{}, err
		}
	}
	if cap(buf) <= readBlock {
		*spare = buf
		buffers.Put(spare)
	}
	done := Appended{Added: len(ends), Moved: l.state.Cursor > before, Cursor: l.state.Cursor}
	if l.offset > l.compactAt && len(l.marks) > 0 {
		// Trying again at every append would cost a whole state each time.
		l.compactAt = l.offset + l.opts.MaxBytes/keepPart
		done.Compaction = l.compact()
	}
	return done, nil
}

// prepare brings the file into the state a writer needs: it exists, everything in it is folded, and no torn line is
// left at its end. The lock is held.
func (l *Ledger) prepare() error {
	if err := l.rewrite(); err != nil {
		return err
	}
	size, err := l.refresh()
	if err != nil {
		return err
	}
	if l.file == nil {
		return l.create()
	}
	if size > l.offset {
		// Whoever wrote this died inside the write, or it would hold the lock.
		if err := l.file.Truncate(l.offset); err != nil {
			return fmt.Errorf("cut the torn line off %s: %w", l.path, err)
		}
	}
	return nil
}

// buffers are what batches are encoded into. They are shared: a process has a thousand ledgers and writes to a few.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// usualRecord is about how many bytes a record takes.
const usualRecord = 256

// admitAll folds the entries that are new and encodes them into the buffer. It returns that, and the offset behind each
// record within it.
func (l *Ledger) admitAll(entries []Entry, buf []byte) (_ []byte, ends []int64, err error) {
	now := l.opts.Now().UnixMilli()
	buf, ends = slices.Grow(buf, usualRecord*len(entries)), make([]int64, 0, len(entries))
	var r Record
	for i := range entries {
		r = entries[i].Record
		if err := r.check(); err != nil {
			return nil, nil, fmt.Errorf("record %d of the batch cannot be written: %w", i+1, err)
		}
		admitted, err := l.state.admit(&r, entries[i].From, entries[i].Seen)
		if err != nil {
			return nil, nil, err
		}
		if !admitted {
			continue
		}
		r.Cursor, r.ObservedAt = l.state.Cursor+1, now
		start := len(buf)
		if buf, err = r.encode(buf); err != nil {
			return nil, nil, fmt.Errorf("encode record %d of the batch: %w", i+1, err)
		}
		if len(buf)-start > maxLine {
			return nil, nil, fmt.Errorf("record %d of the batch has %d bytes, more than can be read", i+1, len(buf)-start)
		}
		l.state.apply(&r)
		ends = append(ends, int64(len(buf)))
	}
	return buf, ends, nil
}

// write appends the encoded records, which are in the state already. When it fails, whole lines that reached the file
// stay, for another process may have read them; the state is folded anew from what is there.
func (l *Ledger) write(buf []byte, ends []int64) error {
	if n, err := l.file.WriteAt(buf, l.offset); err != nil {
		l.stale = true
		whole := int64(0)
		for _, end := range ends {
			if end <= int64(n) {
				whole = end
			}
		}
		// Best effort: the next holder of the lock cuts a torn line as well.
		_ = l.file.Truncate(l.offset + whole)
		return fmt.Errorf("write ledger %s: %w", l.path, err)
	}
	start := int64(0)
	cursor := l.state.Cursor - int64(len(ends))
	for _, end := range ends {
		cursor++
		l.place(cursor, l.offset+start)
		start = end
	}
	l.offset += int64(len(buf))
	l.line += int64(len(ends))
	l.seen = l.state.Cursor
	return nil
}

// outlived reports whether a request, which was made when the events before seq from were there, belongs to a turn that
// has ended: it went with it.
func (s *State) outlived(sessionID string, from int64) bool {
	session := s.Sessions[sessionID]
	return session != nil && session.Turn.Ended && from > 0 && from <= session.Turn.EndSeq
}

// admit decides whether a record says something new, and completes it. What two processes observe of the same thing
// is recorded once, whoever comes first.
func (s *State) admit(r *Record, from int64, seen Mark) (bool, error) {
	c := &r.Coordination
	switch r.Type {
	case TypeEvent:
		watermark := s.Watermark(r.SourceSessionID)
		if at := s.At(r.SourceSessionID); *r.SourceSeq == watermark && at.Event != "" &&
			!at.Same(Mark{Seq: watermark, Event: c.Event, Time: c.Time, Reason: c.Reason}) {
			// One of the two was lost with the host; only the history can tell which.
			return false, &NotContiguousError{SessionID: r.SourceSessionID, From: from, Watermark: watermark}
		}
		if *r.SourceSeq <= watermark {
			return false, nil
		}
		if from > watermark+1 {
			return false, &NotContiguousError{SessionID: r.SourceSessionID, From: from, Watermark: watermark}
		}
		if c.Event == "user/message" && c.RequestID != "" {
			_, prompted := s.Prompts[c.RequestID]
			_, issued := s.IssuedPrompt(c.RequestID)
			c.Bridge = prompted || issued
		}
		return true, nil
	case TypePromptIssued, TypeWriteIssued:
		issued, known := s.IssuedPrompt(c.RequestID)
		if c.Outcome == PromptSending && c.Fingerprint != "" && known && issued.Outcome != PromptRefused {
			return false, &IssuedError{Issued: issued}
		}
		return true, nil
	case TypeQuestionRequested, TypeApprovalRequested:
		if s.outlived(r.SourceSessionID, c.From) {
			return false, nil // who observed it was behind
		}
		if s.Pending[c.RequestID] != nil {
			return false, nil
		}
		if closed, known := s.ClosedRequest(c.RequestID); known {
			if !closed.Withdrawn {
				return false, nil
			}
			r.Type = TypeReplayed
		}
		return c.RequestID != "", nil
	case TypeQuestionResolved, TypeWithdrawn:
		return s.Pending[c.RequestID] != nil, nil
	case TypeApprovalResolved:
		ids := s.pendingApprovals(c.ApprovalID)
		if len(ids) == 0 {
			return false, nil
		}
		c.RequestID = ids[0]
		return true, nil
	case TypeQueue:
		session := s.Sessions[r.SourceSessionID]
		return session == nil || session.Queue == nil || !slices.Equal(session.Queue, c.Queue), nil
	case TypeJobs:
		session := s.Sessions[r.SourceSessionID]
		return session == nil || session.Jobs == nil || !slices.Equal(session.Jobs, c.Jobs), nil
	case TypeTurnInterrupted:
		if c.RequestID != "" {
			if c.Outcome == PromptParked {
				return s.Stranded(c.RequestID), nil
			}
			return s.Prompts[c.RequestID] != nil && !s.Arrived(c.RequestID), nil
		}
		// The turn that was seen dead may have ended, and another begun, since.
		session := s.Sessions[r.SourceSessionID]
		return session != nil && session.Turn.Open() && (c.Turn == 0 || c.Turn == session.Turn.Number), nil
	case TypeRewind:
		session := s.Sessions[r.SourceSessionID]
		return session != nil && session.Watermark >= c.From && session.Watermark == seen.Seq && session.LastTime == seen.Time, nil
	case TypeGap:
		watermark := s.Watermark(r.SourceSessionID)
		c.From = max(c.From, watermark+1) // another process may have recorded the beginning of it live
		return c.To > watermark, nil
	}
	return true, nil
}
