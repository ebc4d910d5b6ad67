package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/requests"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// Values of scope.
const (
	scopeTurn  = "turn"
	scopeQueue = "queue"
)

// cancelSettles is how long the answer waits for the turn to end. The host lets a running command finish itself for
// about three seconds before it kills it.
const cancelSettles = 5 * time.Second

type cancelArgs struct {
	TaskID           string `json:"taskId"`
	Scope            string `json:"scope"`
	SinceCursor      *int64 `json:"sinceCursor"`
	ExpectedRevision string `json:"expectedRevision"`
	RequestID        string `json:"requestId"`
}

type cancelTurnAnswer struct {
	TaskID string `json:"taskId"`
	// Repeated is set when a call with the same requestId had done this before.
	Repeated   bool             `json:"repeated,omitempty"`
	Scope      string           `json:"scope"`
	Accepted   bool             `json:"accepted"`
	WasRunning bool             `json:"wasRunning"`
	Execution  ledger.Execution `json:"execution"`
	// Queued counts the messages that stay in the queue.
	Queued int   `json:"queued,omitempty"`
	Jobs   []job `json:"jobs,omitempty"`
	Cursor int64 `json:"cursor"`
}

type cancelQueueAnswer struct {
	TaskID   string `json:"taskId"`
	Repeated bool   `json:"repeated,omitempty"`
	Scope    string `json:"scope"`
	// Requested are the ids of the messages that were in the queue; each of them is in one of the lists below.
	Requested      []string      `json:"requested"`
	Removed        []string      `json:"removed"`
	AlreadyClaimed []string      `json:"alreadyClaimed"`
	Failed         []queueFailed `json:"failed"`
	Cursor         int64         `json:"cursor"`
}

type queueFailed struct {
	ID    string `json:"id"`
	Error string `json:"error,omitempty"` // left out in the answer to a repeated call
}

// cancel stops the running turn, or empties the queue. It needs no claim: stopping is always allowed.
func (b *Bridge) cancel(ctx context.Context, raw json.RawMessage) (any, error) {
	args := cancelArgs{Scope: scopeTurn}
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := checkSince(args.SinceCursor); err != nil {
		return nil, err
	}
	if err := checkChoice("scope", args.Scope, scopeTurn, scopeQueue); err != nil {
		return nil, err
	}
	if err := checkID("requestId", args.RequestID); err != nil {
		return nil, err
	}
	_, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	call := onceCall{Call: requests.Call{Tool: "dsh_cancel", TaskID: t.ID, RequestID: args.RequestID, Arguments: args}}
	if args.Scope == scopeQueue {
		answer, repeated, err := once(ctx, b, call, cancelQueueAnswer.kept, func() (cancelQueueAnswer, error) {
			return checked(ctx, b, t, args, b.cancelQueue)
		})
		answer.Repeated = repeated
		return answer, errors.Join(err, b.settled(t))
	}
	answer, repeated, err := once(ctx, b, call, cancelTurnAnswer.kept, func() (cancelTurnAnswer, error) {
		return checked(ctx, b, t, args, b.cancelTurn)
	})
	answer.Repeated = repeated
	return answer, errors.Join(err, b.settled(t))
}

// checked looks at the task as it is now, and then does it.
func checked[A any](ctx context.Context, b *Bridge, t *mux.Task, args cancelArgs, do func(context.Context, *mux.Task, mux.Snapshot) (A, error)) (none A, err error) {
	_, snap, err := b.fresh(ctx, t)
	if err != nil {
		return none, err
	}
	if err := b.checkView(t, snap, args.SinceCursor, args.ExpectedRevision); err != nil {
		return none, err
	}
	return do(ctx, t, snap)
}

// kept leaves out the labels of jobs, which are content.
func (a cancelTurnAnswer) kept() cancelTurnAnswer { a.Jobs = nil; return a }

// kept leaves out the host's words.
func (a cancelQueueAnswer) kept() cancelQueueAnswer {
	failed := make([]queueFailed, 0, len(a.Failed))
	for _, f := range a.Failed {
		failed = append(failed, queueFailed{ID: f.ID})
	}
	a.Failed = failed
	return a
}

func (b *Bridge) cancelTurn(ctx context.Context, t *mux.Task, snap mux.Snapshot) (cancelTurnAnswer, error) {
	answer := cancelTurnAnswer{TaskID: t.ID, Scope: scopeTurn, Accepted: true, WasRunning: snap.Turn.Open()}
	if err := t.Cancel(ctx); err != nil {
		return answer, err
	}
	if answer.WasRunning {
		b.until(ctx, t, cancelSettles, func(now mux.Snapshot) bool { return !now.Turn.Open() || now.Turn.Number != snap.Turn.Number })
	}
	snap, err := t.Snapshot()
	answer.Execution, answer.Cursor, answer.Jobs = snap.Execution, snap.Cursor, jobsOf(snap.Jobs)
	if snap.Queue != nil && !snap.Queue.Stale {
		answer.Queued = len(snap.Queue.Items)
	}
	return answer, err
}

// cancelQueue removes the messages one by one, as the host has it: what was taken up meanwhile cannot be called back.
func (b *Bridge) cancelQueue(ctx context.Context, t *mux.Task, snap mux.Snapshot) (cancelQueueAnswer, error) {
	if snap.Queue == nil || snap.Queue.Stale {
		return cancelQueueAnswer{}, &Error{Code: CodeQueueUnknown, Message: "the host has not told this connection what is in the queue",
			Hint: "It tells with every change of the queue. dsh_cancel with scope turn works at any time."}
	}
	answer := cancelQueueAnswer{TaskID: t.ID, Scope: scopeQueue, Requested: []string{}, Removed: []string{}, AlreadyClaimed: []string{}, Failed: []queueFailed{}}
	for _, item := range snap.Queue.Items {
		answer.Requested = append(answer.Requested, item.ID)
		err := b.host.RemoveQueued(ctx, t.Root, item.ID)
		switch {
		case err == nil:
			answer.Removed = append(answer.Removed, item.ID)
		case dsh.IsCode(err, dsh.CodeQueueItemNotFound):
			answer.AlreadyClaimed = append(answer.AlreadyClaimed, item.ID)
		default:
			answer.Failed = append(answer.Failed, queueFailed{ID: item.ID, Error: b.unavailable(err)})
		}
	}
	if len(answer.Removed) > 0 {
		left := len(snap.Queue.Items) - len(answer.Removed)
		b.until(ctx, t, catchUp, func(now mux.Snapshot) bool { return now.Queue == nil || len(now.Queue.Items) <= left })
	}
	snap, err := t.Snapshot()
	answer.Cursor = snap.Cursor
	return answer, err
}

// until waits for a state that a write will bring about, for at most d.
func (b *Bridge) until(ctx context.Context, t *mux.Task, d time.Duration, reached func(mux.Snapshot) bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		changed := t.Changed()
		snap, err := t.Snapshot()
		if err != nil || reached(snap) || snap.Availability != mux.Connected {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
