package scenario

import (
	"slices"
	"testing"
	"time"

	"dsh-agentlink/internal/dshtest"
)

// TestScripted runs every scenario against a scripted host of its own.
func TestScripted(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			h := &scriptedHost{dshtest.New(dshtest.Options{HeaderBytes: 40_000, StatsFrames: true, AllowWrites: writable(t)})}
			t.Cleanup(h.Close)
			h.Start(t)
			if s.hostAway {
				h.Kill()
			}
			play(t, h, s)
		})
	}
}

// scriptedHost is the host that misbehaves on demand.
type scriptedHost struct{ *dshtest.Host }

func (h *scriptedHost) Name() string { return "scripted" }

func (h *scriptedHost) Start(t *testing.T) {
	t.Helper()
	if err := h.Host.Start(); err != nil {
		t.Fatal(err)
	}
}

// Forget streams the end of the turn without writing it down, and kills the host once the bridge has recorded it.
func (h *scriptedHost) Forget(e *env, t task) {
	e.t.Helper()
	i := slices.IndexFunc(h.Sessions(), func(s dshtest.SessionState) bool { return s.ID == t.session })
	if i < 0 {
		e.t.Fatalf("the host has no session %s", t.session)
	}
	state := h.Sessions()[i]
	at := args{"turn": state.Turns, "step": 1}
	seq := state.LastSeq
	for _, ev := range []struct {
		kind string
		data args
	}{
		// Pieces of text take numbers, too, and are in no ledger.
		{"assistant/chunk", at}, {"assistant/chunk", at}, {"assistant/chunk", at}, {"assistant/chunk", at},
		{"assistant/message", args{"turn": state.Turns, "step": 1, "message": args{"role": "assistant", "content": []args{{"type": "text", "text": e.text("never stored")}}}}},
		{"step/end", at},
		{"turn/end", args{"turn": state.Turns, "reason": args{"kind": "completed"}}},
		{"session/title", args{"title": e.text("never stored")}},
	} {
		seq++
		frame := args{"sessionId": t.session, "event": args{"type": ev.kind, "seq": seq, "time": time.Now().UnixMilli(), "data": ev.data}}
		if err := h.EmitFrame("session/event", frame); err != nil {
			e.t.Fatal(err)
		}
	}
	e.eventually(func() string {
		book, err := e.readLedger(t.id)
		if err != nil {
			e.t.Fatal(err)
		}
		if events := book.events()[t.session]; events[len(events)-1].Seq != seq {
			return "the bridge has not recorded the last events"
		}
		return ""
	})
	h.Kill()
	h.Start(e.t)
}
