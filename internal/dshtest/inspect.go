package dshtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Event is one durable event of a session.
type Event struct {
	Type string
	Seq  int64 // contiguous per session, from 0
	Time int64 // milliseconds since the epoch
	Data json.RawMessage
}

// Request is one call the host got.
type Request struct {
	Method string
	RPCID  string
	Body   json.RawMessage
}

// maxRequests is how many calls Requests remembers.
const maxRequests = 4096

// PendingRequest is a question or an approval that waits for an answer.
type PendingRequest struct {
	RPCID      string
	SessionID  string
	ApprovalID string   // empty for a question
	Questions  []string // ids of the questions of a batch
}

// SessionState is what the host holds of a session.
type SessionState struct {
	ID, Cwd, Preset  string
	ParentID, Origin string
	Title            string
	Attached         bool
	Running          bool
	LastSeq          int64
	Turns            int
	Queued           []string // ids of the messages that wait for a turn
	Steering         []string // ids of the messages that wait for a step
	Jobs             int      // background jobs, finished ones included
}

// ErrNoSession is wrapped by the errors for a session the host does not know.
var ErrNoSession = errors.New("no such session")

func noSession(id string) error { return fmt.Errorf("dshtest: %w: %q", ErrNoSession, id) }

// record counts a call, and keeps the newest of them.
func (h *Host) record(method string, body []byte) {
	r := Request{Method: method, Body: body}
	var envelope struct {
		RPCID string `json:"rpcId"`
	}
	if json.Unmarshal(body, &envelope) == nil {
		r.RPCID = envelope.RPCID
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[method]++
	if len(h.requests) == maxRequests {
		h.requests = slices.Delete(h.requests, 0, maxRequests/4)
	}
	h.requests = append(h.requests, r)
	h.notify()
}

// Events is a session's log so far, chunks included. It is empty for a session the host does not know.
func (h *Host) Events(sessionID string) []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[sessionID]
	if s == nil {
		return nil
	}
	events := make([]Event, 0, len(s.records))
	for _, r := range s.records {
		events = append(events, r.event())
	}
	return events
}

func (r *record) event() Event { return Event{Type: r.kind, Seq: r.seq, Time: r.time, Data: r.data} }

// Calls is how many calls of a method arrived, those that were made to fail included. "respond" is the method of an
// answer.
func (h *Host) Calls(method string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[method]
}

// Requests are the newest calls, oldest first, a few thousand at most.
func (h *Host) Requests() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

// Pending are the questions and approvals that wait, in the order in which they were asked.
func (h *Host) Pending() []PendingRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listPending()
}

func (h *Host) listPending() []PendingRequest {
	if h.life == nil {
		return nil
	}
	all := make([]PendingRequest, 0, len(h.life.pending))
	for _, p := range h.life.pending {
		one := PendingRequest{RPCID: p.rpcID, SessionID: p.session.id, ApprovalID: p.approval}
		for _, q := range p.questions {
			one.Questions = append(one.Questions, q.ID)
		}
		all = append(all, one)
	}
	return all
}

// Sessions are all sessions, in the order of their creation.
func (h *Host) Sessions() []SessionState {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]SessionState, 0, len(h.order))
	for _, s := range h.order {
		all = append(all, s.state())
	}
	return all
}

func (s *session) state() SessionState {
	ids := func(messages []*message) []string {
		var ids []string
		for _, m := range messages {
			ids = append(ids, m.ID)
		}
		return ids
	}
	return SessionState{
		ID: s.id, Cwd: s.cwd, Preset: s.preset, ParentID: s.parent, Origin: s.origin, Title: s.title,
		Attached: s.attached, Running: s.turn != nil, LastSeq: s.lastSeq(), Turns: s.turns,
		Queued: ids(s.inbox.turn), Steering: ids(s.inbox.step), Jobs: len(s.jobs),
	}
}

// Connections is how many events.mux connections are open.
func (h *Host) Connections() int { return len(h.clients()) }

// WaitIdle waits until no turn runs in a session. A background job may start one again later.
func (h *Host) WaitIdle(ctx context.Context, sessionID string) error {
	known := true
	err := h.until(ctx, "session "+sessionID+" to be idle", func() bool {
		s := h.sessions[sessionID]
		known = s != nil
		return !known || s.turn == nil
	})
	if !known {
		return noSession(sessionID)
	}
	return err
}

// WaitEvent waits until a session's log holds n events of a type, and returns the n-th of them. The session need not
// exist yet.
func (h *Host) WaitEvent(ctx context.Context, sessionID, eventType string, n int) (Event, error) {
	var found Event
	seen, from := 0, 0
	err := h.until(ctx, fmt.Sprintf("event %d of type %s", n, eventType), func() bool {
		s := h.sessions[sessionID]
		if s == nil {
			return false
		}
		for ; from < len(s.records) && seen < n; from++ {
			if s.records[from].kind == eventType {
				seen++
				found = s.records[from].event()
			}
		}
		return seen >= n
	})
	return found, err
}

// WaitPending waits until at least n questions and approvals wait for an answer, and returns them.
func (h *Host) WaitPending(ctx context.Context, n int) ([]PendingRequest, error) {
	var all []PendingRequest
	err := h.until(ctx, "a pending request", func() bool {
		all = h.listPending()
		return len(all) >= n
	})
	return all, err
}

// WaitCalls waits until n calls of a method have arrived since the host was made.
func (h *Host) WaitCalls(ctx context.Context, method string, n int) error {
	return h.until(ctx, fmt.Sprintf("call %d of %s", n, method), func() bool { return h.calls[method] >= n })
}

// WaitConnections waits until exactly n events.mux connections are open.
func (h *Host) WaitConnections(ctx context.Context, n int) error {
	return h.until(ctx, fmt.Sprintf("%d connections", n), func() bool {
		if h.life == nil {
			return n == 0
		}
		return len(h.life.clients) == n
	})
}

// WaitSubagent waits for the n-th subagent of a session and returns its session id.
func (h *Host) WaitSubagent(ctx context.Context, parentID string, n int) (string, error) {
	var id string
	err := h.until(ctx, fmt.Sprintf("subagent %d of %s", n, parentID), func() bool {
		children := h.children(parentID)
		if len(children) < n || n < 1 {
			return false
		}
		id = children[n-1].id
		return true
	})
	return id, err
}
