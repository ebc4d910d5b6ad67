package dshtest

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Kinds of frames.
const (
	kindEvent             = "session/event"
	kindSubscribed        = "session/subscribed"
	kindQuestionRequested = "question/requested"
	kindQuestionResolved  = "question/resolved"
	kindApprovalRequested = "approval/requested"
	kindApprovalResolved  = "approval/resolved"
	kindQueue             = "session/queue"
	kindJobs              = "session/jobs"
	kindProjection        = "session/projection"
)

// writeTimeout is how long one frame may take to leave: a client that reads nothing must not keep its goroutine.
const writeTimeout = 30 * time.Second

// maxQueued bounds the bytes that wait for one client, beside their number: a frame can be megabytes.
const maxQueued = 256 << 20

// client is one events.mux connection. Frames for it are queued without ever waiting; it writes them itself.
type client struct {
	conn   *websocket.Conn
	cancel context.CancelFunc // ends the writer, also in the middle of a frame that nobody reads
	limit  int

	mu    sync.Mutex
	queue [][]byte
	bytes int
	over  bool
	wake  chan struct{} // holds one token when there is something to do
}

// push queues a frame. A client that is too slow is cut off instead.
func (c *client) push(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	if len(c.queue) >= c.limit || c.bytes+len(frame) > maxQueued {
		c.stop()
		return
	}
	c.queue = append(c.queue, frame)
	c.bytes += len(frame)
	c.signal()
}

func (c *client) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// stop ends the writer. The client's lock is held.
func (c *client) stop() {
	c.over = true
	c.queue = nil
	c.cancel()
}

// cut breaks the connection without a goodbye.
func (c *client) cut() {
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.conn.CloseNow()
}

// next takes all frames that wait, or reports false when the connection is over.
func (c *client) next(ctx context.Context) ([][]byte, bool) {
	for {
		c.mu.Lock()
		if c.over {
			c.mu.Unlock()
			return nil, false
		}
		if len(c.queue) > 0 {
			frames := c.queue
			c.queue, c.bytes = nil, 0
			c.mu.Unlock()
			return frames, true
		}
		c.mu.Unlock()
		select {
		case <-c.wake:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// write sends frames until the connection ends.
func (c *client) write(ctx context.Context) {
	for {
		frames, ok := c.next(ctx)
		if !ok {
			return
		}
		for _, frame := range frames {
			limited, cancel := context.WithTimeout(ctx, writeTimeout)
			err := c.conn.Write(limited, websocket.MessageText, frame)
			cancel()
			if err != nil {
				return
			}
		}
	}
}

// mux serves one events.mux connection until either side ends it.
func (h *Host) mux(l *life, w http.ResponseWriter, r *http.Request) {
	c, ctx, delay := h.admit(l, w, r)
	if c == nil {
		return
	}
	defer c.conn.CloseNow()
	defer c.cancel()
	if pause(ctx, delay) {
		c.write(ctx)
	}
	h.mu.Lock()
	delete(l.clients, c)
	h.notify()
	h.mu.Unlock()
}

// admit takes a connection up. It does so with the host's lock held, so that a client that knows itself connected
// misses nothing of what happens from then on: what it is told first and its place in the stream are one. The
// handshake is a few bytes into a new connection, which does not wait for the client.
func (h *Host) admit(l *life, w http.ResponseWriter, r *http.Request) (*client, context.Context, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life != l {
		cut(w)
		return nil, nil, 0
	}
	// The origin was checked with the other headers.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil, nil, 0 // Accept has answered
	}
	// CloseRead answers pings, and ends the context when the client goes.
	ctx, cancel := context.WithCancel(conn.CloseRead(l.ctx))
	c := &client{conn: conn, cancel: cancel, limit: h.opts.ClientQueue, queue: h.burst(), wake: make(chan struct{}, 1)}
	c.signal()
	l.clients[c] = struct{}{}
	h.notify()
	return c, ctx, h.faults.replay
}

// burst is what a new connection is told: the attached sessions, what is pending, and the queues and jobs there are.
func (h *Host) burst() [][]byte {
	l := h.life
	var frames [][]byte
	add := func(kind, rpcID string, payload object) {
		payload["type"] = kind
		frames = append(frames, envelope(kind, rpcID, encode(payload)))
	}
	for _, s := range l.attached {
		add(kindSubscribed, newID(), object{"sessionId": s.id, "lastSeq": s.lastSeq()})
	}
	for _, kind := range []string{kindQuestionRequested, kindApprovalRequested} {
		for _, p := range l.pending {
			if p.frame == kind {
				frames = append(frames, envelope(kind, p.rpcID, p.payload))
			}
		}
	}
	for _, s := range l.attached {
		if !s.inbox.empty() {
			add(kindQueue, newID(), object{"sessionId": s.id, "items": s.inbox.items()})
		}
	}
	for _, s := range l.attached {
		if len(s.jobs) > 0 {
			add(kindJobs, newID(), object{"sessionId": s.id, "jobs": s.jobs})
		}
	}
	return frames
}

// frame streams a payload of the kind under an rpcId of its own.
func (h *Host) frame(kind string, payload object) {
	if h.life == nil || len(h.life.clients) == 0 {
		return
	}
	payload["type"] = kind
	h.send(kind, "", newID(), encode(payload))
}

// send streams an encoded payload to every client.
func (h *Host) send(kind, eventType, rpcID string, payload []byte) {
	if h.life == nil || len(h.life.clients) == 0 || h.faults.loses(kind, eventType) {
		return
	}
	frame := envelope(kind, rpcID, payload)
	for c := range h.life.clients {
		c.push(frame)
	}
}

// pause waits, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
