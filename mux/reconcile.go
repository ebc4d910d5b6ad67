package mux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// Sizes of history pages, in messages. On a session that it does not hold in memory the host reads the whole log once
// for every page, so a history is read in one or two pages where that is possible.
const (
	wholeHistory  = 100_000
	littleHistory = 64
	growth        = 16   // from one page to the next
	tooLarge      = 4096 // a page that was too large is taken for one of at most so many
	// slack is how many events a page may hold beyond those that are missing, at about four events a message.
	slack = 4
)

// reconcile reads what the ledger lacks of a session from its history.
func (t *Task) reconcile(ctx context.Context, epoch int, s source) error {
	if err := t.refresh(); err != nil {
		return err
	}
	at := ledger.Mark{Seq: -1}
	if err := t.ledger.View(func(state *ledger.State) { at = state.At(s.id) }); err != nil {
		return err
	}
	mark := at.Seq
	s.asked = time.Now()
	entries, last, err := t.history(ctx, &s, at)
	switch kind := dsh.KindOf(err); {
	case dsh.IsCode(err, dsh.CodeSessionNotFound):
		t.setGone(epoch, s)
		return nil
	case s.origin == ledger.OriginSubagent && (kind == dsh.Refused || kind == dsh.Malformed || kind == dsh.TooLarge):
		// It would be the same the next time, and the rest of the task must not wait for it.
		t.log.Warn("a subagent's history cannot be read", "session", s.id, "err", logged(err))
		t.setUnreadable(epoch, s.id)
		return nil
	case errors.Is(err, errRewound):
		return t.rewind(ctx, epoch, s, at)
	case err != nil:
		return err
	}
	return t.appendRead(ctx, epoch, s, entries, mark, last)
}

// appendRead records what was read of a session's history behind mark, up to last, and notes that the session is covered
// from there on.
func (t *Task) appendRead(ctx context.Context, epoch int, s source, entries []ledger.Entry, mark, last int64) error {
	if err := t.append(ctx, epoch, entries); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if current := t.sessions[s.id]; current != nil && t.epoch == epoch {
		current.mode = s.mode
		current.covered, current.lo, current.next = true, mark+1, max(last, mark)+1
		s.proof.read(s.asked, time.Now(), current.next)
		current.proof = s.proof
	}
	return nil
}

// history reads a session's events behind at, oldest first, with a gap where the host no longer has them. last is
// the seq of the last event, chunks included; -1 for an empty history. It fails with errRewound when the history does
// not have the event that is recorded at at.
func (t *Task) history(ctx context.Context, s *source, at ledger.Mark) (entries []ledger.Entry, last int64, err error) {
	mark := at.Seq
	proved := at.Event == "" // there is nothing to hold the history against
	if s.origin == ledger.OriginSubagent && s.mode == "" {
		if s.mode, err = t.subagentMode(ctx, *s); err != nil {
			return nil, 0, err
		}
	}
	last = -1
	req := dsh.HistoryRequest{SessionID: s.id, MaxMessages: t.firstPage(*s, mark)}
	if s.origin == ledger.OriginSubagent && s.mode != "" {
		req.ParentSessionID, req.SubagentMode = s.parent, s.mode
	}
	var pages [][]ledger.Entry
	first := int64(-1) // the oldest seq read
	limit := wholeHistory
	for {
		page, err := t.m.opts.Host.History(ctx, req)
		if dsh.KindOf(err) == dsh.TooLarge && req.MaxMessages > 1 {
			limit = max(1, min(req.MaxMessages, tooLarge)/4)
			req.MaxMessages = limit
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if len(page.Events) == 0 {
			break
		}
		end := page.Events[len(page.Events)-1].Seq
		if first >= 0 && end != first-1 {
			return nil, 0, &dsh.Error{Kind: dsh.Malformed, Method: "session.history",
				Message: fmt.Sprintf("the page before seq %d ends with seq %d", first, end)}
		}
		last, first = max(last, end), page.Events[0].Seq
		scrubbed := make([]ledger.Entry, 0, countRecorded(page.Events, mark))
		for _, ev := range page.Events {
			if ev.Seq > mark && ev.Type != dsh.EventChunk {
				scrubbed = append(scrubbed, scrub(ev, mark+1, *s))
			}
			if ev.Seq == mark && !proved {
				if !isMark(ev, at) {
					return nil, 0, errRewound
				}
				proved = true
			}
		}
		pages = append(pages, scrubbed)
		if (first <= mark+1 && proved) || first <= mark || !page.HasMore {
			break
		}
		req.BeforeSeq = first
		req.MaxMessages = min(req.MaxMessages*growth, limit)
	}
	if last < mark && !proved {
		return nil, 0, errRewound
	}
	if first > mark+1 {
		gap := record(ledger.TypeGap, *s, ledger.Coordination{From: mark + 1, To: first - 1})
		t.log.Warn("the host's history does not reach down to what is recorded", "session", s.id, "from", mark+1, "to", first-1)
		entries = append(entries, gap)
	}
	slices.Reverse(pages)
	if len(entries) == 0 && len(pages) == 1 {
		return pages[0], last, nil // a long history is not copied for nothing
	}
	return append(entries, slices.Concat(pages...)...), last, nil
}

// countRecorded counts the events behind mark that go to the ledger.
func countRecorded(events []dsh.Event, mark int64) int {
	n := 0
	for _, ev := range events {
		if ev.Seq > mark && ev.Type != dsh.EventChunk {
			n++
		}
	}
	return n
}

// firstPage chooses the size of the first page, in messages: what is missing where the stream has told how much that
// is, a little where something is recorded already, and everything where nothing is.
func (t *Task) firstPage(s source, mark int64) int {
	if mark < 0 {
		return wholeHistory
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.runs[s.id]
	if r == nil {
		return littleHistory
	}
	missing := max(r.next-mark, 1) // one more, the event at the mark itself
	return int(min(missing/slack+slack, wholeHistory))
}

// subagentMode asks the parent how a subagent runs; its history is addressed with that. A subagent that its parent
// does not list is read like any session.
func (t *Task) subagentMode(ctx context.Context, s source) (string, error) {
	children, err := t.m.opts.Host.Subagents(ctx, s.parent)
	if dsh.KindOf(err) == dsh.Refused {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for _, c := range children {
		if c.SessionID == s.id {
			return c.Mode, nil
		}
	}
	return "", nil
}

// setGone notes that the host does not know a session.
func (t *Task) setGone(epoch int, asked source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[asked.id]
	if t.epoch != epoch || s == nil || s.heard != asked.heard {
		return // frames of it came since the question was asked, and lead to it again
	}
	s.gone, s.covered = true, false
	if s.id == t.Root {
		t.missing = true
	}
	t.notify()
}

// setUnreadable leaves a subagent's session out, until the next connection or until somebody asks for the task.
func (t *Task) setUnreadable(epoch int, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[id]; s != nil && t.epoch == epoch {
		s.unreadable, s.covered = true, false
	}
}

// refresh takes in what other processes have recorded.
func (t *Task) refresh() error {
	if err := t.ledger.Refresh(); err != nil {
		return err
	}
	cursor := int64(0)
	if err := t.ledger.View(func(state *ledger.State) { cursor = state.Cursor }); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reached(cursor)
	return nil
}
