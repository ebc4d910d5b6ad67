// Package bridge is what each MCP tool does: it checks arguments, brings the task's view up to date, issues at most
// one write to the host, and answers in compact JSON.
//
// What it promises: nothing is written before the arguments and the caller's view have been checked; no write is
// repeated; an answer says what is known, and where the outcome of a write is not known it says that. It keeps no
// content of a conversation: what an answer shows is read from the host when it is asked for.
package bridge

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/mark3labs/mcp-go/mcp"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/requests"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// Options is what a Bridge is made of.
type Options struct {
	Host    dsh.Host
	HostURL string // as shown in hints
	Home    *home.Home
	// AgentPreset is for tasks that ask for none; empty for the host's default.
	AgentPreset string
	// TimeZone is sent along with prompts; empty for none.
	TimeZone string
	// HostVersion is what the operator says the host is.
	HostVersion string
	Version     string // of this bridge
	LockTimeout time.Duration
	// LedgerMaxBytes is the size past which a task's ledger is compacted; 0 for the default.
	LedgerMaxBytes int64
	// ApprovalConfirm is one of the Confirm… values; empty for ConfirmAuto.
	ApprovalConfirm string
	// ApprovalTimeout rejects an approval that nobody decided for so long; 0 for never.
	ApprovalTimeout time.Duration
	// Quiet is how long the opening burst of a connection must be silent; 0 for the default.
	Quiet time.Duration
	// Linger is how long events that decide nothing may wait to be recorded together while nobody waits for any change;
	// 0 for the default.
	Linger time.Duration
	Log    *slog.Logger
}

// Bridge serves the tools of one process.
type Bridge struct {
	opts    Options
	host    dsh.Host
	hostURL string
	log     *slog.Logger
	mux     *mux.Mux
	tasks   *tasks.Store
	claims  *claims.Registry
	now     func() time.Time

	confirmations confirmations
	requests      keyed // orders calls that carry the same requestId
	outcomes      *requests.Store

	subscribed subscriptions

	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	starting sync.WaitGroup
	needed   chan struct{} // closed by the first request that needs the tasks or the host
	needOnce sync.Once
}

// New returns a Bridge that has touched neither disk nor network.
func New(opts Options) *Bridge {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	b := &Bridge{
		opts: opts, host: opts.Host, hostURL: opts.HostURL, log: opts.Log,
		tasks:  tasks.Open(opts.Home),
		claims: claims.Open(opts.Home, opts.LockTimeout),
		now:    time.Now,
		needed: make(chan struct{}),

		outcomes: requests.Open(opts.Home, opts.LockTimeout),
	}
	b.ctx, b.stop = context.WithCancel(context.Background())
	b.mux = mux.New(mux.Options{
		Host: opts.Host, Log: opts.Log, Quiet: opts.Quiet, Linger: cmp.Or(opts.Linger, mux.DefaultLinger), ApprovalTimeout: opts.ApprovalTimeout,
		Ledger: func(taskID, sessionID string) *ledger.Ledger {
			return OpenLedger(opts.Home, taskID, sessionID, LedgerOptions{LockTimeout: opts.LockTimeout, MaxBytes: opts.LedgerMaxBytes, Log: opts.Log})
		},
	})
	return b
}

// Start watches the tasks of the home and begins to connect to the host. It does not wait for either.
func (b *Bridge) Start() { b.StartSoon(0) }

// StartSoon is Start after so much time, or at the first request that needs the tasks or the host. A client waits for the
// answers to its first requests, which need neither, and the connection would compete with them.
func (b *Bridge) StartSoon(patience time.Duration) {
	b.starting.Go(func() {
		wait := time.NewTimer(patience)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-b.needed:
		case <-b.ctx.Done():
			return
		}
		b.begin()
	})
}

// begin watches the tasks and connects.
func (b *Bridge) begin() {
	err := b.track()
	b.mux.Start()
	if err == nil {
		return
	}
	// Tasks that a caller names are watched without this.
	retry := backoff.NewExponentialBackOff()
	_, _ = backoff.Retry(b.ctx, func() (struct{}, error) { return struct{}{}, b.track() },
		backoff.WithBackOff(retry), backoff.WithMaxElapsedTime(0))
}

// need says that a request needs the tasks or the host.
func (b *Bridge) need(method mcp.MCPMethod) {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodResourcesList, mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodSubscriptionsListen:
		b.needOnce.Do(func() { close(b.needed) })
	}
}

// track watches all tasks of the home.
func (b *Bridge) track() error {
	list, bad, err := b.tasks.Show()
	if err != nil {
		b.log.Error("list the tasks", "err", err)
	}
	for _, e := range bad {
		b.log.Warn("a task cannot be read", "err", e)
	}
	for _, t := range list {
		b.follow(t)
	}
	return err
}

// Close ends the connection and all work.
func (b *Bridge) Close() {
	b.subscribed.mu.Lock() // nobody subscribes after this
	b.stop()
	b.subscribed.mu.Unlock()
	b.mux.Close()
	b.starting.Wait()
}

// open returns a task that the home knows, watching it from now on.
func (b *Bridge) open(taskID string) (tasks.Task, *mux.Task, error) {
	if err := checkTaskID(taskID); err != nil {
		return tasks.Task{}, nil, err
	}
	task, err := b.tasks.Load(taskID)
	if errors.Is(err, tasks.ErrNotFound) {
		return tasks.Task{}, nil, &Error{Code: CodeTaskNotFound, Message: "there is no task " + taskID + " in this bridge's home", Hint: "dsh_list lists the tasks."}
	}
	if err != nil {
		return tasks.Task{}, nil, err
	}
	return task, b.follow(task), nil
}

// follow watches a task. While a fork was on its way, another process may have completed it under the id that the host
// chose.
func (b *Bridge) follow(task tasks.Task) *mux.Task {
	t := b.mux.Track(task.TaskID, task.SessionID)
	if t.Root == task.SessionID {
		return t
	}
	b.mux.Untrack(task.TaskID)
	return b.mux.Track(task.TaskID, task.SessionID)
}

// fresh brings a task up to date with a list of sessions of now, and tells how it is then, with its row of that list.
// hostErr is why it may not be up to date.
func fresh(ctx context.Context, t *mux.Task) (row dsh.Session, snap mux.Snapshot, hostErr, err error) {
	row, _, hostErr = t.Fresh(ctx)
	if ctx.Err() != nil {
		return row, snap, hostErr, context.Cause(ctx)
	}
	if damaged, ok := errors.AsType[*ledger.DamagedError](hostErr); ok {
		return row, snap, hostErr, damaged // there is no state to vouch for
	}
	snap, err = t.Snapshot()
	if kind := dsh.KindOf(hostErr); kind == dsh.NotSent || kind == dsh.OutcomeUnknown {
		snap.Availability = mux.HostUnreachable // the stream has not noticed yet
	}
	return row, snap, hostErr, err
}

// settled makes every cursor of an answer durable before the answer goes out.
func (b *Bridge) settled(t *mux.Task) error { return t.Ledger().Sync() }

// keyed is a set of locks by key.
type keyed struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

// lock waits for the key, and returns how to give it back.
func (k *keyed) lock(ctx context.Context, key string) (unlock func(), err error) {
	for {
		k.mu.Lock()
		if k.held == nil {
			k.held = map[string]chan struct{}{}
		}
		held, busy := k.held[key]
		if !busy {
			released := make(chan struct{})
			k.held[key] = released
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, key)
				k.mu.Unlock()
				close(released)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
