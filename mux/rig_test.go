package mux

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/ledger"
)

// limit is how long anything may take before a test counts as stuck. Nothing is expected to take that long.
const limit = 20 * time.Second

// quiet is the quiet time of the tests that wait for it.
const quiet = 50 * time.Millisecond

// within is a context that ends when the test is stuck.
func within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	tb.Cleanup(cancel)
	return ctx
}

// rig is a scripted host and a home.
type rig struct {
	tb   testing.TB
	host *dshtest.Host
	home string
	log  syncBuffer
}

func newRig(tb testing.TB, opts dshtest.Options) *rig {
	tb.Helper()
	r := &rig{tb: tb, host: dshtest.New(opts), home: filepath.Join(tb.TempDir(), "home")}
	if err := r.host.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.host.Close)
	return r
}

// client is a connection to the rig's host.
func (r *rig) client() *dsh.Client {
	r.tb.Helper()
	u, err := dsh.ParseURL(r.host.URL(), false)
	if err != nil {
		r.tb.Fatal(err)
	}
	client := dsh.New(u, dsh.Options{RequestTimeout: 2 * time.Second})
	r.tb.Cleanup(client.CloseIdle)
	return client
}

// open returns a Mux on the rig's host and home, as another process would have one. It is not started.
func (r *rig) open(change ...func(*Options)) *Mux {
	r.tb.Helper()
	opts := Options{Host: r.client(), Ledger: ledgers(r.tb, r.home, nil), Quiet: quiet, Linger: DefaultLinger, Log: slog.New(slog.NewTextHandler(&r.log, nil))}
	for _, c := range change {
		c(&opts)
	}
	m := New(opts)
	r.tb.Cleanup(m.Close)
	return m
}

// start is open, Start and the wait for the connection.
func (r *rig) start(change ...func(*Options)) *Mux {
	r.tb.Helper()
	m := r.open(change...)
	m.Start()
	if err := m.Connected(within(r.tb)); err != nil {
		r.tb.Fatal(err)
	}
	return m
}

// taskID is that of the one task of most tests.
const taskID = "dsh_000000000001"

// session makes a session on the host.
func (r *rig) session() string {
	r.tb.Helper()
	created, err := r.client().Create(within(r.tb), dsh.CreateRequest{Cwd: "/home/dev"})
	if err != nil {
		r.tb.Fatal(err)
	}
	return created.SessionID
}

// diskFault lets a test come between a ledger and its disk.
type diskFault struct {
	mu sync.Mutex
	// acquire and write are called before a lock is taken and before a ledger is written. They may wait or fail.
	acquire, write func(context.Context) error
	touched        int // calls of any kind
}

func (f *diskFault) set(acquire, write func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acquire, f.write = acquire, write
}

func (f *diskFault) touches() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.touched
}

// meet runs the hook that pick chooses.
func (f *diskFault) meet(ctx context.Context, pick func() func(context.Context) error) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	f.touched++
	var hook func(context.Context) error
	if pick != nil {
		hook = pick()
	}
	f.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx)
}

// ledgers opens real ledgers in a home, the way the bridge does.
func ledgers(tb testing.TB, dir string, fault *diskFault) func(taskID, sessionID string) *ledger.Ledger {
	tb.Helper()
	h, err := home.Open(dir)
	if err != nil {
		tb.Fatal(err)
	}
	return func(taskID, sessionID string) *ledger.Ledger {
		dir := h.LedgerDir(taskID)
		return ledger.Open(ledger.Options{Dir: dir, TaskID: taskID, Root: sessionID, Disk: homeDisk{h, fault},
			Lock: folderLock{h.Lock(dir + "/" + ledger.LockFile), fault}})
	}
}

// homeDisk is the bridge's way to a ledger's files.
type homeDisk struct {
	home  *home.Home
	fault *diskFault
}

func (d homeDisk) OpenFile(path string) (ledger.File, error) {
	_ = d.fault.meet(context.Background(), nil)
	f, err := d.home.OpenFile(path, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	return faultyFile{f, d.fault}, nil
}

func (d homeDisk) Stat(path string) (fs.FileInfo, error) {
	_ = d.fault.meet(context.Background(), nil)
	return os.Lstat(path)
}

func (d homeDisk) ReadFile(path string, maxBytes int64) ([]byte, error) {
	return d.home.ReadFile(path, maxBytes)
}

func (d homeDisk) WriteFile(path string, data []byte) error { return d.home.WriteFile(path, data) }

type faultyFile struct {
	*os.File
	fault *diskFault
}

func (f faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fault.meet(context.Background(), func() func(context.Context) error { return f.fault.write }); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

// folderLock is the bridge's lock of a ledger.
type folderLock struct {
	lock  *home.Lock
	fault *diskFault
}

func (l folderLock) Acquire(ctx context.Context) error {
	if err := l.fault.meet(ctx, func() func(context.Context) error { return l.fault.acquire }); err != nil {
		return err
	}
	return l.lock.Acquire(ctx, 5*time.Second)
}

func (l folderLock) Release() {
	if err := l.lock.Release(); err != nil {
		panic(err) // only a broken test can come here
	}
}

// errDisk is what a broken disk says.
var errDisk = errors.New("the disk is broken")

// await waits until a snapshot of the task is as wanted.
func await(tb testing.TB, t *Task, what string, wanted func(Snapshot) bool) Snapshot {
	tb.Helper()
	ctx := within(tb)
	for {
		changed := t.Changed()
		snap, err := t.Snapshot()
		if err == nil && wanted(snap) {
			return snap
		}
		select {
		case <-changed:
		case <-ctx.Done():
			tb.Fatalf("waiting for %s: the task is %+v (%v)", what, snap, err)
		}
	}
}

// receive waits for a channel.
func receive[T any](tb testing.TB, from <-chan T, what string) T {
	tb.Helper()
	select {
	case got := <-from:
		return got
	case <-within(tb).Done():
		tb.Fatalf("waiting for %s", what)
		panic("not reached")
	}
}

// fresh is Fresh, which has to succeed.
func fresh(tb testing.TB, t *Task) Snapshot {
	tb.Helper()
	if _, _, err := t.Fresh(within(tb)); err != nil {
		tb.Fatalf("fresh: %v", err)
	}
	return look(tb, t)
}

// current is Current, which has to succeed.
func current(tb testing.TB, t *Task) Snapshot {
	tb.Helper()
	if err := t.Current(within(tb)); err != nil {
		tb.Fatalf("current: %v", err)
	}
	return look(tb, t)
}

func look(tb testing.TB, t *Task) Snapshot {
	tb.Helper()
	snap, err := t.Snapshot()
	if err != nil {
		tb.Fatal(err)
	}
	return snap
}

// records reads the whole ledger of a task.
func records(tb testing.TB, t *Task) []ledger.Record {
	tb.Helper()
	list, err := t.Ledger().Read(0, 1<<20)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

// count counts the records of the types.
func count(tb testing.TB, t *Task, types ...ledger.Type) int {
	tb.Helper()
	n := 0
	for _, r := range records(tb, t) {
		for _, want := range types {
			if r.Type == want {
				n++
			}
		}
	}
	return n
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) lines(word string) int { return strings.Count(s.String(), word) }
