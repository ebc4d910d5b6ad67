package mux

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"dsh-agentlink/internal/dsh"
)

// Bounds of the pause between two attempts to connect. A host that is being restarted is back within seconds; one
// that is switched off overnight must not cost a wake-up every second.
const (
	minPause = 200 * time.Millisecond
	maxPause = 15 * time.Second
)

func newBackoff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = minPause, maxPause
	return b
}

// run connects, reads until the connection breaks, and connects again.
func (m *Mux) run() {
	pause := newBackoff()
	for m.ctx.Err() == nil {
		connected, err := m.connectOnce()
		if m.ctx.Err() != nil {
			return
		}
		if errors.Is(err, errLostFrame) {
			continue
		}
		if connected {
			pause.Reset()
			m.log.Info("connection to the host lost", "err", logged(err))
		} else {
			m.log.Debug("no connection to the host", "err", logged(err))
		}
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-timer.C:
		case <-m.kick:
		case <-m.ctx.Done():
		}
		timer.Stop()
	}
}

// connectOnce opens the stream and serves it to its end. connected reports whether there was a usable connection.
func (m *Mux) connectOnce() (connected bool, err error) {
	ctx, cancel := context.WithCancelCause(m.ctx)
	defer cancel(nil)
	m.setConn(func(c *connection) { c.begun++ })
	stream, err := m.opts.Host.Subscribe(ctx)
	if err != nil {
		for _, t := range m.setConn(func(c *connection) { c.err, c.ended, c.renews = err, c.begun, false }) {
			t.announce()
		}
		return false, err
	}
	var epoch int
	tasks := m.setConn(func(c *connection) {
		c.epoch++
		c.open, c.listed, c.ready, c.settled, c.since, c.cancel = true, false, false, false, time.Now(), cancel
		c.ctx = ctx
		epoch = c.epoch
		m.lineage.reset()
	})
	for _, t := range tasks {
		t.connected(epoch)
	}
	burst := newBurst()
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		m.sweep(ctx, epoch, burst, cancel)
	}()
	err = m.read(ctx, stream, burst)
	cancel(err)
	_ = stream.Close()
	<-swept
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	wasReady := false
	tasks = m.setConn(func(c *connection) {
		wasReady = c.listed
		c.open, c.listed, c.ready, c.cancel = false, false, false, nil
		c.err, c.ended, c.renews = err, c.begun, errors.Is(err, errLostFrame)
	})
	for _, t := range tasks {
		t.disconnected()
	}
	return wasReady, err
}

// drop gives up a connection whose host cannot be reached by other means any more, without waiting for the stream to
// notice.
func (m *Mux) drop(epoch int, err error) {
	for _, t := range m.setConn(func(c *connection) {
		if c.epoch == epoch && c.open {
			c.ready = false
			c.cancel(err)
		}
	}) {
		t.announce()
	}
}

// errLostFrame ends a connection on which a frame of a task's session is missing. The history has the event, if it was
// one; but requests, queues and jobs are told nowhere else than at the opening of a stream.
var errLostFrame = errors.New("a frame got lost")

// renewPause is how often at most a connection is replaced for a lost frame; a host that loses more is followed by its
// histories alone.
const renewPause = 5 * time.Second

// read hands the frames of the stream to the tasks. It waits for the stream and for nothing else.
func (m *Mux) read(ctx context.Context, stream dsh.Stream, burst *burst) error {
	for {
		frame, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		switch frame.Kind {
		case dsh.FrameProjection:
			continue
		case dsh.FrameSubscribed, dsh.FrameQuestionRequested, dsh.FrameApprovalRequested:
			burst.seen()
		case dsh.FrameStreamError:
			if code, _, err := frame.StreamError(); err == nil {
				m.log.Warn("the host reports an error on its event stream", "code", id(code))
			}
			continue
		}
		if frame.SessionID != "" && m.route(frame) && time.Since(m.renewed) > renewPause {
			m.renewed = time.Now()
			m.log.Info("a frame of the event stream got lost, the stream is opened anew", "session", frame.SessionID)
			return errLostFrame
		}
	}
}

// sweep lists the sessions on a new connection, wakes the tasks that have something to catch up with, and settles
// the opening burst.
func (m *Mux) sweep(ctx context.Context, epoch int, burst *burst, cancel context.CancelCauseFunc) {
	sessions, err := m.opts.Host.Sessions(ctx)
	if err != nil {
		cancel(err)
		return
	}
	burst.seen() // however long the list took, the burst has its time from here
	// What came up before the list is handed to its task first, so that nothing counts as missing from the burst
	// only because it was not sorted yet.
	m.resolve(epoch, sessions)
	tasks := m.setConn(func(c *connection) { c.listed = true })
	for _, t := range tasks {
		t.listed(epoch)
	}
	// Only now, so that whoever waits for the connection finds his task at work.
	for _, t := range m.setConn(func(c *connection) { c.ready, c.renews, c.err = true, false, nil }) {
		t.announce()
	}
	m.signalClassify()
	if !burst.quiet(ctx, m.opts.Quiet) {
		return
	}
	for _, t := range m.setConn(func(c *connection) { c.settled = true }) {
		t.settleBurst(epoch)
	}
}
