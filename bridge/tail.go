package bridge

import (
	"context"
	"encoding/json"

	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

const (
	defaultTailEvents = 50
	defaultTailBytes  = 16_000
)

type tailArgs struct {
	TaskID      string `json:"taskId"`
	SinceCursor *int64 `json:"sinceCursor"`
	MaxEvents   int    `json:"maxEvents"`
	MaxBytes    int    `json:"maxBytes"`
}

type tailAnswer struct {
	TaskID string `json:"taskId"`
	condition
	Events             []json.RawMessage `json:"events"`
	NextCursor         int64             `json:"nextCursor"`
	EarliestCursor     int64             `json:"earliestCursor"`
	HasMore            bool              `json:"hasMore"`
	Pending            []pendingRequest  `json:"pending,omitempty"`
	Jobs               []job             `json:"jobs,omitempty"`
	Fault              string            `json:"fault,omitempty"`
	ContentUnavailable string            `json:"contentUnavailable,omitempty"`
}

// tail shows what happened behind a cursor, in the order of the ledger, with content from the host's live history.
func (b *Bridge) tail(ctx context.Context, raw json.RawMessage) (any, error) {
	args := tailArgs{MaxEvents: defaultTailEvents, MaxBytes: defaultTailBytes}
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := checkSince(args.SinceCursor); err != nil {
		return nil, err
	}
	if err := checkRange("maxEvents", args.MaxEvents, 1, 500); err != nil {
		return nil, err
	}
	if err := checkRange("maxBytes", args.MaxBytes, 1024, 1_000_000); err != nil {
		return nil, err
	}
	_, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	hostErr := t.Current(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	snap, err := t.Snapshot()
	if err != nil {
		return nil, err
	}
	since := snap.Earliest - 1
	if args.SinceCursor != nil {
		since = *args.SinceCursor
	}
	shown, next, more, err := b.choose(t, since, args.MaxEvents)
	if err != nil {
		return nil, err
	}
	answer := tailAnswer{TaskID: t.ID, condition: conditionOf(snap), Events: []json.RawMessage{}, NextCursor: next,
		EarliestCursor: snap.Earliest, HasMore: more, Jobs: jobsOf(snap.Jobs)}
	if snap.Fault != nil {
		answer.Fault = b.unavailable(snap.Fault)
	}
	r := b.reader(t, snap)
	switch {
	case snap.Availability != mux.Connected:
		answer.ContentUnavailable = b.away(snap, hostErr)
	default:
		answer.Pending = b.pending(ctx, r, snap)
		if err := r.loadAll(ctx, shown); err != nil {
			answer.ContentUnavailable = b.unavailable(err)
		}
	}
	if err := answer.add(r, shown, args.MaxBytes); err != nil {
		return nil, err
	}
	return answer, b.settled(t)
}

// choose picks the records behind since that say something to a supervisor, up to max of them. next is the cursor to
// go on from.
func (b *Bridge) choose(t *mux.Task, since int64, max int) (shown []ledger.Record, next int64, more bool, err error) {
	next = since
	err = t.Ledger().Each(since, func(r *ledger.Record, left int64) bool {
		if worthShowing(r) {
			if len(shown) == max {
				more = true
				return false
			}
			if shown == nil {
				shown = make([]ledger.Record, 0, min(int64(max), left))
			}
			shown = append(shown, *r)
		}
		next = r.Cursor
		return true
	})
	return shown, next, more, err
}

// loadAll reads the events behind the records, session by session.
func (r *reader) loadAll(ctx context.Context, records []ledger.Record) error {
	type span struct {
		low, high int64
		messages  int
	}
	spans := map[string]*span{}
	for _, rec := range records {
		if rec.SourceSeq == nil {
			continue
		}
		s := spans[rec.SourceSessionID]
		if s == nil {
			s = &span{low: *rec.SourceSeq, high: *rec.SourceSeq}
			spans[rec.SourceSessionID] = s
		}
		s.low, s.high = min(s.low, *rec.SourceSeq), max(s.high, *rec.SourceSeq)
		switch rec.Coordination.Event {
		case "user/message", "assistant/message", "tool/result":
			s.messages++
		}
	}
	for session, s := range spans {
		if err := r.load(ctx, session, s.low, s.high, s.messages); err != nil {
			return err
		}
	}
	return nil
}

// add digests the records into the answer until its events take maxBytes. There is always at least one, cut to fit.
func (a *tailAnswer) add(r *reader, shown []ledger.Record, maxBytes int) error {
	used := 0
	e := newEncoder()
	for i := range shown {
		rec := &shown[i]
		event, err := e.encode(r.digest(rec, textLimits))
		if err != nil {
			return err
		}
		if used+len(event) > maxBytes {
			if i > 0 {
				a.NextCursor, a.HasMore = shown[i-1].Cursor, true
				return nil
			}
			if event, err = e.encode(r.digest(rec, textLimits.within(maxBytes))); err != nil {
				return err
			}
			a.NextCursor, a.HasMore = rec.Cursor, a.HasMore || len(shown) > 1
			a.Events = append(a.Events, event)
			return nil
		}
		used += len(event) + 1
		a.Events = append(a.Events, event)
	}
	return nil
}
