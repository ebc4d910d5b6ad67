package dshtest

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/labmodel"
)

// What a new connection is told, and in which order.
func TestOpeningBurst(t *testing.T) {
	h := started(t, Options{})
	asks, approves, queues, works := newRoot(t, h), newRoot(t, h), newRoot(t, h), newRoot(t, h)
	if _, err := h.AddSession(SessionSpec{ID: "cold", Turns: 1}); err != nil {
		t.Fatal(err)
	}
	tell(t, h, approves, "queue", Script(labmodel.Step{Tool: "bash", Args: []byte(
		`{"command":"x","description":"d","sandbox_permissions":"danger-full-access","justification":"j"}`)}))
	if _, err := h.WaitPending(within(t), 1); err != nil {
		t.Fatal(err)
	}
	tell(t, h, asks, "queue", Script(askStep("q")))
	pending, err := h.WaitPending(within(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	tell(t, h, queues, "queue", Script(labmodel.Step{HangMs: 3600000}))
	tell(t, h, queues, "queue", "waits")
	tell(t, h, works, "queue", Script(labmodel.Step{Tool: "bash", Args: []byte(`{"command":"sleep 3600","description":"d","run_in_background":true}`)}))
	if err := h.WaitIdle(within(t), works); err != nil {
		t.Fatal(err)
	}

	type told struct{ Kind, Session, RPCID string }
	want := []told{
		{kindSubscribed, asks, ""}, {kindSubscribed, approves, ""}, {kindSubscribed, queues, ""}, {kindSubscribed, works, ""},
		{kindQuestionRequested, asks, pending[1].RPCID}, {kindApprovalRequested, approves, pending[0].RPCID},
		{kindQueue, queues, ""}, {kindJobs, works, ""},
	}
	for range 2 { // every connection is told the same
		w := watch(t, h)
		frames := w.until(t, "the burst", func(f []frame) bool { return len(f) >= len(want) })
		var got []told
		for _, f := range frames {
			one := told{f.Payload.Type, f.Payload.SessionID, ""}
			if strings.HasSuffix(one.Kind, "/requested") {
				one.RPCID = f.RPCID
			}
			got = append(got, one)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		w.close()
	}
}

// The stream and the log are the same events, seq for seq, whatever else the stream carries.
func TestStreamIsTheLog(t *testing.T) {
	h := started(t, Options{StatsFrames: true, HeaderBytes: 50000})
	w := watch(t, h)
	id := newRoot(t, h)
	tell(t, h, id, "queue", Script(bashStep("echo a"), labmodel.Step{Say: "b c d"}))
	tell(t, h, id, "queue", "again")
	if err := h.WaitIdle(within(t), id); err != nil {
		t.Fatal(err)
	}
	want := h.Events(id)
	frames := w.until(t, "the last event", func(f []frame) bool {
		return len(f) > 0 && f[len(f)-1].Payload.Event.Seq == want[len(want)-1].Seq
	})
	next, stats := int64(0), 0
	for _, f := range frames {
		switch f.Payload.Type {
		case kindEvent:
			if e := f.Payload.Event; e.Seq != next || e.Type != want[next].Type || string(e.Data) != string(want[next].Data) {
				t.Fatalf("streamed %s %d, logged %s %d", e.Type, e.Seq, want[next].Type, next)
			}
			next++
		case kindProjection:
			stats++
		}
	}
	if stats < int(next) {
		t.Errorf("%d projections beside %d events", stats, next)
	}
}

// A client that reads nothing is cut off; the host and the other clients never wait for it.
func TestSlowClientIsCut(t *testing.T) {
	h := started(t, Options{ClientQueue: 8})
	w := watch(t, h)
	slow, _, err := websocket.Dial(within(t), strings.Replace(h.URL(), "http", "ws", 1)+"/api/events.mux", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.CloseNow()
	big := []byte(`{"pad":"` + strings.Repeat("x", 1<<20) + `"}`)
	// What the system buffers for a connection is used up after a few of these.
	for n := 1; n < 100 && h.Connections() == 2; n++ {
		h.SendRaw(big)
		w.until(t, "the big frame", func(f []frame) bool { return len(f) == n })
	}
	if err := h.WaitConnections(within(t), 1); err != nil {
		t.Error(err)
	}
}

// A reader that comes late to a stream gets the burst first, and then everything that happened meanwhile.
func TestReplayDelay(t *testing.T) {
	h := started(t, Options{ReplayDelay: 50 * time.Millisecond})
	id := newRoot(t, h)
	w := watch(t, h)
	tell(t, h, id, "queue", "hello")
	w.has(t, eventTurnEnd, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if first := w.frames[0]; first.Payload.Type != kindSubscribed || first.Payload.LastSeq != 2 {
		t.Errorf("the first frame is %s", first.raw)
	}
	for i, f := range w.frames[1:] {
		if f.Payload.Type == kindEvent && f.Payload.Event.Seq == 3 {
			return
		}
		if i > 1 {
			t.Fatalf("event 3 is missing: %s", kinds(w.frames))
		}
	}
}

// The host answers pings, which is how a client notices a connection that is half open.
func TestPing(t *testing.T) {
	h := started(t, Options{})
	w := watch(t, h)
	if err := w.conn.Ping(within(t)); err != nil {
		t.Errorf("ping: %v", err)
	}
}

// A half-open connection does not keep the host.
func TestBrokenHandshake(t *testing.T) {
	h := started(t, Options{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET /api/events.mux HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 64)
	if n, err := conn.Read(reply); err != nil || !strings.Contains(string(reply[:n]), " 4") {
		t.Errorf("answered %q, %v", reply[:n], err)
	}
}
