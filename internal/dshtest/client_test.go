package dshtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// started is a running host that ends with the test.
func started(t testing.TB, opts Options) *Host {
	t.Helper()
	h := New(opts)
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// within is a context for one wait of a test, long enough for a busy machine.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// post sends a body to a path of the host.
func post(ctx context.Context, url, contentType, body string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("content-type", contentType)
	// A connection of its own: one that is kept alive would outlive the host.
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// callRaw makes a unary call with an rpcId and returns the whole answer.
func callRaw(t testing.TB, h *Host, method, rpcID string, payload any) json.RawMessage {
	t.Helper()
	body := encode(object{"type": "client-request", "rpcId": rpcID, "method": method, "payload": payload})
	status, answer, err := post(within(t), h.URL()+"/api/"+method, "application/json", string(body))
	if err != nil || status != http.StatusOK {
		t.Fatalf("%s: HTTP %d, %v: %s", method, status, err, answer)
	}
	return answer
}

// refusal is an error of the host.
type refusal struct{ Code, Message string }

// try makes a unary call and returns its value or the host's refusal.
func try(t testing.TB, h *Host, method string, payload any) (json.RawMessage, *refusal) {
	t.Helper()
	var answer struct {
		RPCID  string
		Result struct {
			OK    bool
			Value json.RawMessage
			Error *refusal
		}
	}
	id := newID()
	raw := callRaw(t, h, method, id, payload)
	if err := json.Unmarshal(raw, &answer); err != nil || answer.RPCID != id {
		t.Fatalf("%s: %v, rpcId %q: %s", method, err, answer.RPCID, raw)
	}
	return answer.Result.Value, answer.Result.Error
}

// call is try for a call that has to be done; the value is decoded into V.
func call[V any](t testing.TB, h *Host, method string, payload any) V {
	t.Helper()
	value, refused := try(t, h, method, payload)
	if refused != nil {
		t.Fatalf("%s: %+v", method, *refused)
	}
	var v V
	if err := json.Unmarshal(value, &v); err != nil {
		t.Fatalf("%s: %v in %s", method, err, value)
	}
	return v
}

type createdSession struct{ SessionID, AgentPreset string }

const project = "/home/dev/project"

// newRoot makes a session.
func newRoot(t testing.TB, h *Host) string {
	t.Helper()
	return call[createdSession](t, h, "session.create", object{"cwd": project}).SessionID
}

// tell sends a prompt and returns its rpcId.
func tell(t testing.TB, h *Host, id, mode, text string) string {
	t.Helper()
	rpcID := newID()
	raw := callRaw(t, h, "session.prompt", rpcID, object{"sessionId": id, "mode": mode, "content": textBlocks(text)})
	if !bytes.Contains(raw, []byte(`"accepted":true`)) {
		t.Fatalf("prompt: %s", raw)
	}
	return rpcID
}

// answer answers a pending request.
func answer(t testing.TB, h *Host, rpcID string, result any) string {
	t.Helper()
	body := encode(object{"type": "client-response", "rpcId": rpcID, "result": result})
	status, receipt, err := post(within(t), h.URL()+"/api/respond", "application/json", string(body))
	if err != nil || status != http.StatusOK {
		t.Fatalf("respond: HTTP %d, %v", status, err)
	}
	return string(receipt)
}

// frame is one message of the stream.
type frame struct {
	RPCID   string `json:"rpcId"`
	Method  string
	Payload struct {
		Type, SessionID string
		LastSeq         int64
		Event           struct {
			Type string
			Seq  int64
			Data json.RawMessage
		}
	}
	raw json.RawMessage
}

// watcher reads one events.mux connection into a list.
type watcher struct {
	conn *websocket.Conn
	lag  time.Duration // of every frame
	done chan struct{}

	mu      sync.Mutex
	frames  []frame
	err     error
	changed chan struct{}
}

// watch connects, and disconnects with the test at the latest.
func watch(t testing.TB, h *Host) *watcher {
	t.Helper()
	return watchSlowly(t, h, 0)
}

// watchSlowly is watch over a stream on which every frame takes that long.
func watchSlowly(t testing.TB, h *Host, lag time.Duration) *watcher {
	t.Helper()
	conn, _, err := websocket.Dial(within(t), strings.Replace(h.URL(), "http", "ws", 1)+"/api/events.mux", nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(64 << 20)
	w := &watcher{conn: conn, lag: lag, done: make(chan struct{}), changed: make(chan struct{})}
	go w.read()
	t.Cleanup(w.close)
	return w
}

func (w *watcher) close() {
	w.conn.CloseNow()
	<-w.done
}

func (w *watcher) read() {
	defer close(w.done)
	for {
		_, raw, err := w.conn.Read(context.Background())
		time.Sleep(w.lag) // on purpose: the stream is slow
		w.mu.Lock()
		if err == nil {
			f := frame{raw: raw}
			if err = json.Unmarshal(raw, &f); err == nil {
				w.frames = append(w.frames, f)
			}
		}
		w.err = err
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// until waits for a condition on the frames so far.
func (w *watcher) until(t testing.TB, what string, ok func([]frame) bool) []frame {
	t.Helper()
	ctx := within(t)
	for {
		w.mu.Lock()
		frames, changed, err := slices.Clone(w.frames), w.changed, w.err
		w.mu.Unlock()
		switch {
		case ok(frames):
			return frames
		case err != nil:
			t.Fatalf("waiting for %s: %v; got %s", what, err, kinds(frames))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("waiting for %s; got %s", what, kinds(frames))
		}
	}
}

// has waits for n frames or events of a kind and returns the n-th.
func (w *watcher) has(t testing.TB, kind string, n int) frame {
	t.Helper()
	var found frame
	w.until(t, fmt.Sprintf("%s number %d", kind, n), func(frames []frame) bool {
		count := 0
		for _, f := range frames {
			if f.kind() == kind {
				if count++; count == n {
					found = f
					return true
				}
			}
		}
		return false
	})
	return found
}

// kind names a frame, or the event in it.
func (f frame) kind() string {
	if f.Payload.Type == kindEvent {
		return f.Payload.Event.Type
	}
	return f.Payload.Type
}

// kinds names frames in short.
func kinds(frames []frame) string {
	var names []string
	for _, f := range frames {
		names = append(names, f.kind())
	}
	return strings.Join(names, " ")
}

// logged names the events of a session's log, chunks left out.
func logged(h *Host, id string) []string {
	var names []string
	for _, e := range h.Events(id) {
		if e.Type != eventChunk {
			names = append(names, e.Type)
		}
	}
	return names
}
