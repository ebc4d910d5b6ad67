package watch

import (
	"context"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/operator"
)

// pace is how often the watch looks.
type pace struct {
	poll time.Duration // between two cheap checks for a change, and between two attempts to open the host's stream
	rest time.Duration // after a look, at least
	idle time.Duration // the longest time without a look
}

// The rest is shorter than a person notices; the check is what a person waits for without wondering. The longest time
// is for what no check and no stream has told of.
var usualPace = pace{poll: 2 * time.Second, rest: 300 * time.Millisecond, idle: 30 * time.Second}

const (
	// restFactor is how many times as long as a look took of a processor the rest after it lasts.
	restFactor = 9
	// lookTimeout bounds a look whose host takes calls and does not answer them.
	lookTimeout = time.Minute
)

// listMsg is what a look brought.
type listMsg struct {
	answer operator.TasksAnswer
	err    error
	at     time.Time
}

// beatMsg says what time it is, when there is no other news.
type beatMsg struct{ at time.Time }

// looks keeps the list of tasks current.
type looks struct {
	opts  Options
	pace  pace
	told  chan struct{} // the host's stream tells of a change
	asked chan struct{} // somebody wants to see now
}

func newLooks(opts Options, pace pace) *looks {
	return &looks{opts: opts, pace: pace, told: make(chan struct{}, 1), asked: make(chan struct{}, 1)}
}

// wake leaves a note on one of the channels. A note that lies there already is as good.
func (l *looks) wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run looks, at once and whenever something has changed, until ctx ends.
func (l *looks) run(ctx context.Context, send func(tea.Msg)) {
	for ctx.Err() == nil {
		before := processorTime()
		seen := l.traces(ctx)
		msg := l.look(ctx)
		if ctx.Err() != nil {
			return
		}
		send(msg)
		cost, ended := processorTime()-before, time.Now()
		if l.rest(ctx, max(l.pace.rest, restFactor*cost), send) {
			l.wait(ctx, seen, ended, send)
		}
	}
}

// processorTime is what this process has used of the processors. Most of a look is waiting for the host, which costs
// nobody anything.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func (l *looks) look(ctx context.Context) listMsg {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	answer, err := l.opts.Operator.Tasks(ctx, 0)
	return listMsg{answer, err, l.opts.Now()}
}

// rest reports false when somebody wants to see now.
func (l *looks) rest(ctx context.Context, d time.Duration, send func(tea.Msg)) bool {
	over := time.After(d)
	tick := time.NewTicker(l.pace.poll)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return true
		case <-l.asked:
			return false
		case <-ctx.Done():
			return false
		case <-tick.C:
			send(beatMsg{l.opts.Now()})
		}
	}
}

// wait returns when it is time for a look: something has changed against what was seen.
func (l *looks) wait(ctx context.Context, seen traces, since time.Time, send func(tea.Msg)) {
	tick := time.NewTicker(l.pace.poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.asked:
			return
		case <-l.told:
			return
		case <-tick.C:
			if time.Since(since) >= l.pace.idle || l.traces(ctx) != seen {
				return
			}
			send(beatMsg{l.opts.Now()})
		}
	}
}

// listen takes news from the host's event stream, through losses of the host, until ctx ends.
func (l *looks) listen(ctx context.Context) {
	for {
		if stream, err := l.opts.Host.Subscribe(ctx); err == nil {
			l.hear(ctx, stream)
			stream.Close() // it has failed, or ctx has ended
		}
		select {
		case <-time.After(l.pace.poll):
		case <-ctx.Done():
			return
		}
	}
}

// hear reads a stream to its end.
func (l *looks) hear(ctx context.Context, stream dsh.Stream) {
	for {
		frame, err := stream.Next(ctx)
		if err != nil {
			l.wake(l.told)
			return
		}
		if news(frame) {
			l.wake(l.told)
		}
	}
}

// news reports whether a frame may change the list. What streams in within a message does not, nor does the title's
// projection and its like.
func news(f dsh.Frame) bool {
	switch f.Kind {
	case dsh.FrameEvent:
		return f.EventType != dsh.EventChunk
	case dsh.FrameApprovalRequested, dsh.FrameApprovalResolved, dsh.FrameQuestionRequested, dsh.FrameQuestionResolved:
		return true
	}
	return false
}
