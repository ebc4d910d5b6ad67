package sim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"dsh-agentlink/internal/dsh"
)

// stream is one events.mux connection. The host puts frames into it without ever waiting.
type stream struct {
	*journal
	p *process // whose it is

	mu     sync.Mutex
	frames []dsh.Frame
	held   time.Time // nothing is delivered before
	mute   bool      // nothing is delivered and no end is noticed: the connection is half-open
	broken bool
	wake   chan struct{} // holds one token when there is something new
	lost   map[dsh.FrameKind]int
}

var _ dsh.Stream = (*stream)(nil)

func newStream(p *process, j *journal) *stream {
	return &stream{journal: j, p: p, wake: make(chan struct{}, 1), lost: map[dsh.FrameKind]int{}}
}

func (s *stream) push(f dsh.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.broken {
		s.frames = append(s.frames, f)
		s.signal()
	}
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// cut breaks the connection; what is on its way may still arrive.
func (s *stream) cut(abrupt bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.broken {
		s.note("%s: its stream breaks", s.p.name)
	}
	s.broken = true
	if abrupt {
		s.frames = nil
	}
	s.signal()
}

// hold delays what is on its way, and what comes.
func (s *stream) hold(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = time.Now().Add(d)
	s.signal()
}

// sever is the end that the client of a half-open connection makes of it, when no ping is answered.
func (s *stream) sever() {
	s.mu.Lock()
	s.mute = false
	s.mu.Unlock()
	s.cut(true)
}

// silence makes the connection half-open.
func (s *stream) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = true
}

// lose notes a frame that the stream will not bring.
func (s *stream) lose(kind dsh.FrameKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[kind]++
}

// complete reports whether the stream has brought everything of these kinds.
func (s *stream) complete(kinds ...dsh.FrameKind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(kinds, func(k dsh.FrameKind) bool { return s.lost[k] > 0 })
}

// errBroken is the end of a stream.
var errBroken error = &dsh.Error{Kind: dsh.OutcomeUnknown, Method: dsh.MethodEvents, Err: errors.New("the connection broke")}

// Next implements [dsh.Stream].
func (s *stream) Next(ctx context.Context) (dsh.Frame, error) {
	for {
		s.mu.Lock()
		rest := time.Until(s.held)
		switch {
		case ctx.Err() != nil, !s.p.alive(), s.broken && len(s.frames) == 0 && !s.mute:
			s.mu.Unlock()
			return dsh.Frame{}, errBroken
		case rest > 0, s.mute:
		case len(s.frames) > 0:
			f := s.frames[0]
			s.frames = s.frames[1:]
			s.note("%s: gets %s of %s %d %s %s", s.p.name, f.Kind, f.SessionID, f.Seq, f.EventType, f.RPCID)
			s.mu.Unlock()
			return f, nil
		}
		s.mu.Unlock()
		timer := time.NewTimer(max(rest, 0))
		if rest <= 0 {
			timer.Stop()
		}
		select {
		case <-s.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Close implements [dsh.Stream].
func (s *stream) Close() error {
	s.cut(true)
	return nil
}

// send streams a frame to everybody.
func (h *Host) send(f dsh.Frame) {
	if h.life == nil {
		return
	}
	for _, s := range h.life.streams {
		h.sendTo(s, f)
	}
}

func (h *Host) sendTo(s *stream, f dsh.Frame) {
	if h.deaf(s, f) {
		s.lose(f.Kind)
		return
	}
	s.push(f)
}

// open adds a stream and puts the opening burst into it. The host's lock is held, so that nothing is missed in between.
func (h *Host) open(s *stream) {
	l := h.life
	l.streams = append(slices.DeleteFunc(l.streams, (*stream).dead), s)
	for _, a := range l.attached {
		h.sendTo(s, subscribed(a))
	}
	for _, approvals := range []bool{false, true} {
		for _, r := range l.pending {
			if (r.approval != "") == approvals {
				h.sendTo(s, r.frame)
			}
		}
	}
	for _, a := range l.attached {
		if !a.inbox.empty() {
			h.sendTo(s, h.queueFrame(a))
		}
	}
	for _, a := range l.attached {
		if len(a.jobs) > 0 {
			h.sendTo(s, h.jobsFrame(a))
		}
	}
}

func (s *stream) dead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}
