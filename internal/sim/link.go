package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"dsh-agentlink/internal/dsh"
)

// link is the host as one process reaches it: over calls that can fail in every way in which a call can.
type link struct {
	dsh.Host // nil: what no caller of the simulation asks for

	host   *Host
	p      *process
	faults *faults
}

var _ dsh.Host = (*link)(nil)

// callTimeout is how long a client waits for an answer.
const callTimeout = 30 * time.Second

func notSent(method string) error {
	return &dsh.Error{Kind: dsh.NotSent, Method: method, Err: errors.New("connection refused")}
}

func unknown(method, what string) error {
	return &dsh.Error{Kind: dsh.OutcomeUnknown, Method: method, Message: what}
}

// call makes one unary call: do is what the host does, with its lock held.
func (l *link) call(ctx context.Context, method string, do func() error) (err error) {
	l.faults.note("%s: calls %s", l.p.name, method)
	defer func() { l.faults.note("%s: %s is over: %v", l.p.name, method, err) }()
	how := l.p.enter()
	if how == gone || ctx.Err() != nil {
		return notSent(method)
	}
	if how == diesBefore {
		return l.die("before", method)
	}
	wait, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	fault, delay := l.faults.call(l.p.dice, method)
	if fault == callNotSent {
		return notSent(method)
	}
	if !sleep(wait, delay) {
		return unknown(method, "it was given up on its way")
	}
	if fault == callFails {
		return unknown(method, "HTTP 500")
	}
	if fault == callRefused {
		return refused(method, dsh.CodeInternal)
	}
	life, err := l.do(fault, method, do)
	if err != nil {
		return err
	}
	if how != lives {
		return l.die("behind", method)
	}
	switch fault {
	case callHangs, callHangsBefore:
		<-wait.Done()
		return unknown(method, "no answer in time")
	case callLost:
		return unknown(method, "the connection broke before the answer came")
	case callGarbled:
		return &dsh.Error{Kind: dsh.Malformed, Method: method}
	}
	if !sleep(wait, l.faults.answerDelay(l.p.dice, delay)) || !l.p.alive() || !l.host.lives(life) {
		return unknown(method, "the connection broke before the answer came")
	}
	return nil
}

// do lets the host do its part; a host that is down is not reached.
func (l *link) do(fault callFault, method string, do func() error) (*life, error) {
	h := l.host
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !l.p.alive():
		return nil, notSent(method)
	case h.life == nil:
		return nil, notSent(method)
	case fault == callHangsBefore:
		return h.life, nil
	}
	return h.life, do()
}

func (h *Host) lives(l *life) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life == l
}

// die kills the process in the middle of a call.
func (l *link) die(when, method string) error {
	l.faults.count("kill: " + when + " " + method)
	l.p.kill()
	return notSent(method)
}

// Describe implements [dsh.Host].
func (l *link) Describe(ctx context.Context) (dsh.Description, error) {
	return dsh.Description{Cwd: cwd, Home: cwd}, l.call(ctx, "host.describe", func() error { return nil })
}

// Presets implements [dsh.Host].
func (l *link) Presets(ctx context.Context) ([]dsh.Preset, error) {
	return []dsh.Preset{{ID: "standard", IsDefault: true}}, l.call(ctx, "agentPreset.list", func() error { return nil })
}

// Sessions implements [dsh.Host].
func (l *link) Sessions(ctx context.Context) (rows []dsh.Session, err error) {
	err = l.call(ctx, "session.list", func() error { rows = l.host.list(); return nil })
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Create implements [dsh.Host].
func (l *link) Create(ctx context.Context, req dsh.CreateRequest) (dsh.Created, error) {
	return dsh.Created{SessionID: req.SessionID}, l.call(ctx, "session.create", func() error { l.host.create(req.SessionID); return nil })
}

// Models implements [dsh.Host].
func (l *link) Models(ctx context.Context, sessionID string) (dsh.Models, error) {
	return dsh.Models{Model: "model", Routable: true}, l.call(ctx, "session.models", func() error { return l.host.models(sessionID) })
}

// Rename implements [dsh.Host].
func (l *link) Rename(ctx context.Context, sessionID, _ string) error {
	return l.call(ctx, "session.rename", func() error { return l.host.rename(sessionID) })
}

// Prompt implements [dsh.Host].
func (l *link) Prompt(ctx context.Context, req dsh.PromptRequest) error {
	return l.call(ctx, "session.prompt", func() error { return l.host.prompt(req) })
}

// Cancel implements [dsh.Host].
func (l *link) Cancel(ctx context.Context, sessionID string) error {
	return l.call(ctx, "session.cancel", func() error { return l.host.cancel(sessionID) })
}

// RemoveQueued implements [dsh.Host].
func (l *link) RemoveQueued(ctx context.Context, sessionID, itemID string) error {
	return l.call(ctx, "session.updateQueue", func() error { return l.host.remove(sessionID, itemID) })
}

// History implements [dsh.Host].
func (l *link) History(ctx context.Context, req dsh.HistoryRequest) (page dsh.HistoryPage, err error) {
	err = l.call(ctx, "session.history", func() (err error) { page, err = l.host.history(req); return err })
	if err != nil {
		return dsh.HistoryPage{}, err
	}
	return page, nil
}

// Subagents implements [dsh.Host].
func (l *link) Subagents(ctx context.Context, parent string) (children []dsh.Subagent, err error) {
	err = l.call(ctx, "subagent.list", func() error { children = l.host.subagents(parent); return nil })
	if err != nil {
		return nil, err
	}
	return children, nil
}

// Respond implements [dsh.Host].
func (l *link) Respond(ctx context.Context, answer dsh.Answer) (receipt dsh.Receipt, err error) {
	err = l.call(ctx, "respond", func() error { receipt = l.host.respond(answer); return nil })
	if err != nil {
		return dsh.Receipt{}, err
	}
	return receipt, nil
}

// Subscribe implements [dsh.Host].
func (l *link) Subscribe(ctx context.Context) (dsh.Stream, error) {
	s := newStream(l.p, l.faults.journal)
	hold := l.faults.burstDelay(l.p.dice)
	err := l.call(ctx, dsh.MethodEvents, func() error {
		s.hold(hold)
		l.host.open(s)
		return nil
	})
	if err != nil {
		s.cut(true)
		return nil, err
	}
	return s, nil
}

// streamsOf are the open streams of a process; of all when p is nil.
func (h *Host) streamsOf(p *process) []*stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(h.life.streams), func(s *stream) bool { return s.dead() || (p != nil && s.p != p) })
}
