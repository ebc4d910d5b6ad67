//go:build live

package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"dsh-agentlink/internal/scenario/livehost"
)

// installLimit bounds the installation of the host.
const installLimit = 8 * time.Minute

// TestLive runs every scenario that a real host can play against one. All share one process of the host, except those
// that kill it.
func TestLive(t *testing.T) {
	installation := install(t)
	shared := newLive(t, installation)
	shared.Start(t)
	for _, s := range scenarios {
		if s.scriptedOnly {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			h := shared
			if s.ownHost || s.hostAway {
				h = newLive(t, installation)
				h.Start(t)
			}
			if s.hostAway {
				h.Kill()
			}
			play(t, h, s)
		})
	}
}

func install(t *testing.T) *livehost.Installation {
	dir, err := livehost.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	installation, err := livehost.Install(ctx, dir, os.Stderr)
	if errors.Is(err, livehost.ErrUnavailable) {
		fmt.Fprintf(os.Stderr, "\nLIVE LANE SKIPPED: %v\n\n", err)
		t.Skip("LIVE LANE SKIPPED:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return installation
}

// liveHost is a real host with a home of its own.
type liveHost struct{ *livehost.Host }

func newLive(t *testing.T, installation *livehost.Installation) *liveHost {
	h, err := installation.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		if t.Failed() {
			t.Logf("the host said:\n%s", h.Log())
		}
	})
	return &liveHost{h}
}

func (h *liveHost) Name() string { return "live" }

func (h *liveHost) Start(t *testing.T) {
	t.Helper()
	if err := h.Host.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Forget kills the host at once: what it has not written down by then it forgets.
func (h *liveHost) Forget(e *env, _ task) {
	e.t.Helper()
	h.Kill()
	h.Start(e.t)
}
