package mux

import (
	"context"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// lineage knows which session belongs to which task: the roots that are tracked and, below them, the subagents. Forks
// that a person made of a session have a parent too, but are conversations of their own and stay out.
type lineage struct {
	owner   map[string]*Task        // session id -> task; nil for a session that is known to be none of ours
	rows    map[string]*dsh.Session // of the last list, by id
	unknown map[string]*stranger    // sessions that came up on the stream and are in no list yet
	foreign foreign                 // what waits for an answer in the sessions of others
	signal  chan struct{}
}

// stranger is what must not be lost of a session before it is known whose it is. Its events are in the history; its
// requests are nowhere else.
type stranger struct {
	frames []dsh.Frame
	moved  bool // events of it came
	tries  int  // how often it has been looked for
}

const (
	// maxStrangerFrames bounds what is kept of one unknown session: requests, and its last queue and jobs.
	maxStrangerFrames = 64
	// maxStrangerTries is how often a session that is in no list is looked for before it counts as foreign.
	maxStrangerTries = 5
	// classifyPause bounds the rate of session.list calls on account of unknown sessions.
	classifyPause = 100 * time.Millisecond
)

func newLineage() lineage {
	return lineage{
		owner:   map[string]*Task{},
		rows:    map[string]*dsh.Session{},
		unknown: map[string]*stranger{},
		foreign: newForeign(),
		signal:  make(chan struct{}, 1),
	}
}

// adopt makes a task's root known, and hands it what the stream brought of its sessions before. m.mu is held.
func (l *lineage) adopt(t *Task, epoch int) {
	l.owner[t.Root] = t
	l.deliver(t.Root, t, epoch)
	for id, row := range l.rows {
		if l.owner[id] == nil && row.Origin == dsh.OriginSubagent && l.find(row) == t {
			l.claim(row, t)
			l.deliver(id, t, epoch)
		}
	}
}

// claim makes a session one of a task's. m.mu is held.
func (l *lineage) claim(row *dsh.Session, t *Task) {
	l.owner[row.ID] = t
	t.addSession(source{id: row.ID, parent: row.ParentSessionID, origin: ledger.OriginSubagent})
}

// deliver hands a task what was held back of one of its sessions, in the order in which it came. m.mu is held, so that
// nothing newer overtakes it.
func (l *lineage) deliver(id string, t *Task, epoch int) {
	frames, moved := l.foreign.release(id), false
	if s := l.unknown[id]; s != nil {
		frames, moved = append(frames, s.frames...), s.moved
		delete(l.unknown, id)
	}
	for _, frame := range frames {
		t.push(epoch, frame)
	}
	if moved {
		t.nudge()
	}
}

// reset forgets what the last connection knew of foreign and unknown sessions.
func (l *lineage) reset() {
	for session, t := range l.owner {
		if t == nil {
			delete(l.owner, session)
		}
	}
	clear(l.rows)
	clear(l.unknown)
	l.foreign = newForeign()
}

// update takes a fresh list of the host's sessions in, which it keeps, and tells the tasks of their subagents. m.mu is held.
func (l *lineage) update(sessions []dsh.Session) {
	if len(l.rows) == 0 {
		l.rows = make(map[string]*dsh.Session, len(sessions))
	}
	clear(l.rows)
	for i := range sessions {
		l.rows[sessions[i].ID] = &sessions[i]
	}
	for i := range sessions {
		s := &sessions[i]
		if t := l.owner[s.ID]; t != nil && t.Root == s.ID {
			continue
		}
		t := l.find(s)
		if t == nil || !ledger.IsWord(s.ID) || !ledger.IsWord(s.ParentSessionID) {
			l.owner[s.ID] = nil // or under an id that no record can name
			continue
		}
		l.claim(s, t)
	}
}

// find climbs from a session to the task at the top of it, or nil.
func (l *lineage) find(s *dsh.Session) *Task {
	for range len(l.rows) + 1 { // a circle of parents would have no end
		if t := l.owner[s.ID]; t != nil {
			return t
		}
		if s.Origin != dsh.OriginSubagent || s.ParentSessionID == "" {
			return nil
		}
		parent, listed := l.rows[s.ParentSessionID]
		if !listed {
			return l.owner[s.ParentSessionID]
		}
		s = parent
	}
	return nil
}

// route hands a frame to the task it belongs to, and reports whether one before it got lost.
func (m *Mux) route(frame dsh.Frame) (lost bool) {
	m.mu.Lock()
	t, known := m.lineage.owner[frame.SessionID]
	switch {
	case !known:
		m.keepStranger(frame)
	case t == nil:
		m.lineage.foreign.keep(frame)
	}
	epoch := m.conn.epoch
	m.mu.Unlock()
	return t != nil && t.push(epoch, frame)
}

// keepStranger holds back what a session of unknown belonging sends, and asks for a look at the list.
func (m *Mux) keepStranger(frame dsh.Frame) {
	s := m.lineage.unknown[frame.SessionID]
	if s == nil {
		s = &stranger{}
		m.lineage.unknown[frame.SessionID] = s
		m.signalClassify()
	}
	switch frame.Kind {
	case dsh.FrameEvent:
		s.moved = true
		return
	case dsh.FrameSubscribed:
		return
	case dsh.FrameQueue, dsh.FrameJobs:
		for i := range s.frames {
			if s.frames[i].Kind == frame.Kind {
				s.frames[i] = frame
				return
			}
		}
	}
	if len(s.frames) < maxStrangerFrames {
		s.frames = append(s.frames, frame)
	}
}

func (m *Mux) signalClassify() {
	select {
	case m.lineage.signal <- struct{}{}:
	default:
	}
}

// classify looks up the sessions that came up on the stream and belong to nobody yet.
func (m *Mux) classify() {
	for {
		select {
		case <-m.lineage.signal:
		case <-m.ctx.Done():
			return
		}
		m.mu.Lock()
		due := m.conn.ready && len(m.lineage.unknown) > 0
		epoch := m.conn.epoch
		if due {
			for _, s := range m.lineage.unknown {
				s.tries++
			}
		}
		m.mu.Unlock()
		if !due {
			continue // the sweep of the next connection signals again
		}
		sessions, err := m.opts.Host.Sessions(m.ctx)
		if err != nil {
			m.log.Debug("look for unknown sessions", "err", logged(err))
		}
		if err != nil || !m.resolve(epoch, sessions) {
			m.signalClassify()
		}
		select {
		case <-time.After(classifyPause):
		case <-m.ctx.Done():
			return
		}
	}
}

// resolve takes a fresh list in, sorts the unknown sessions by it and hands over what was held back. It reports whether
// none is left unknown.
func (m *Mux) resolve(epoch int, sessions []dsh.Session) (done bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn.epoch != epoch {
		return true
	}
	l := &m.lineage
	l.update(sessions)
	for id, s := range l.unknown {
		t, known := l.owner[id]
		switch {
		case t != nil:
			l.deliver(id, t, epoch)
		case known || s.tries >= maxStrangerTries:
			l.owner[id] = nil
			for _, frame := range s.frames {
				l.foreign.keep(frame)
			}
			delete(l.unknown, id)
		}
	}
	return len(l.unknown) == 0
}

// heldRequests returns the ids of the requests that came on this connection and are with no task.
func (m *Mux) heldRequests() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := map[string]bool{}
	for _, s := range m.lineage.unknown {
		for _, frame := range s.frames {
			held[frame.RPCID] = true
		}
	}
	return held
}

// List reads the host's sessions anew and takes them in. The caller must not change them.
func (m *Mux) List(ctx context.Context) ([]dsh.Session, error) {
	epoch, _ := m.up()
	sessions, err := m.opts.Host.Sessions(ctx)
	if err != nil {
		if dsh.KindOf(err) == dsh.NotSent && ctx.Err() == nil {
			m.drop(epoch, err)
		}
		return nil, err
	}
	m.resolve(epoch, sessions)
	return sessions, nil
}

// row is what the last list said of a session.
func (m *Mux) row(sessionID string) (dsh.Session, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if row, ok := m.lineage.rows[sessionID]; ok {
		return *row, true
	}
	return dsh.Session{}, false
}
