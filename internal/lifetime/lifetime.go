// Package lifetime says when a STDIO server has to end, and sees to it that it does.
//
// Such a server belongs to the program that started it. It ends when it is told to and when that program is gone; the
// end of stdin is the third reason and the business of whoever reads it.
package lifetime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// ErrParentGone is the cause of a context that ended because the process that started this one is gone.
var ErrParentGone = errors.New("the process that started this one is gone")

// SignalError is the cause of a context that ended because of a signal.
type SignalError struct {
	Signal os.Signal
}

func (e *SignalError) Error() string { return fmt.Sprintf("received signal %q", e.Signal) }

// Context returns a child of ctx that is also done at SIGTERM, SIGINT or SIGHUP and when the process that started this
// one is gone; [context.Cause] tells which, by a *[SignalError] or [ErrParentGone]. Until stop is called further
// signals of these kinds do nothing, so that an impatient sender does not cut the shutdown off; [Guard] bounds it.
// Until then also a write to a pipe without a reader fails as such instead of ending the process.
func Context(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// Without this, what is said to a stdout or stderr that nobody reads any more would kill the process in the midst
	// of what it does. Nobody reads the channel either; the failed write is the message.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)

	gone, forget := parentGone()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer forget()
		select {
		case s := <-signals:
			cancel(&SignalError{Signal: s})
		case <-gone:
			cancel(ErrParentGone)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-watched
		signal.Stop(signals)
		signal.Stop(pipes)
	}
}

// Guard calls exit(0) when d has passed since ctx was done, unless disarm was called before: a shutdown that hangs
// ends all the same, and as one that was asked for. exit is [os.Exit]. After disarm has returned, exit is not called.
func Guard(ctx context.Context, d time.Duration, exit func(code int)) (disarm func()) {
	disarmed := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ctx.Done():
		case <-disarmed:
			return
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			exit(0)
		case <-disarmed:
		}
	}()
	return sync.OnceFunc(func() {
		close(disarmed)
		<-watched
	})
}
