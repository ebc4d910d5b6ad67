package scenario

import (
	"testing"

	"dsh-agentlink/internal/dshtest"
)

// TestScripted runs every scenario against a scripted host of its own.
func TestScripted(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			h := &scriptedHost{dshtest.New(dshtest.Options{HeaderBytes: 40_000, StatsFrames: true})}
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

func (h *scriptedHost) Forget(t *testing.T, _ string) {
	t.Helper()
	h.Kill()
	h.Start(t)
}
