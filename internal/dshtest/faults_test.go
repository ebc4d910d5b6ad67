package dshtest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"dsh-agentlink/internal/labmodel"
)

const describeCall = `{"type":"client-request","rpcId":"r","method":"host.describe","payload":{}}`

// described calls host.describe and returns the HTTP status, or 0 for a connection that broke.
func described(t *testing.T, h *Host) int {
	t.Helper()
	status, _, err := post(within(t), h.URL()+"/api/host.describe", "application/json", describeCall)
	if err != nil && !errors.Is(err, io.EOF) && !isReset(err) {
		t.Fatal(err)
	}
	return status
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

func TestFailNext(t *testing.T) {
	h := started(t, Options{})
	h.FailNext("host.describe", 500, 2)
	for i, want := range []int{500, 500, 200} {
		if got := described(t, h); got != want {
			t.Errorf("call %d: HTTP %d, want %d", i, got, want)
		}
	}
	if got := h.Calls("host.describe"); got != 3 {
		t.Errorf("%d calls counted", got)
	}
	// A call that fails does nothing.
	h.FailNext("session.create", 503, 1)
	if status, _, err := post(within(t), h.URL()+"/api/session.create", "application/json",
		`{"type":"client-request","rpcId":"r","method":"session.create","payload":{"cwd":"/x"}}`); err != nil || status != 503 {
		t.Errorf("HTTP %d, %v", status, err)
	}
	if got := len(h.Sessions()); got != 0 {
		t.Errorf("%d sessions", got)
	}
}

func TestHangNext(t *testing.T) {
	h := started(t, Options{})
	h.HangNext("host.describe", 1)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := post(short, h.URL()+"/api/host.describe", "application/json", describeCall); err == nil {
		t.Error("a call that hangs was answered")
	}
	if got := described(t, h); got != 200 {
		t.Errorf("the next call: HTTP %d", got)
	}
	for name, release := range map[string]func(){"Release": h.Release, "ClearFaults": h.ClearFaults} {
		h.HangNext("host.describe", 1)
		before := h.Calls("host.describe")
		status := make(chan int)
		go func() { status <- described(t, h) }()
		if err := h.WaitCalls(within(t), "host.describe", before+1); err != nil {
			t.Fatal(err)
		}
		// The call is counted just before it is hung up: until it is, a release would come too early.
		if err := h.until(within(t), "the hang", func() bool { return h.faults.hang["host.describe"] == 0 }); err != nil {
			t.Fatal(err)
		}
		release()
		if got := <-status; got != 200 {
			t.Errorf("after %s: HTTP %d", name, got)
		}
	}
}

func TestBreakAfter(t *testing.T) {
	h := started(t, Options{})
	h.BreakAfter("session.create")
	_, _, err := post(within(t), h.URL()+"/api/session.create", "application/json",
		`{"type":"client-request","rpcId":"r","method":"session.create","payload":{"sessionId":"made","cwd":"/x"}}`)
	if err == nil {
		t.Error("the call was answered")
	}
	if all := h.Sessions(); len(all) != 1 || all[0].ID != "made" {
		t.Errorf("sessions: %+v", all)
	}
	newRoot(t, h)
}

func TestDelayMethod(t *testing.T) {
	h := started(t, Options{})
	h.DelayMethod("host.describe", time.Hour)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := post(short, h.URL()+"/api/host.describe", "application/json", describeCall); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a delayed call: %v", err)
	}
	h.DelayMethod("host.describe", 0)
	if got := described(t, h); got != 200 {
		t.Errorf("HTTP %d", got)
	}
}

func TestAnswerAs404(t *testing.T) {
	h := started(t, Options{})
	h.AnswerAs404()
	if got := described(t, h); got != 404 {
		t.Errorf("HTTP %d", got)
	}
	_, resp, err := websocket.Dial(within(t), strings.Replace(h.URL(), "http", "ws", 1)+"/api/events.mux", nil)
	if err == nil || resp == nil || resp.StatusCode != 404 {
		t.Errorf("the stream opened: %v", err)
	}
	h.ClearFaults()
	if got := described(t, h); got != 200 {
		t.Errorf("HTTP %d", got)
	}
}

func TestDropAndCloseConnections(t *testing.T) {
	h := started(t, Options{})
	a, b := watch(t, h), watch(t, h)
	h.DropConnections()
	for _, w := range []*watcher{a, b} {
		<-w.done
		if status := websocket.CloseStatus(w.err); status != -1 {
			t.Errorf("a dropped connection was closed with %v", status)
		}
	}
	if err := h.WaitConnections(within(t), 0); err != nil {
		t.Error(err)
	}
	c := watch(t, h)
	h.CloseConnections(int(websocket.StatusGoingAway), "going")
	<-c.done
	if status := websocket.CloseStatus(c.err); status != websocket.StatusGoingAway {
		t.Errorf("closed with %v", c.err)
	}
}

func TestLoseNextFrame(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	w := watch(t, h)
	h.LoseNextFrame(func(kind, eventType string) bool { return kind == kindEvent && eventType == eventStepStart })
	tell(t, h, id, "queue", "one")
	tell(t, h, id, "queue", "two")
	w.has(t, eventTurnEnd, 2)
	w.mu.Lock()
	defer w.mu.Unlock()
	var starts []int64
	for _, f := range w.frames {
		if f.kind() == eventStepStart {
			starts = append(starts, f.Payload.Event.Seq)
		}
	}
	if len(starts) != 1 || starts[0] < 10 {
		t.Errorf("step/start streamed at %v, want the second one only", starts)
	}
}

func TestEmit(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	w := watch(t, h)
	seq, err := h.EmitEvent(id, "made/up", object{"a": 1})
	if err != nil || seq != 3 {
		t.Errorf("EmitEvent = %d, %v", seq, err)
	}
	if f := w.has(t, "made/up", 1); string(f.Payload.Event.Data) != `{"a":1}` {
		t.Errorf("streamed %s", f.raw)
	}
	if big, err := h.BigFrame(id, 1<<20); err != nil || big != 4 {
		t.Errorf("BigFrame = %d, %v", big, err)
	}
	if f := w.has(t, eventHeader, 1); len(f.raw) < 1<<20 || len(f.raw) > 2<<20 {
		t.Errorf("the big frame has %d bytes", len(f.raw))
	}
	if err := h.EmitFrame("stream/error", object{"error": object{"code": "x"}}); err != nil {
		t.Error(err)
	}
	w.has(t, "stream/error", 1)
	for _, payload := range []any{func() {}, "no object"} {
		if err := h.EmitFrame("x", payload); err == nil {
			t.Errorf("EmitFrame of %T succeeded", payload)
		}
	}
	if _, err := h.EmitEvent("nope", "x", nil); !errors.Is(err, ErrNoSession) {
		t.Errorf("EmitEvent to nobody: %v", err)
	}
	if _, err := h.EmitEvent(id, "x", func() {}); err == nil {
		t.Error("EmitEvent of a function succeeded")
	}
	h.SendRaw([]byte("no JSON at all"))
	<-w.done
	if w.err == nil || !strings.Contains(w.err.Error(), "invalid character") {
		t.Errorf("reading what was no JSON: %v", w.err)
	}
}

func TestForeignNoise(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	w := watch(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h.ForeignNoise(ctx, 2000)
	frames := w.until(t, "noise", func(f []frame) bool { return len(f) > 100 })
	for _, f := range frames {
		if f.Payload.Type != kindSubscribed && f.Payload.SessionID == id {
			t.Fatalf("noise in our session: %s", f.raw)
		}
	}
	if got := len(h.Sessions()); got != 1 {
		t.Errorf("%d sessions", got)
	}
	// Noise does not outlive its context: with it gone, Close has nothing to wait for.
	cancel()
	h.Close()
}

func TestRoutable(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	type answer struct{ Routable bool }
	for _, want := range []bool{false, true} {
		h.SetRoutable(want)
		if got := call[answer](t, h, "session.models", object{"sessionId": id}); got.Routable != want {
			t.Errorf("routable = %v", got.Routable)
		}
	}
}

// Misbehaviour may be ordered at any time, by anybody, while the host works.
func TestFaultsAreSafe(t *testing.T) {
	h := started(t, Options{})
	w := watch(t, h)
	id := newRoot(t, h)
	tell(t, h, id, "queue", labmodel.Script{Loop: 200}.Prompt("go"))
	for range 20 {
		h.LoseNextFrame(func(kind, _ string) bool { return kind == kindQueue })
		h.DelayMethod("host.describe", 0)
		h.FailNext("host.describe", 500, 0)
		h.SetRoutable(true)
		h.SetPresets(DefaultPresets()...)
		h.SetReplayDelay(0)
		h.SendRaw([]byte("{}"))
		h.ClearFaults()
		h.Events(id)
		h.Pending()
		described(t, h)
	}
	if err := h.WaitIdle(within(t), id); err != nil {
		t.Error(err)
	}
	w.has(t, eventTurnEnd, 1)
}
