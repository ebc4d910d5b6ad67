package mux

import (
	"time"

	"dsh-agentlink/internal/dsh"
)

// DefaultLinger is the Options.Linger of a bridge: some ten steps of a busy turn, and short against the time in which a
// supervisor looks at a task.
const DefaultLinger = 100 * time.Millisecond

// maxLingering is how many events may wait for others to come: what is more makes a batch of its own.
const maxLingering = 256

// mayLinger reports whether an event that was just put into the inbox can wait for others to come, so that the steps of a
// turn share a lock, a write and a waking of the worker. It can when nobody is to be told of it, and it neither begins
// nor ends anything that a caller waits for. t.mu is held.
func (t *Task) mayLinger(frame dsh.Frame) bool {
	return t.m.opts.Linger > 0 && t.hurried == 0 && len(t.inbox) < maxLingering && passing(frame.EventType)
}

// passing reports whether an event of that type is one of those of which a turn has many and that decide nothing.
func passing(event string) bool {
	switch event {
	case "step/start", "request/header", "assistant/message", "tool/call", "tool/result", "step/end":
		return true
	}
	return false
}

// linger has the worker begin in a while, if nothing makes it begin before. t.mu is held.
func (t *Task) linger() {
	switch {
	case t.lingers:
	case t.later == nil:
		t.later = time.AfterFunc(t.m.opts.Linger, t.lingered)
	default:
		t.later.Reset(t.m.opts.Linger)
	}
	t.lingers = true
}

// lingered is the end of that while. That the worker may have taken the inbox meanwhile, and what is in it came later,
// only makes it early.
func (t *Task) lingered() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lingers = false
	t.start()
}

// Hurry has every event recorded as soon as it comes, until done is called, for whoever waits for any change. Others see
// those that decide nothing up to Options.Linger later, unless they ask with [Task.Current] or [Task.Fresh].
func (t *Task) Hurry() (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hurried++
	if t.lingers {
		t.start()
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.hurried--
	}
}
