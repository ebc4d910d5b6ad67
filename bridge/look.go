package bridge

import (
	"context"
	"encoding/json"
	"fmt"

	"dsh-agentlink/ledger"
)

// Tells reports whether a record says something to a person, as those do that dsh_tail shows.
func Tells(r ledger.Record) bool { return worthShowing(&r) }

// Look answers a tool that only reads, without a server around it: the same answer as a caller gets. A failure is an
// *[Error]. It is for what a person runs.
func (b *Bridge) Look(ctx context.Context, name string, args any) (json.RawMessage, error) {
	for _, t := range b.tools() {
		if t.definition.Name != name {
			continue
		}
		if only := t.definition.Annotations.ReadOnlyHint; only == nil || !*only {
			break
		}
		raw, err := json.Marshal(args)
		if err != nil {
			return nil, fmt.Errorf("encode the arguments of %s: %w", name, err)
		}
		answer, err := t.handle(ctx, raw)
		if err != nil {
			return nil, asError(err, b.hostURL)
		}
		text, err := encode(answer)
		if err != nil {
			return nil, asError(err, b.hostURL)
		}
		return json.RawMessage(text), nil
	}
	return nil, &Error{Code: CodeInvalidArgument, Message: fmt.Sprintf("%q is no tool that only reads", name)}
}

// Changed returns a channel that is closed at the next change of a task. It has to be fetched before the look that the
// change is to outdate.
func (b *Bridge) Changed(taskID string) (<-chan struct{}, error) {
	_, t, err := b.open(taskID)
	if err != nil {
		return nil, asError(err, b.hostURL)
	}
	return t.Changed(), nil
}

// TailStart is the cursor behind which the last n events lie that dsh_tail would show, as far as the task can be brought
// up to date now.
func (b *Bridge) TailStart(ctx context.Context, taskID string, n int) (int64, error) {
	_, t, err := b.open(taskID)
	if err != nil {
		return 0, asError(err, b.hostURL)
	}
	_ = t.Current(ctx) // without a host the start is that of what is known
	start := t.Ledger().Earliest() - 1
	var last []int64 // cursors of the last n events
	err = t.Ledger().Each(start, func(r *ledger.Record, _ int64) bool {
		if worthShowing(r) {
			if last = append(last, r.Cursor); len(last) > n {
				start, last = last[0], last[1:]
			}
		}
		return true
	})
	if err != nil {
		return 0, asError(err, b.hostURL)
	}
	return start, nil
}
