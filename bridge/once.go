package bridge

import (
	"context"
	"encoding/json"
	"errors"

	"dsh-agentlink/internal/requests"
)

// onceCall is a call that its caller may repeat.
type onceCall struct {
	requests.Call
	// again is set where the call may simply be made again when it is not known what became of the first: it leads to
	// the same in the end.
	again bool
}

// once makes a call that its caller may repeat, at most once: a repetition gets the first outcome. Without a requestId
// it is made as it is. kept takes out of an answer what must not reach the disk.
func once[A any](ctx context.Context, b *Bridge, c onceCall, kept func(A) A, do func() (A, error)) (answer A, repeated bool, err error) {
	if c.RequestID == "" {
		answer, err = do()
		return answer, false, err
	}
	unlock, err := b.requests.lock(ctx, c.TaskID+" "+c.RequestID)
	if err != nil {
		return answer, false, err
	}
	defer unlock()
	running, known, err := b.outcomes.Begin(ctx, c.Call)
	if errors.Is(err, requests.ErrConflict) {
		return answer, false, &Error{Code: CodeRequestIDConflict, Message: "requestId: " + err.Error() + " or with other arguments", Hint: "Use a new requestId for a new call."}
	}
	if err != nil {
		return answer, false, err
	}
	defer func() {
		if closing := running.Close(); err == nil {
			err = closing
		}
	}()
	entry := running.Entry()
	switch {
	case known && entry.Done:
		return answer, true, json.Unmarshal(entry.Outcome, &answer)
	case known && !c.again:
		return answer, false, (&Error{Code: CodeHostUnreachable, Message: "a call with this requestId was made before, and what became of it is not known; it was not made again",
			Hint: "Look with dsh_status. To do it all the same, use a new requestId."}).with("outcome", "unknown")
	}
	answer, err = do()
	if err == nil {
		return answer, false, running.Done(kept(answer))
	}
	if asError(err, b.hostURL).Details["outcome"] != "unknown" {
		err = errors.Join(err, running.Forget())
	}
	return answer, false, err
}
