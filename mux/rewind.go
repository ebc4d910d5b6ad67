package mux

import (
	"context"
	"errors"
	"slices"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// A host sends an event at once and writes it down a moment later, in batches. One that is killed in between has lost
// what it had sent, and gives the seqs of the lost events to others.

// errRewound says that a history does not have the event that is recorded at its watermark.
var errRewound = errors.New("the host lost events that it had sent")

// writeDelay is long against the time within which a host writes its events down (0.2 s on 0.1.0-rc.8).
const writeDelay = 10 * time.Second

// proof is what the readings of a session's history have proved to be written down, so that no death of the host takes
// it back: what one showed, and another showed again writeDelay later. Either the host lived all the while, or it had
// it from its disk. Only this process's clock counts; the host's may be another.
type proof struct {
	written int64     // every seq below was shown twice
	shown   int64     // every seq below was shown once,
	at      time.Time // by then
}

// read takes note of a reading, asked for at asked and done now, that showed every seq below end.
func (p *proof) read(asked, now time.Time, end int64) {
	if p.at.IsZero() || asked.Sub(p.at) > writeDelay {
		p.written, p.shown, p.at = p.shown, end, now
	}
}

// isMark reports whether an event of the history is the recorded one.
func isMark(ev dsh.Event, at ledger.Mark) bool {
	here := ledger.Mark{Seq: ev.Seq, Event: eventName(ev.Type), Time: ev.Time}
	if ev.Type == "turn/end" {
		here.Reason = endReason(ev)
	}
	return ev.Type != dsh.EventChunk && here.Same(at)
}

// rewind takes a session's record back to the last event that the host still has, and goes on from there.
func (t *Task) rewind(ctx context.Context, epoch int, s source, at ledger.Mark) error {
	s.proof, s.asked = proof{}, time.Now()
	entries, last, err := t.history(ctx, &s, ledger.Mark{Seq: -1})
	if err != nil {
		return err
	}
	marks, err := t.ledger.Marks(s.id)
	if err != nil {
		return err
	}
	from := firstVoid(marks, entries)
	t.log.Warn("the host lost events that it had sent, as one that is killed does", "session", s.id, "from", from, "recorded", at.Seq)
	behind := slices.IndexFunc(entries, func(e ledger.Entry) bool { return e.SourceSeq != nil && *e.SourceSeq >= from })
	if behind < 0 {
		behind = len(entries)
	}
	left, rest := ledger.Prefix(t.Root, entries[:behind]), entries[behind:]
	mark := int64(-1)
	if left != nil {
		mark = left.Watermark
	}
	back := record(ledger.TypeRewind, s, ledger.Coordination{From: from, Session: left, Lost: lostPrompts(marks, entries, from)})
	back.Seen = at
	batch := []ledger.Entry{back}
	for _, e := range rest {
		e.From = mark + 1
		batch = append(batch, e)
	}
	return t.appendRead(ctx, epoch, s, batch, mark, last)
}

// firstVoid is the first seq behind the last recorded event that the history still has as it was. Everything before it
// is the same, for both only ever grow at their ends.
func firstVoid(marks []ledger.Mark, entries []ledger.Entry) int64 {
	have := make(map[int64]ledger.Mark, len(entries))
	first := int64(-1)
	for _, e := range entries {
		if e.SourceSeq != nil {
			c := &e.Coordination
			have[*e.SourceSeq] = ledger.Mark{Seq: *e.SourceSeq, Event: c.Event, Time: c.Time, Reason: c.Reason}
			if first < 0 {
				first = *e.SourceSeq
			}
		}
	}
	next, common := int64(0), false
	for _, m := range marks {
		if here, ok := have[m.Seq]; m.Seq >= first && (!ok || !here.Same(m)) {
			if !common {
				return m.Seq // what stood before it has left the file
			}
			return next // chunks that stood between are void as well
		}
		next, common = m.Seq+1, true
	}
	return next
}

// lostPrompts are the prompts whose messages were recorded from there on and are not in the history any more.
func lostPrompts(marks []ledger.Mark, entries []ledger.Entry, from int64) []string {
	var lost []string
	for _, m := range marks {
		if m.Seq < from || m.RequestID == "" {
			continue
		}
		if !slices.ContainsFunc(entries, func(e ledger.Entry) bool { return e.Coordination.RequestID == m.RequestID }) {
			lost = append(lost, m.RequestID)
		}
	}
	return lost
}
