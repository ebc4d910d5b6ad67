package bridge

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// maxWaitSeconds keeps a wait well inside the 60 seconds after which common clients give a tool call up.
const maxWaitSeconds = 30

// catchUp is what a wait may spend on learning the present state, even one that does not want to wait.
const catchUp = 5 * time.Second

// Values of until.
const (
	untilChange    = "change"
	untilAttention = "attention"
)

// Reasons for which a wait returns.
const (
	reasonProgress     = "progress"     // records came behind the cursor
	reasonAttention    = "attention"    // a request waits for an answer
	reasonTerminal     = "terminal"     // nothing goes on by itself any more
	reasonAvailability = "availability" // the host went away, came back, or does not know the session
	reasonTimeout      = "timeout"
)

type waitArgs struct {
	TaskID      string `json:"taskId"`
	SinceCursor *int64 `json:"sinceCursor"`
	// TaskIDs and SinceCursors, by task id, stand in for the two above.
	TaskIDs      []string         `json:"taskIds"`
	SinceCursors map[string]int64 `json:"sinceCursors"`
	TimeoutSec   int              `json:"timeoutSec"`
	Until        string           `json:"until"`
}

// condition is how a task stands, in the fields that most answers share.
type condition struct {
	Availability mux.Availability `json:"availability"`
	Execution    ledger.Execution `json:"execution"`
	// Status is the execution while the host can be asked, else unknown.
	Status string `json:"status"`
}

// statusUnknown is the status of a task whose host cannot be asked.
const statusUnknown = "unknown"

func conditionOf(snap mux.Snapshot) condition {
	c := condition{Availability: snap.Availability, Execution: snap.Execution, Status: string(snap.Execution)}
	if snap.Availability != mux.Connected {
		c.Status = statusUnknown
	}
	return c
}

// waited is what a wait tells.
type waited struct {
	condition
	TimedOut           bool             `json:"timedOut"`
	Reason             string           `json:"reason"`
	NextCursor         int64            `json:"nextCursor"`
	Pending            []pendingRequest `json:"pending,omitempty"`
	FinalMessage       *message         `json:"finalMessage,omitempty"`
	Failure            *failure         `json:"failure,omitempty"`
	Goal               *goalView        `json:"goal,omitempty"` // without its objective
	Jobs               []job            `json:"jobs,omitempty"`
	Subagents          []subagentView   `json:"subagents,omitempty"` // the running ones
	ContentUnavailable string           `json:"contentUnavailable,omitempty"`
	Fault              string           `json:"fault,omitempty"`
}

type waitAnswer struct {
	TaskID string `json:"taskId"`
	*waited
}

// wait returns as soon as there is something to tell.
func (b *Bridge) wait(ctx context.Context, raw json.RawMessage) (any, error) {
	args := waitArgs{TimeoutSec: maxWaitSeconds, Until: untilChange}
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := args.check(); err != nil {
		return nil, err
	}
	if len(args.TaskIDs) > 0 {
		return b.waitMany(ctx, args)
	}
	_, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	if err := b.checkCursor(t, args.SinceCursor); err != nil {
		return nil, err
	}
	answer := b.waitFor(ctx, t, args)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return waitAnswer{TaskID: t.ID, waited: answer}, b.settled(t)
}

func (a *waitArgs) check() error {
	if err := checkSince(a.SinceCursor); err != nil {
		return err
	}
	if err := checkRange("timeoutSec", a.TimeoutSec, 0, maxWaitSeconds); err != nil {
		return err
	}
	if err := checkChoice("until", a.Until, untilChange, untilAttention); err != nil {
		return err
	}
	return a.checkMany()
}

// checkCursor refuses a cursor that this ledger never gave.
func (b *Bridge) checkCursor(t *mux.Task, since *int64) error {
	if since == nil {
		return t.Ledger().Refresh()
	}
	err := t.Ledger().Check(*since)
	return err
}

// watch is one task that a wait looks at.
type watch struct {
	t       *mux.Task
	since   int64 // the cursor up to which the caller knows the task
	seen    bool  // the caller gave it
	changed <-chan struct{}
	first   mux.Snapshot
	snap    mux.Snapshot
	err     error
}

// watchTask begins to watch a task. It never misses a change: the channel that announces changes is taken before the
// state is looked at.
func watchTask(ctx context.Context, t *mux.Task, since *int64) *watch {
	// Without a connection the present state is told at once: that is what the caller has to know.
	_ = t.Current(ctx)
	w := &watch{t: t, changed: t.Changed()}
	w.first, w.err = t.Snapshot()
	w.snap, w.since = w.first, w.first.Cursor
	if since != nil {
		w.since, w.seen = *since, true
	}
	return w
}

func (w *watch) look() {
	w.changed = w.t.Changed()
	w.snap, w.err = w.t.Snapshot()
}

// reason says why the caller is to be woken now; empty when there is no reason.
func (w *watch) reason(until string, now time.Time) string {
	if w.err != nil {
		return reasonAvailability
	}
	return wakes(w.first, w.snap, w.since, w.seen, until, now)
}

// waitFor waits for what args ask of one task.
func (b *Bridge) waitFor(ctx context.Context, t *mux.Task, args waitArgs) *waited {
	waiting, stop := context.WithTimeout(ctx, max(catchUp, time.Duration(args.TimeoutSec)*time.Second))
	defer stop()
	w := watchTask(waiting, t, args.SinceCursor)
	_, reason := b.await(ctx, []*watch{w}, args)
	return b.tell(ctx, t, w.snap, reason, w.err)
}

// await waits until one of the tasks wakes the caller, and returns it with the reason; nil and a time-out when none did.
func (b *Bridge) await(ctx context.Context, watched []*watch, args waitArgs) (*watch, string) {
	deadline := time.NewTimer(time.Duration(args.TimeoutSec) * time.Second)
	defer deadline.Stop()
	// What counts as about to report does so for a while only.
	again := time.NewTicker(reportGrace / 2)
	defer again.Stop()
	told := progressOf(ctx, b.now())
	pulse := &time.Ticker{} // never, for a client that does not want to know
	if told != nil {
		pulse = time.NewTicker(progressEvery)
		defer pulse.Stop()
	}
	if args.Until == untilChange {
		for _, w := range watched {
			defer w.t.Hurry()()
		}
	}
	for {
		for _, w := range watched {
			if reason := w.reason(args.Until, b.now()); reason != "" {
				return w, reason
			}
		}
		changed := anyChange(watched)
		changed = append(changed, receive(again.C), receive(pulse.C), receive(deadline.C), receive(ctx.Done()))
		switch i, _, _ := reflect.Select(changed); i {
		default:
			watched[i].look()
		case len(watched):
		case len(watched) + 1:
			told.tell(watched, time.Duration(args.TimeoutSec)*time.Second, b.now())
		case len(watched) + 2, len(watched) + 3:
			return nil, reasonTimeout
		}
	}
}

func anyChange(watched []*watch) []reflect.SelectCase {
	cases := make([]reflect.SelectCase, 0, len(watched)+4)
	for _, w := range watched {
		cases = append(cases, receive(w.changed))
	}
	return cases
}

func receive(channel any) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(channel)}
}

// wakes says why a caller that saw the task as first, and its records up to since, is to be woken now. What the caller
// has seen already does not wake it again, unless nothing more will come: a task that is done answers at once, one whose
// jobs or subagents will start another turn is waited for.
func wakes(first, snap mux.Snapshot, since int64, seen bool, until string, now time.Time) string {
	asked := slices.ContainsFunc(snap.Requests, func(r mux.Request) bool { return !seen || r.Cursor > since })
	ended := snap.Execution.Terminal() && !roundDue(snap, now) && (!seen || stoppedAt(snap) > since || !goesOn(snap, now))
	switch {
	case snap.Availability != mux.Connected || snap.Availability != first.Availability:
		return reasonAvailability
	case asked:
		return reasonAttention
	case ended:
		return reasonTerminal
	case until == untilChange && (snap.Cursor > since || snap.Execution != first.Execution):
		return reasonProgress
	}
	return ""
}

// stoppedAt is the cursor of the record with which the work of the root came to its end: that of its turn, or of the
// goal that has no more rounds.
func stoppedAt(snap mux.Snapshot) int64 {
	if snap.Goal != nil && snap.Goal.Phase != ledger.GoalActive {
		return max(snap.Turn.EndCursor, snap.Goal.Cursor)
	}
	return snap.Turn.EndCursor
}

// reportGrace is how long after the end of a job, a subagent or a round the turn that it starts is waited for. The host
// starts it within milliseconds.
const reportGrace = 2 * time.Second

// goesOn reports whether something runs that will start another turn of the root by itself, or has ended just now and
// is about to.
func goesOn(snap mux.Snapshot, now time.Time) bool {
	justEnded := func(millis int64) bool { return millis > 0 && now.Sub(time.UnixMilli(millis)).Abs() < reportGrace }
	return slices.ContainsFunc(snap.Jobs, func(j dsh.Job) bool { return j.FinishedAt == 0 || justEnded(j.FinishedAt) }) ||
		slices.ContainsFunc(snap.Subagents, func(s mux.Subagent) bool { return s.Turn.Open() || justEnded(s.Turn.EndedAt) })
}

// tell makes the answer of a wait that ends for the given reason.
func (b *Bridge) tell(ctx context.Context, t *mux.Task, snap mux.Snapshot, reason string, fault error) *waited {
	w := &waited{condition: conditionOf(snap), Reason: reason, TimedOut: reason == reasonTimeout, NextCursor: snap.Cursor, Jobs: jobsOf(snap.Jobs)}
	for _, view := range b.subagentsOf(t, snap) {
		if view.State == stateRunning {
			w.Subagents = append(w.Subagents, view)
		}
	}
	if fault == nil {
		fault = snap.Fault
	}
	if fault != nil {
		w.Fault = b.unavailable(fault)
	}
	w.Goal = b.goalKnown(snap, nil)
	if ctx.Err() != nil || (len(snap.Requests) == 0 && !snap.Execution.Terminal()) {
		return w
	}
	r := b.reader(t, snap)
	w.Pending = b.pending(ctx, r, snap)
	if !snap.Execution.Terminal() {
		return w
	}
	if snap.Availability != mux.Connected {
		w.ContentUnavailable = b.away(snap, nil)
		return w
	}
	var err error
	if w.FinalMessage, w.Failure, err = r.outcome(ctx, snap, maxFinal); err == nil && w.Goal != nil && w.Goal.Phase == ledger.GoalBlocked {
		w.Goal, err = b.goalShown(ctx, r, snap, nil)
		w.Goal.Objective = ""
	}
	if err != nil {
		w.ContentUnavailable = b.unavailable(err)
	}
	return w
}
