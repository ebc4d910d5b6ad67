package bridge

import (
	"context"
	"encoding/json"
	"fmt"

	"dsh-agentlink/internal/outcome"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

const (
	defaultResultBytes = 6000
	minResultBytes     = 1024
	maxResultBytes     = 100_000
)

type resultArgs struct {
	TaskID   string `json:"taskId"`
	Turn     *int   `json:"turn"`
	MaxBytes int    `json:"maxBytes"`
}

// Values of a result's state that are no reason of the host's.
const (
	turnRunning = "running"
	turnNone    = "none"  // there was no turn yet
	turnNoEnd   = "ended" // it is over, and the history has no end of it
)

// result tells what one turn did, read from the host's live history.
func (b *Bridge) result(ctx context.Context, raw json.RawMessage) (any, error) {
	args := resultArgs{MaxBytes: defaultResultBytes}
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if args.Turn != nil && *args.Turn < 1 {
		return nil, invalid("turn", *args.Turn, "the host counts turns from 1", "Leave it out for the last one.")
	}
	if err := checkRange("maxBytes", args.MaxBytes, minResultBytes, maxResultBytes); err != nil {
		return nil, err
	}
	_, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	// A fresh list of sessions: a subagent that has just begun and ended is not known by the stream alone.
	_, snap, hostErr, err := fresh(ctx, t)
	if err != nil {
		return nil, err
	}
	span, err := b.spanOf(t, snap, args.Turn)
	if err != nil {
		return nil, err
	}
	answer := resultAnswer{TaskID: t.ID, Turn: span.number, State: span.state, StartedAt: stamp(span.startedAt)}
	if snap.Execution == ledger.Starting && args.Turn == nil {
		answer.Starting = true
	}
	switch {
	case snap.Availability != mux.Connected:
		answer.ContentUnavailable = b.away(snap, hostErr)
		return answer, nil
	case span.number == 0:
		return answer, nil
	}
	read, err := b.readTurn(ctx, b.reader(t, snap), snap, span)
	if err != nil {
		answer.ContentUnavailable = b.unavailable(err)
		return answer, nil
	}
	return answer.fit(t.Root, read, args.MaxBytes)
}

// span is where a turn of a session lies in its history.
type span struct {
	number int
	state  string
	// start is the seq of its turn/start, 0 when that has to be looked for. end is that of its turn/end; 0 when it runs
	// or the history has none.
	start, end int64
	// next is the seq at which the turn after it begins, 0 for none.
	next      int64
	startedAt int64
	last      bool // no turn came after it
}

// spanOf finds the turn that is asked for, as far as the ledger tells. It is the last one when none is named.
func (b *Bridge) spanOf(t *mux.Task, snap mux.Snapshot, want *int) (span, error) {
	last := snap.Turn
	if want != nil && *want > last.Number {
		known := fmt.Sprintf("the task's last turn is %d", last.Number)
		if last.Number == 0 {
			known = "the task has no turn yet"
		}
		return span{}, invalid("turn", *want, known, "Leave it out for the last one.")
	}
	if last.Number == 0 {
		return span{state: turnNone, last: true}, nil
	}
	if want == nil || *want == last.Number {
		return span{number: last.Number, state: stateOf(last), start: last.StartSeq, end: last.EndSeq, startedAt: last.StartedAt, last: true}, nil
	}
	return recordedSpan(t, *want)
}

// stateOf is how a turn stands by the ledger.
func stateOf(turn ledger.Turn) string {
	switch {
	case turn.Open():
		return turnRunning
	case turn.Reason != "":
		return turn.Reason
	}
	return turnNoEnd
}

// recordedSpan looks for an older turn in the records. Those of a turn long past can have left the ledger.
func recordedSpan(t *mux.Task, number int) (span, error) {
	found := span{number: number, state: turnNoEnd}
	err := t.Ledger().Each(t.Ledger().Earliest()-1, func(r *ledger.Record, _ int64) bool {
		found.see(r, t.Root)
		return true
	})
	return found, err
}

// see takes from a record what it tells of the turn. A host that lost events can have begun the turn anew, so the last
// one counts.
func (s *span) see(r *ledger.Record, root string) {
	if r.SourceSessionID != root {
		return
	}
	c := &r.Coordination
	switch {
	case r.Type == ledger.TypeTurnInterrupted && c.Turn == s.number:
		s.state = cmpOr(c.Reason, ledger.ReasonInterrupted)
	case r.Type != ledger.TypeEvent || r.SourceSeq == nil:
	case c.Event == "turn/start" && c.Turn == s.number:
		s.start, s.startedAt, s.end, s.next = *r.SourceSeq, c.Time, 0, 0
	case c.Event == "turn/start" && c.Turn > s.number && s.next == 0:
		s.next = *r.SourceSeq
	case c.Event == "turn/end" && c.Turn == s.number:
		s.end, s.state = *r.SourceSeq, cmpOr(c.Reason, turnNoEnd)
	}
}

// turnRead is what was read of a turn and of the turns of subagents that began in it.
type turnRead struct {
	root     outcome.Turn
	children []childTurn
	jobs     []outcome.Job // that still run
	others   []job         // running jobs of the task that began before the turn
}

// childTurn is one turn of a subagent.
type childTurn struct {
	turn  outcome.Turn
	agent mux.Subagent
	label string
	state string
}
