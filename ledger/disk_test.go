package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// op is one operation on a disk.
type op struct {
	name string // openfile, stat, readfile, writefile; readat, writeat, truncate, sync, fstat
	file string // base name of the file
}

func (o op) changes() bool {
	switch o.name {
	case "writefile", "writeat", "truncate":
		return true
	}
	return false
}

// torn is the fault of a write of which only the first bytes reach the file.
type torn struct{ bytes int }

func (e torn) Error() string { return fmt.Sprintf("no space left after %d bytes", e.bytes) }

var errDisk = errors.New("input/output error")

// testDisk reaches real files, for the identity of a file is the system's, but waits for no device. It counts what is
// done, keeps what a loss of power would leave, and lets a test fail or watch every operation.
type testDisk struct {
	before func(op) error // an error is the operation's fault
	after  func(op)

	mu      sync.Mutex
	counts  map[string]int
	durable map[string][]byte // by base name
}

func newDisk() *testDisk {
	return &testDisk{counts: map[string]int{}, durable: map[string][]byte{}}
}

func (d *testDisk) count(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[name]
}

// enter begins an operation; an error is its fault.
func (d *testDisk) enter(name, path string) (op, error) {
	o := op{name, filepath.Base(path)}
	d.mu.Lock()
	d.counts[name]++
	d.mu.Unlock()
	if d.before == nil {
		return o, nil
	}
	return o, d.before(o)
}

func (d *testDisk) leave(o op) {
	if d.after != nil {
		d.after(o)
	}
}

func (d *testDisk) do(name, path string, f func() error) error {
	o, fault := d.enter(name, path)
	if fault != nil {
		return &fs.PathError{Op: name, Path: path, Err: fault}
	}
	defer d.leave(o)
	return f()
}

func (d *testDisk) keep(path string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.durable[filepath.Base(path)] = data
}

func (d *testDisk) OpenFile(path string) (File, error) {
	var file *os.File
	err := d.do("openfile", path, func() (err error) {
		file, err = os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &testFile{d, file}, nil
}

func (d *testDisk) Stat(path string) (info fs.FileInfo, err error) {
	err = d.do("stat", path, func() (err error) {
		info, err = os.Lstat(path)
		return err
	})
	return info, err
}

func (d *testDisk) ReadFile(path string, max int64) (data []byte, err error) {
	err = d.do("readfile", path, func() (err error) {
		if data, err = os.ReadFile(path); int64(len(data)) > max {
			return fmt.Errorf("%s is larger than %d bytes", path, max)
		}
		return err
	})
	return data, err
}

func (d *testDisk) WriteFile(path string, data []byte) error {
	return d.do("writefile", path, func() error {
		if err := os.WriteFile(path+".new", data, 0o600); err != nil {
			return err
		}
		d.keep(path, data)
		return os.Rename(path+".new", path)
	})
}

type testFile struct {
	disk *testDisk
	*os.File
}

func (f *testFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.disk.do("readat", f.Name(), func() (err error) {
		n, err = f.File.ReadAt(p, off)
		return err
	})
	return n, err
}

func (f *testFile) WriteAt(p []byte, off int64) (int, error) {
	o, fault := f.disk.enter("writeat", f.Name())
	switch partly := (torn{}); {
	case errors.As(fault, &partly):
		p = p[:min(partly.bytes, len(p))]
	case fault != nil:
		return 0, fault
	}
	defer f.disk.leave(o)
	n, err := f.File.WriteAt(p, off)
	if err == nil {
		err = fault
	}
	return n, err
}

func (f *testFile) Truncate(size int64) error {
	return f.disk.do("truncate", f.Name(), func() error { return f.File.Truncate(size) })
}

func (f *testFile) Sync() error {
	return f.disk.do("sync", f.Name(), func() error {
		here, err := f.File.Stat() // an error when the file is closed, as the real one has it
		if err != nil {
			return err
		}
		if there, err := os.Lstat(f.Name()); err != nil || !os.SameFile(here, there) {
			return nil // a file that was replaced
		}
		data, err := os.ReadFile(f.Name())
		if err == nil {
			f.disk.keep(f.Name(), data)
		}
		return err
	})
}

func (f *testFile) Stat() (info fs.FileInfo, err error) {
	err = f.disk.do("fstat", f.Name(), func() (err error) {
		info, err = f.File.Stat()
		return err
	})
	return info, err
}

// testLock is the lock of a ledger's folder. Instances that share it exclude each other.
type testLock chan struct{}

func (l testLock) Acquire(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l testLock) Release() { <-l }

// folder is a ledger's folder, which several instances share as the processes of a home do.
type folder struct {
	tb       testing.TB
	dir      string
	disk     *testDisk
	lock     testLock
	maxBytes int64
}

const task = "dsh_0123456789ab"

func newFolder(tb testing.TB) *folder {
	tb.Helper()
	return &folder{tb: tb, dir: tempDir(tb), disk: newDisk(), lock: make(testLock, 1)}
}

// tempDir is in memory where the system has such a place: these tests replace files by the thousand, and there are
// file systems that wait for the device each time.
func tempDir(tb testing.TB) string {
	tb.Helper()
	const memory = "/dev/shm"
	dir, err := os.MkdirTemp(memory, "ledger-test-")
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// open returns another instance on the folder.
func (f *folder) open() *Ledger {
	f.tb.Helper()
	return f.openOn(f.disk)
}

func (f *folder) openOn(disk Disk) *Ledger {
	f.tb.Helper()
	l := Open(Options{Dir: f.dir, TaskID: task, Root: root, Lock: f.lock, Disk: disk, MaxBytes: f.maxBytes,
		Now: func() time.Time { return time.UnixMilli(1_700_000_000_000) }})
	f.tb.Cleanup(func() { _ = l.Close() })
	return l
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// content is all that is in the folder, by name.
func (f *folder) content() map[string]string {
	f.tb.Helper()
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.tb.Fatal(err)
	}
	content := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(f.path(e.Name()))
		if err != nil {
			f.tb.Fatal(err)
		}
		content[e.Name()] = string(data)
	}
	return content
}

// restore makes the folder hold exactly content.
func (f *folder) restore(content map[string]string) {
	f.tb.Helper()
	for name := range f.content() {
		if err := os.Remove(f.path(name)); err != nil {
			f.tb.Fatal(err)
		}
	}
	for name, data := range content {
		f.write(name, data)
	}
}

func (f *folder) write(name, data string) {
	f.tb.Helper()
	if err := os.WriteFile(f.path(name), []byte(data), 0o600); err != nil {
		f.tb.Fatal(err)
	}
}

// change edits a file where it is.
func (f *folder) change(name string, edit func(string) string) {
	f.tb.Helper()
	f.write(name, edit(f.content()[name]))
}

// events are the entries of a session's events from one seq to another, as a bridge has them that has seen them all.
func events(session string, from, to int64) []Entry {
	var entries []Entry
	for seq := from; seq <= to; seq++ {
		entries = append(entries, one(session, seq, from))
	}
	return entries
}

// one is the entry of an event whose observer has seen all from a seq on.
func one(session string, seq, from int64) Entry {
	e := Entry{From: from, Record: Record{SourceSessionID: session, SourceSeq: &seq, Origin: OriginRoot, Type: TypeEvent}}
	if session != root {
		e.ParentSessionID, e.Origin = root, OriginSubagent
	}
	c := &e.Coordination
	switch seq % 5 {
	case 0:
		c.Event, c.Turn = "turn/start", int(seq/5)+1
	case 4:
		c.Event, c.Turn, c.Reason = "turn/end", int(seq/5)+1, ReasonCompleted
	default:
		c.Event, c.Turn, c.Text = "assistant/message", int(seq/5)+1, seq%5 == 1
	}
	c.Time = seq * 1000
	return e
}

// other is an entry of no event.
func other(t Type, c Coordination) Entry {
	return Entry{Record: Record{SourceSessionID: root, Origin: OriginRoot, Type: t, Coordination: c}}
}

func appendAll(tb testing.TB, l *Ledger, entries ...Entry) Appended {
	tb.Helper()
	done, err := l.Append(context.Background(), entries)
	if err != nil {
		tb.Fatalf("append: %v", err)
	}
	return done
}

func refresh(tb testing.TB, l *Ledger) {
	tb.Helper()
	if err := l.Refresh(); err != nil {
		tb.Fatalf("refresh: %v", err)
	}
}

func read(tb testing.TB, l *Ledger, since int64, limit int) []Record {
	tb.Helper()
	records, err := l.Read(since, limit)
	if err != nil {
		tb.Fatalf("read: %v", err)
	}
	return records
}

func cursors(records []Record) []int64 {
	list := []int64{}
	for _, r := range records {
		list = append(list, r.Cursor)
	}
	return list
}

// stateOf is the state of an instance, as JSON.
func stateOf(tb testing.TB, l *Ledger) string {
	tb.Helper()
	var state string
	if err := l.View(func(s *State) { state = toJSON(tb, s) }); err != nil {
		tb.Fatalf("view: %v", err)
	}
	return state
}

// foldAll folds records from the beginning, without a file.
func foldAll(tb testing.TB, records []Record) string {
	tb.Helper()
	s := newState(root)
	for i := range records {
		s.apply(&records[i])
	}
	return toJSON(tb, s)
}
