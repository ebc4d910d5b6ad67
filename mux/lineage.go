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
	owner   map[string]*Task // session id -> task; nil for a session that is known to be none of ours
	rows    map[string]dsh.Session
	unknown map[string]*strangers // sessions that came up on the stream and are in no list yet
	signal  chan struct{}
}

// strangers holds what must not be lost of a session before it is known whose it is. Its events are in the history;
// its requests are nowhere else.
type strangers struct {
	frames []dsh.Frame
	tries  int
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
		rows:    map[string]dsh.Session{},
		unknown: map[string]*strangers{},
		signal:  make(chan struct{}, 1),
	}
}

func (l *lineage) addRoot(t *Task) { l.owner[t.Root] = t }

// reset forgets what the last connection knew of foreign and unknown sessions.
func (l *lineage) reset() {
	for session, t := range l.owner {
		if t == nil {
			delete(l.owner, session)
		}
	}
	clear(l.rows)
	clear(l.unknown)
}

// update takes a fresh list of the host's sessions in, and tells the tasks of their subagents.
func (l *lineage) update(sessions []dsh.Session) {
	clear(l.rows)
	for _, s := range sessions {
		l.rows[s.ID] = s
	}
	for _, s := range sessions {
		if t := l.owner[s.ID]; t != nil && t.Root == s.ID {
			continue
		}
		t := l.find(s)
		l.owner[s.ID] = t
		if t != nil {
			t.addSession(source{id: s.ID, parent: s.ParentSessionID, origin: ledger.OriginSubagent})
		}
	}
}

// find climbs from a session to the task at the top of it, or nil.
func (l *lineage) find(s dsh.Session) *Task {
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

// route hands a frame to the task it belongs to.
func (m *Mux) route(frame dsh.Frame) {
	m.mu.Lock()
	t, known := m.lineage.owner[frame.SessionID]
	if !known {
		m.keepStranger(frame)
	}
	epoch := m.conn.epoch
	m.mu.Unlock()
	if t != nil {
		t.push(epoch, frame)
	}
}

// keepStranger holds back what a session of unknown belonging sends, and asks for a look at the list.
func (m *Mux) keepStranger(frame dsh.Frame) {
	s := m.lineage.unknown[frame.SessionID]
	if s == nil {
		s = &strangers{}
		m.lineage.unknown[frame.SessionID] = s
		m.signalClassify()
	}
	switch frame.Kind {
	case dsh.FrameEvent, dsh.FrameSubscribed:
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
		m.mu.Unlock()
		if !due {
			continue // the sweep of the next connection signals again
		}
		sessions, err := m.opts.Host.Sessions(m.ctx)
		if err != nil {
			m.log.Debug("look for unknown sessions", "err", err)
		} else if m.resolve(epoch, sessions) {
			continue
		}
		select {
		case <-time.After(classifyPause):
			m.signalClassify()
		case <-m.ctx.Done():
			return
		}
	}
}

// resolve sorts the unknown sessions by a fresh list and hands over what was held back. It reports whether none is
// left unknown.
func (m *Mux) resolve(epoch int, sessions []dsh.Session) (done bool) {
	type delivery struct {
		task   *Task
		frames []dsh.Frame
	}
	var deliveries []delivery
	m.mu.Lock()
	if m.conn.epoch != epoch {
		m.mu.Unlock()
		return true
	}
	m.lineage.update(sessions)
	for id, s := range m.lineage.unknown {
		t, known := m.lineage.owner[id]
		if s.tries++; !known && s.tries < maxStrangerTries {
			continue
		}
		m.lineage.owner[id] = t
		delete(m.lineage.unknown, id)
		if t != nil {
			deliveries = append(deliveries, delivery{t, s.frames})
		}
	}
	done = len(m.lineage.unknown) == 0
	m.mu.Unlock()
	for _, d := range deliveries {
		for _, frame := range d.frames {
			d.task.push(epoch, frame)
		}
		d.task.wake()
	}
	return done
}

// List reads the host's sessions anew and takes them in.
func (m *Mux) List(ctx context.Context) ([]dsh.Session, error) {
	epoch, _ := m.up()
	sessions, err := m.opts.Host.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.conn.epoch == epoch {
		m.lineage.update(sessions)
	}
	m.mu.Unlock()
	return sessions, nil
}

// row is what the last list said of a session.
func (m *Mux) row(sessionID string) (dsh.Session, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, ok := m.lineage.rows[sessionID]
	return row, ok
}
