// Package mux keeps one connection to a DSH host and, over it, the tasks' ledgers equal to the host's history.
//
// The order of things on every connection is: open the event stream, list the sessions, read the histories of those
// that moved, then take up what the stream brought meanwhile, and go on live. What it promises: an event reaches the
// ledger once, in the order of its seqs, and a lost frame is noticed by its missing seq and read from the history. The
// reader of the stream waits for nothing but the stream: disk and HTTP belong to one worker for each task that has
// something to do. What it does not do: it never repeats a write, never answers a request by itself, and keeps the
// content of requests in memory only.
package mux

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// Options configures a Mux.
type Options struct {
	Host dsh.Host
	// Ledger opens the ledger of a task; it must not touch the disk yet.
	Ledger func(taskID, sessionID string) *ledger.Ledger
	Log    *slog.Logger
	// Quiet is how long the opening burst must have been silent before a request that it did not bring counts as
	// withdrawn. 0 means DefaultQuiet.
	Quiet time.Duration
	// Linger is how long events that decide nothing, like those of a step, may wait in memory for others to be recorded
	// with while nobody waits for them; 0 for not at all.
	Linger time.Duration
	// ApprovalTimeout is how long an approval may wait before this process rejects it; 0 means for ever.
	ApprovalTimeout time.Duration
}

// DefaultQuiet is long against the microseconds between the frames of an opening burst, which the host sends in one
// go, and short against the time in which a person notices that a question is gone.
const DefaultQuiet = 750 * time.Millisecond

// ErrClosed is returned once the Mux has been closed.
var ErrClosed = errors.New("the bridge is shutting down")

// Mux is the connection to one host and the tasks that are watched over it.
//
// Locks are taken in this order and never the other way: Mux.mu, then Task.mu, then spawnMu. They are held for moments
// only, for the reader of the stream needs them with every frame: nobody calls the host or touches the disk under them.
// A ledger has a lock of its own, which is held over disk accesses; so it is never taken under one of these.
type Mux struct {
	opts Options
	log  *slog.Logger
	ctx  context.Context // ends with Close
	stop context.CancelCauseFunc
	kick chan struct{} // asks for a connection attempt now

	renewed time.Time // when a connection was last replaced for a lost frame; of the connecting goroutine

	spawnMu sync.Mutex // orders spawn against Close
	wg      sync.WaitGroup

	mu      sync.Mutex
	conn    connection
	changed chan struct{} // closed and renewed at every change of conn
	tasks   map[string]*Task
	lineage lineage
}

// connection is the state of the one connection.
type connection struct {
	epoch   int  // counts connections; the current one while open
	open    bool // the stream is open
	listed  bool // the sessions were listed on this connection
	ready   bool // and all tasks know of it
	renews  bool // it is being replaced on purpose, which nobody has to know of
	begun   int  // attempts to connect, counted as they begin
	ended   int  // the last of them that failed, or whose connection was lost again
	err     error
	since   time.Time       // when the stream of this epoch was opened
	settled bool            // the opening burst is over
	ctx     context.Context // ends with the connection
	cancel  context.CancelCauseFunc
}

// New returns a Mux that is not connected yet.
func New(opts Options) *Mux {
	if opts.Quiet == 0 {
		opts.Quiet = DefaultQuiet
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	return &Mux{
		opts: opts, log: opts.Log, ctx: ctx, stop: stop,
		kick:    make(chan struct{}, 1),
		changed: make(chan struct{}),
		tasks:   map[string]*Task{},
		lineage: newLineage(),
	}
}

// Start begins to connect, and keeps connecting until Close.
func (m *Mux) Start() {
	m.spawn(m.run)
	m.spawn(m.classify)
}

// spawn runs f in a goroutine that Close waits for; it reports false once the Mux is being closed.
func (m *Mux) spawn(f func()) bool {
	m.spawnMu.Lock()
	defer m.spawnMu.Unlock()
	if m.ctx.Err() != nil {
		return false
	}
	m.wg.Go(f)
	return true
}

// Close ends the connection and everything that works for a task, and waits for it.
func (m *Mux) Close() {
	m.spawnMu.Lock()
	m.stop(ErrClosed)
	m.spawnMu.Unlock()
	m.mu.Lock()
	tasks := slices.Collect(maps.Values(m.tasks))
	m.mu.Unlock()
	m.wg.Wait()
	for _, t := range tasks {
		t.close()
	}
}

// Track watches a task from now on; asking again returns the same one. It costs neither a call nor a disk access:
// the ledger is read when something happens in the task or somebody asks for it.
func (m *Mux) Track(taskID, sessionID string) *Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tasks[taskID]; t != nil {
		return t
	}
	t := newTask(m, taskID, sessionID)
	if m.conn.open {
		t.epoch, t.settle = m.conn.epoch, m.conn.settled
		if m.conn.listed {
			t.listedOn = m.conn.epoch
		}
		if m.lineage.foreign.forgot {
			t.settledOn = m.conn.epoch // what the burst brought of it is not known any more
		}
	}
	m.tasks[taskID] = t
	m.lineage.adopt(t, m.conn.epoch)
	return t
}

// Untrack stops watching a task that came to nothing.
func (m *Mux) Untrack(taskID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tasks[taskID]; t != nil {
		delete(m.tasks, taskID)
		delete(m.lineage.owner, t.Root)
		t.disconnected()
	}
}

// Task returns a watched task, or nil.
func (m *Mux) Task(taskID string) *Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tasks[taskID]
}

// Connected waits until the connection is up and the sessions have been listed on it. When it is down, one attempt is
// made at once; its failure is the error, a *dsh.Error. An attempt that was under way is waited for, but only its
// success counts: what made it fail may be mended since.
func (m *Mux) Connected(ctx context.Context) error {
	_, err := m.connect(ctx)
	return err
}

// connect is Connected; it returns the epoch of the connection.
func (m *Mux) connect(ctx context.Context) (epoch int, err error) {
	m.mu.Lock()
	begun := m.conn.begun
	if !m.conn.ready {
		m.poke()
	}
	for {
		conn, changed := m.conn, m.changed
		m.mu.Unlock()
		switch {
		case m.ctx.Err() != nil:
			return 0, ErrClosed
		case conn.ready:
			return conn.epoch, nil
		case conn.ended > begun && !conn.renews:
			return 0, conn.err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for the connection to the host: %w", context.Cause(ctx))
		case <-m.ctx.Done():
		}
		m.mu.Lock()
	}
}

// poke asks the connecting goroutine not to wait any longer.
func (m *Mux) poke() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// up reports whether the connection is usable, and its epoch.
func (m *Mux) up() (epoch int, ready bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conn.epoch, m.conn.ready
}

// usable reports whether the connection is usable, or is just being replaced.
func (m *Mux) usable() (ready, renews bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conn.ready, m.conn.renews
}

// during returns a context that ends with the connection of that epoch, so that nothing of it is recorded on the next
// one; it is over when that connection is. For epoch 0, no connection, it ends with the Mux.
func (m *Mux) during(epoch int) context.Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case epoch == 0:
		return m.ctx
	case m.conn.open && m.conn.epoch == epoch:
		return m.conn.ctx
	}
	over, cancel := context.WithCancel(m.ctx)
	cancel()
	return over
}

// since is when the connection began, or the last one did.
func (m *Mux) since() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conn.since
}

// Err is why there is no connection; nil while there is one.
func (m *Mux) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn.ready {
		return nil
	}
	return m.conn.err
}

// setConn changes the connection's state and tells everybody who waits for it.
func (m *Mux) setConn(change func(*connection)) []*Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.conn)
	close(m.changed)
	m.changed = make(chan struct{})
	return slices.AppendSeq(make([]*Task, 0, len(m.tasks)), maps.Values(m.tasks))
}

// logged is what a log line may say of an error. The host's own words can quote a conversation.
func logged(err error) string {
	var host *dsh.Error
	if !errors.As(err, &host) {
		return fmt.Sprint(err)
	}
	switch host.Kind {
	case dsh.Refused:
		return fmt.Sprintf("%s: %s (%s)", host.Method, host.Kind, id(host.Code))
	case dsh.NotSent, dsh.OutcomeUnknown, dsh.Incompatible:
		return host.Error() // words of this side
	}
	return fmt.Sprintf("%s: %s", host.Method, host.Kind)
}
