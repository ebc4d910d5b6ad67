package bridge

import (
	"context"
	"fmt"
	"time"

	"dsh-agentlink/mux"
)

// maxWaitTasks bounds one wait; a supervisor of more waits in parts.
const maxWaitTasks = 50

// waitManyAnswer is what a wait for several tasks tells: everything of the one that woke the caller, and a line of each
// of the others.
type waitManyAnswer struct {
	TaskID string `json:"taskId,omitempty"` // left out, with all that is told of it, when none did
	*waited
	TimedOut bool       `json:"timedOut"`
	Reason   string     `json:"reason"`
	Others   []waitLine `json:"others,omitempty"`
}

// waitLine is how another task stands.
type waitLine struct {
	TaskID string `json:"taskId"`
	Status string `json:"status"`
	// Reason is why this one would have woken the caller, too.
	Reason     string `json:"reason,omitempty"`
	NextCursor int64  `json:"nextCursor"`
	Pending    int    `json:"pending,omitempty"`
	Fault      string `json:"fault,omitempty"`
}

// checkMany checks the arguments that name several tasks.
func (a *waitArgs) checkMany() error {
	if a.TaskIDs == nil {
		if len(a.SinceCursors) > 0 {
			return invalid("sinceCursors", a.SinceCursors, "it goes with taskIds", "Give one task's cursor as sinceCursor.")
		}
		return nil
	}
	switch {
	case a.TaskID != "":
		return invalid("taskIds", a.TaskIDs, "taskId is given, too", "Give one of the two.")
	case a.SinceCursor != nil:
		return invalid("sinceCursor", *a.SinceCursor, "it goes with taskId", "Give a cursor for each task in sinceCursors.")
	case len(a.TaskIDs) == 0 || len(a.TaskIDs) > maxWaitTasks:
		return &Error{Code: CodeInvalidArgument, Message: fmt.Sprintf("taskIds: %d tasks, it has to be 1 to %d", len(a.TaskIDs), maxWaitTasks)}
	}
	given := map[string]bool{}
	for _, id := range a.TaskIDs {
		if err := checkTaskID(id); err != nil {
			return err
		}
		if given[id] {
			return invalid("taskIds", id, "it is given twice", "")
		}
		given[id] = true
	}
	for id, since := range a.SinceCursors {
		if !given[id] {
			return invalid("sinceCursors", id, "it is none of taskIds", "")
		}
		if err := checkSince(&since); err != nil {
			return err
		}
	}
	return nil
}

// waitMany returns as soon as there is something to tell of one of the tasks.
func (b *Bridge) waitMany(ctx context.Context, args waitArgs) (any, error) {
	waiting, stop := context.WithTimeout(ctx, max(catchUp, time.Duration(args.TimeoutSec)*time.Second))
	defer stop()
	watched := make([]*watch, 0, len(args.TaskIDs))
	for _, id := range args.TaskIDs {
		_, t, err := b.open(id)
		if err != nil {
			return nil, err
		}
		var since *int64
		if cursor, given := args.SinceCursors[id]; given {
			since = &cursor
		}
		if err := b.checkCursor(t, since); err != nil {
			return nil, about(id, err, b.hostURL)
		}
		watched = append(watched, watchTask(waiting, t, since))
	}
	woken, reason := b.await(ctx, watched, args)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	answer := waitManyAnswer{Reason: reason, TimedOut: reason == reasonTimeout}
	if woken != nil {
		answer.TaskID, answer.waited = woken.t.ID, b.tell(ctx, woken.t, woken.snap, reason, woken.err)
	}
	for _, w := range watched {
		if w == woken {
			continue
		}
		w.look() // the others may have moved since
		answer.Others = append(answer.Others, b.lineOf(w, args.Until))
	}
	for _, w := range watched {
		if err := b.settled(w.t); err != nil {
			return nil, about(w.t.ID, err, b.hostURL)
		}
	}
	return answer, nil
}

func (b *Bridge) lineOf(w *watch, until string) waitLine {
	line := waitLine{TaskID: w.t.ID, Status: conditionOf(w.snap).Status, Reason: w.reason(until, b.now()), NextCursor: w.snap.Cursor, Pending: len(w.snap.Requests)}
	if w.err != nil || w.snap.Availability != mux.Connected {
		line.Status = statusUnknown
	}
	if w.err != nil {
		line.Fault = b.unavailable(w.err)
	}
	return line
}

// about names the task that a failure of several is about.
func about(id string, err error, hostURL string) error {
	return asError(err, hostURL).with("taskId", id)
}
