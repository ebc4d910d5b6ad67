package mux

import (
	"context"
	"slices"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

const (
	// wholeHistory asks for a page that holds a whole history: on a cold session the host reads its log once for
	// every page.
	wholeHistory = 100_000
	// slack is how many events a page may hold beyond those that are missing, at about four events a message.
	slack = 4
)

// reconcile reads what the ledger lacks of a session from its history.
func (t *Task) reconcile(ctx context.Context, epoch int, s source) error {
	if err := t.ledger.Refresh(); err != nil {
		return err
	}
	mark := int64(-1)
	if err := t.ledger.View(func(state *ledger.State) { mark = state.Watermark(s.id) }); err != nil {
		return err
	}
	if s.origin == ledger.OriginSubagent && s.mode == "" {
		mode, err := t.subagentMode(ctx, s)
		if err != nil {
			return err
		}
		s.mode = mode
	}
	entries, last, err := t.history(ctx, s, mark)
	if dsh.IsCode(err, dsh.CodeSessionNotFound) {
		t.setGone(epoch, s.id)
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.append(ctx, epoch, entries); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if current := t.sessions[s.id]; current != nil && t.epoch == epoch {
		current.mode, current.need = s.mode, false
		current.covered, current.lo, current.next = true, mark+1, max(last, mark)+1
	}
	return nil
}

// history reads a session's events behind mark, oldest first, with a gap where the host no longer has them. last is
// the seq of the last event, chunks included; -1 for an empty history.
func (t *Task) history(ctx context.Context, s source, mark int64) (entries []ledger.Entry, last int64, err error) {
	last = -1
	req := dsh.HistoryRequest{SessionID: s.id, MaxMessages: t.firstPage(s, mark)}
	if s.origin == ledger.OriginSubagent && s.mode != "" {
		req.ParentSessionID, req.SubagentMode = s.parent, s.mode
	}
	var pages [][]ledger.Entry
	first := int64(-1) // the oldest seq read
	for {
		page, err := t.m.opts.Host.History(ctx, req)
		if dsh.KindOf(err) == dsh.TooLarge && req.MaxMessages > 1 {
			req.MaxMessages = max(1, min(req.MaxMessages, 4096)/4)
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if len(page.Events) == 0 {
			break
		}
		if last < 0 {
			last = page.Events[len(page.Events)-1].Seq
		}
		first = page.Events[0].Seq
		scrubbed := make([]ledger.Entry, 0, len(page.Events))
		for _, ev := range page.Events {
			if ev.Seq > mark && ev.Type != dsh.EventChunk {
				scrubbed = append(scrubbed, scrub(ev, mark+1, s))
			}
		}
		pages = append(pages, scrubbed)
		if first <= mark+1 || !page.HasMore {
			break
		}
		req.BeforeSeq = first
		req.MaxMessages = min(req.MaxMessages*4, wholeHistory)
	}
	if first > mark+1 {
		gap := record(ledger.TypeGap, s, ledger.Coordination{From: mark + 1, To: first - 1})
		t.log.Warn("the host's history does not reach down to what is recorded", "session", s.id, "from", mark+1, "to", first-1)
		entries = append(entries, gap)
	}
	for _, page := range slices.Backward(pages) {
		entries = append(entries, page...)
	}
	return entries, last, nil
}

// firstPage chooses the size of the first page, in messages: enough for what is missing where that is known, and
// everything where it is not.
func (t *Task) firstPage(s source, mark int64) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.runs[s.id]
	if r == nil || mark < 0 {
		return wholeHistory
	}
	missing := max(r.next-1-mark, 1)
	return int(min(missing/slack+slack, wholeHistory))
}

// subagentMode asks the parent how a subagent runs; its history is addressed with that. A subagent that its parent
// does not list is read like any session.
func (t *Task) subagentMode(ctx context.Context, s source) (string, error) {
	children, err := t.m.opts.Host.Subagents(ctx, s.parent)
	if dsh.IsCode(err, dsh.CodeSessionNotFound) {
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
func (t *Task) setGone(epoch int, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[id]
	if t.epoch != epoch || s == nil || s.attached {
		return // frames of it came since the question was asked
	}
	s.gone, s.need = true, false
	if id == t.Root {
		t.missing = true
	}
	t.notify()
}
