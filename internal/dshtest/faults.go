package dshtest

import (
	"context"
	"time"

	"github.com/coder/websocket"
)

// faults is what goes wrong on demand.
type faults struct {
	fail   map[string]*failing
	hang   map[string]int
	broken map[string]int
	delay  map[string]time.Duration
	lose   []func(kind, eventType string) bool
	gone   bool
	replay time.Duration
	// release is closed to let the calls go that hang.
	release chan struct{}
	work    hold
}

type failing struct{ status, times int }

func newFaults() faults {
	return faults{
		fail:    make(map[string]*failing),
		hang:    make(map[string]int),
		broken:  make(map[string]int),
		delay:   make(map[string]time.Duration),
		release: make(chan struct{}),
	}
}

// loses says whether a frame gets lost now, which uses the order for it up.
func (f *faults) loses(kind, eventType string) bool {
	for i, match := range f.lose {
		if match(kind, eventType) {
			f.lose = append(f.lose[:i:i], f.lose[i+1:]...)
			return true
		}
	}
	return false
}

// fault is what happens to one call.
type fault struct {
	status int  // answer with this HTTP status instead of doing anything
	broken bool // do the work, then cut the connection
}

// meet delays or hangs a call as ordered, and says what else is to happen to it. It reports false when the caller or
// the host went away meanwhile.
func (h *Host) meet(ctx context.Context, method string) (fault, bool) {
	h.mu.Lock()
	f := &h.faults
	delay := f.delay[method]
	hangs := f.hang[method] > 0
	if hangs {
		f.hang[method]--
	}
	release := f.release
	h.mu.Unlock()

	if !pause(ctx, delay) {
		return fault{}, false
	}
	if hangs {
		select {
		case <-release:
		case <-ctx.Done():
			return fault{}, false
		}
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	var met fault
	if order := f.fail[method]; order != nil && order.times > 0 {
		order.times--
		met.status = order.status
		return met, true
	}
	if f.broken[method] > 0 {
		f.broken[method]--
		met.broken = true
	}
	return met, true
}

func (h *Host) answersAs404() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.faults.gone
}

// FailNext answers the next n calls of a method with an HTTP status and a plain text, without doing anything.
// The method of an answer to a question or an approval is "respond".
func (h *Host) FailNext(method string, status, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.fail[method] = &failing{status, n}
}

// HangNext keeps the next n calls of a method waiting, without doing anything, until Release, ClearFaults, the end of
// the host, or the caller giving up. After a release they are done as if nothing had been.
func (h *Host) HangNext(method string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.hang[method] = n
}

// Release lets the calls go that hang now.
func (h *Host) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.faults.release)
	h.faults.release = make(chan struct{})
}

// BreakAfter does the next call of a method, then cuts its connection instead of answering.
func (h *Host) BreakAfter(method string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.broken[method]++
}

// DelayMethod makes every call of a method wait before it is done; 0 ends that.
func (h *Host) DelayMethod(method string, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.delay[method] = d
}

// SetReplayDelay is Options.ReplayDelay for the connections to come.
func (h *Host) SetReplayDelay(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.replay = d
}

// LoseNextFrame drops the next live frame that matches, for every client. eventType is empty for a frame that is no
// session/event. match is called with the host locked: it must not call the Host.
func (h *Host) LoseNextFrame(match func(kind, eventType string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.lose = append(h.faults.lose, match)
}

// AnswerAs404 makes the host look like one of the newer generation, which knows none of the paths under /api. New
// events.mux connections are refused too; open ones stay.
func (h *Host) AnswerAs404() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.gone = true
}

// ClearFaults takes back every order of misbehaviour and lets hanging calls go. Frames and connections that are lost
// stay lost.
func (h *Host) ClearFaults() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.faults.release)
	h.faults.work.letGo()
	replay := h.opts.ReplayDelay
	h.faults = newFaults()
	h.faults.replay = replay
}

// DropConnections breaks every open events.mux connection, without a close frame.
func (h *Host) DropConnections() {
	for _, c := range h.clients() {
		c.cut()
	}
}

// CloseConnections ends every open events.mux connection with a close frame.
func (h *Host) CloseConnections(code int, reason string) {
	for _, c := range h.clients() {
		c.conn.Close(websocket.StatusCode(code), reason)
	}
}

// clients are the events.mux connections that are open now.
func (h *Host) clients() []*client {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		return nil
	}
	clients := make([]*client, 0, len(h.life.clients))
	for c := range h.life.clients {
		clients = append(clients, c)
	}
	return clients
}

// SetRoutable says whether session.models answers that the model can be reached.
func (h *Host) SetRoutable(routable bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.routable = routable
}

// SetPresets replaces the agent presets. One with Broken set is listed and cannot be used.
func (h *Host) SetPresets(presets ...Preset) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.presets = presets
}
