// Package dshtest is a scripted DSH host in one process: the unary calls, the answers and the events.mux stream of a
// real host, with a model that plays the LAB scripts of package labmodel instead of thinking.
//
// It is made for unit tests, scenarios, benchmarks and demonstrations, so it does not import package testing. Every
// turn is run for real, event by event, in the order and the shape that a host of the 0.1.0-rc.8 release shows; the
// captures in testdata are the proof. On top of that it misbehaves on demand: see [Host.DropConnections] and the other
// methods in faults.go.
//
// Left out are the plugins of a real host that act by themselves, goals aside: it compacts no conversations, sends no
// reminder about repeated tool calls, knows no slash commands, and keeps no projections but the title and the goal.
// Tools do nothing on the machine, see shell.go.
//
// All methods of a Host may be called from any goroutine at any time.
package dshtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"dsh-agentlink/internal/labmodel"
)

// Options sets up a Host. The zero value is a host that does everything at once.
type Options struct {
	// Addr is the loopback address to listen on, "127.0.0.1:0" when empty.
	Addr string
	// Cwd is the host's own working directory, which sessions created without one get.
	Cwd string
	// Presets are the agent presets; nil means the four that a real host comes with.
	Presets []Preset
	// HeaderBytes is the size of the tool schemas in a request/header event; 0 leaves them out. A real host's are
	// about 40,000 bytes, above the default read limit of many WebSocket clients.
	HeaderBytes int
	// AllowWrites is the one directory below which a scripted "touch" creates files. Empty: nothing is ever written.
	AllowWrites string
	// RetryDelay is the pause before the host repeats a model request that failed with a passing error (429, 5xx).
	RetryDelay time.Duration
	// StatsFrames sends a sessionStats projection frame along with every event, as busy as a real host.
	StatsFrames bool
	// ForgetBlank makes a restart lose the sessions in which nothing was ever said.
	ForgetBlank bool
	// ReplayDelay is how long a new events.mux connection waits for its opening burst.
	ReplayDelay time.Duration
	// ClientQueue bounds the frames that wait for one slow events.mux client; more close it. 65536 when 0.
	ClientQueue int
}

// Preset is one agent preset of the host.
type Preset struct {
	ID        string `json:"id"`
	Trust     string `json:"trust"`
	IsDefault bool   `json:"isDefault"`
	Name      string `json:"name,omitempty"`
	// Description says what the preset is for.
	Description string `json:"description,omitempty"`
	// Broken says why the preset cannot be used; empty when it can.
	Broken string `json:"broken,omitempty"`
}

// DefaultPresets are the presets of a freshly installed host.
func DefaultPresets() []Preset {
	return []Preset{
		{ID: "standard", Trust: "system", IsDefault: true, Name: "Standard", Description: "The whole agent."},
		{ID: "code", Trust: "system", Name: "Code", Description: "The whole agent, its tools as code."},
		{ID: "minimal", Trust: "system", Name: "Minimal", Description: "A shell and an editor."},
		{ID: "cordis", Trust: "system", Name: "Cordis", Description: "An agent to make presets with."},
	}
}

// Host is a scripted DSH host. Make one with [New].
type Host struct {
	opts Options

	mu       sync.Mutex
	addr     string // fixed by the first Start
	life     *life  // nil while the host is down
	sessions map[string]*session
	order    []*session // by creation
	presets  []Preset
	routable bool
	faults   faults
	calls    map[string]int
	requests []Request
	changed  chan struct{} // closed at the next change, for those who wait; nil when nobody does
}

// life is one run of the host's process. What it holds is gone when the process is.
type life struct {
	ctx    context.Context
	cancel context.CancelFunc
	http   *http.Server
	wait   sync.WaitGroup

	// Guarded by Host.mu, like everything below.
	attached []*session // in the order in which they were attached
	pending  []*pending // in the order in which they were asked
	clients  map[*client]struct{}
	jobs     int
	answers  int // numbers the model's tool calls
}

// New makes a host that is not started yet. Sessions may be seeded before Start.
func New(opts Options) *Host {
	if opts.Addr == "" {
		opts.Addr = "127.0.0.1:0"
	}
	if opts.Cwd == "" {
		opts.Cwd = "/home/dev"
	}
	if opts.ClientQueue <= 0 {
		opts.ClientQueue = 1 << 16
	}
	presets := opts.Presets
	if presets == nil {
		presets = DefaultPresets()
	}
	faults := newFaults()
	faults.replay = opts.ReplayDelay
	return &Host{
		opts:     opts,
		addr:     opts.Addr,
		sessions: make(map[string]*session),
		presets:  presets,
		routable: true,
		calls:    make(map[string]int),
		faults:   faults,
	}
}

// Start begins to serve. After a Kill it comes back at the same address, with every session it had, all of them cold.
func (h *Host) Start() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life != nil {
		return errors.New("dshtest: the host runs already")
	}
	name, _, err := net.SplitHostPort(h.addr)
	if err != nil {
		return fmt.Errorf("dshtest: %w", err)
	}
	if ip := net.ParseIP(name); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("dshtest: %s is not a loopback address", h.addr)
	}
	listener, err := net.Listen("tcp", h.addr)
	if err != nil {
		return fmt.Errorf("dshtest: %w", err)
	}
	h.addr = listener.Addr().String()
	l := &life{clients: make(map[*client]struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.http = &http.Server{
		Handler:           &handler{host: h, life: l},
		BaseContext:       func(net.Listener) context.Context { return l.ctx },
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are this host's business
	}
	h.life = l
	l.wait.Go(func() {
		// Serve returns when Kill closes the server. Should it fail before, its clients find nobody there.
		_ = l.http.Serve(listener)
	})
	return nil
}

// URL is the host's base address. It is known from the first Start on and stays the same.
func (h *Host) URL() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return "http://" + h.addr
}

// Kill ends the host's process as a crash would: connections break, turns stop in the middle without an event,
// pending questions and approvals, jobs and calls under way are gone. It returns when nothing of the process is left.
func (h *Host) Kill() {
	h.mu.Lock()
	l := h.life
	if l == nil {
		h.mu.Unlock()
		return
	}
	h.life = nil
	for _, s := range h.order {
		s.goCold()
	}
	if h.opts.ForgetBlank {
		h.forgetBlank()
	}
	clients := make([]*client, 0, len(l.clients))
	for c := range l.clients {
		clients = append(clients, c)
	}
	h.notify()
	h.mu.Unlock()

	l.cancel()
	l.http.Close()
	for _, c := range clients {
		c.cut()
	}
	l.wait.Wait()
}

// Restart is Kill and Start.
func (h *Host) Restart() error {
	h.Kill()
	return h.Start()
}

// Close ends the host and every goroutine of it. It may be called more than once.
func (h *Host) Close() { h.Kill() }

// Script is shorthand for a prompt that carries a script of these steps.
func Script(steps ...labmodel.Step) string {
	return labmodel.Script{Steps: steps}.Prompt("go")
}

// enter keeps the life from ending until leave; it reports false when it has ended.
func (h *Host) enter(l *life) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life != l {
		return false
	}
	l.wait.Add(1)
	return true
}

// notify wakes those who wait for a change. The host's lock is held.
func (h *Host) notify() {
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// until waits for a condition on the host's state, which is checked with the lock held. what names it in the error.
func (h *Host) until(ctx context.Context, what string, ok func() bool) error {
	for {
		h.mu.Lock()
		if ok() {
			h.mu.Unlock()
			return nil
		}
		if h.changed == nil {
			h.changed = make(chan struct{})
		}
		changed := h.changed
		h.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("dshtest: waiting for %s: %w", what, ctx.Err())
		}
	}
}
