package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A write that fails after any number of bytes acknowledges nothing. Whole lines that reached the file stay, for
// somebody may have read them; the rest is gone before anything else is written.
func TestWriteFailsAfterAnyNumberOfBytes(t *testing.T) {
	t.Parallel()
	batch := append(events(root, 2, 2), other(TypeQuestionRequested, Coordination{RequestID: "q"}))
	f := newFolder(t)
	l := f.open()
	appendAll(t, l, events(root, 0, 1)...)
	start := f.content()
	appendAll(t, l, batch...)
	want, state := f.content(), stateOf(t, l)
	lines := want[EventsFile][len(start[EventsFile]):]

	for _, truncates := range []bool{true, false} { // the cut that follows may fail as well
		for k := 0; k <= len(lines); k += every {
			f.restore(start)
			writer, reader := f.open(), f.open()
			refresh(t, reader)
			f.disk.before = func(o op) error {
				switch {
				case o.name == "writeat":
					return torn{k}
				case o.name == "truncate" && !truncates:
					return errDisk
				}
				return nil
			}
			if done, err := writer.Append(t.Context(), batch); !errors.Is(err, torn{k}) || done != (Appended{}) {
				t.Fatalf("after %d bytes: %+v, %v", k, done, err)
			}
			f.disk.before = nil
			if left := f.content()[EventsFile]; truncates && !strings.HasSuffix(left, "\n") {
				t.Fatalf("after %d bytes a torn line is left", k)
			}

			whole := 2 + strings.Count(lines[:k], "\n")
			for who, l := range map[string]*Ledger{"writer": writer, "reader": reader, "newcomer": f.open()} {
				if got := read(t, l, 0, 10); len(got) != whole {
					t.Fatalf("after %d bytes the %s has %d records, want %d", k, who, len(got), whole)
				}
			}
			if done := appendAll(t, writer, batch...); done.Added != 4-whole || !done.Moved && done.Added > 0 {
				t.Fatalf("after %d bytes, the second time: %+v", k, done)
			}
			if diff := cmp.Diff(want, f.content()); diff != "" {
				t.Fatalf("after %d bytes: %s", k, diff)
			}
			for _, l := range []*Ledger{writer, reader} {
				refresh(t, l)
				if diff := jsonDiff(state, stateOf(t, l)); diff != "" {
					t.Fatalf("after %d bytes: %s", k, diff)
				}
				_ = l.Close()
			}
		}
	}
}

// script is what two processes do with a ledger from its beginning over two compactions. A step that fails is tried
// again.
func script(f *folder) []func(a, b *Ledger) error {
	var steps []func(a, b *Ledger) error
	write := func(l *Ledger, batch []Entry) error {
		_, err := l.Append(f.tb.Context(), batch)
		return err
	}
	for i := range int64(4) {
		batch := append(events(root, i*10, i*10+9), events(child, i*3, i*3+2)...)
		for e := range batch {
			batch[e].From = 0
		}
		batch = append(batch,
			other(TypeQuestionRequested, Coordination{RequestID: fmt.Sprint("q", i)}),
			other(TypeQueue, Coordination{Queue: []QueueItem{{ID: fmt.Sprint("i", i), Placement: "queued"}}}))
		steps = append(steps,
			func(a, b *Ledger) error { return write(a, batch[:5]) },
			func(a, b *Ledger) error { return write(b, batch) },
			func(a, b *Ledger) error { return a.Refresh() },
			func(a, b *Ledger) error { return a.Sync() },
			func(a, b *Ledger) error { return b.View(func(*State) {}) },
		)
	}
	return steps
}

// run plays the script, and returns what is in the ledger at its end. Every record that a sync vouched for has to be
// there after a loss of power.
func run(t *testing.T, f *folder, fault func(n int, o op) error) (records []Record, state string) {
	t.Helper()
	f.maxBytes = 3_000
	n := -1
	f.disk.before = func(o op) error {
		n++
		return fault(n, o)
	}
	a, b := f.open(), f.open()
	var m model
	watcher := f.openOn(newDisk()) // meets no fault, and sees every record before a compaction takes it away
	f.disk.after = func(o op) {
		if o.name == "writeat" {
			m.follow(t, watcher)
		}
	}
	for i, step := range script(f) {
		err := step(a, b)
		for tries := 0; err != nil; tries++ {
			var damaged *DamagedError
			if errors.As(err, &damaged) || tries == 10 {
				t.Fatalf("step %d: %v", i, err)
			}
			err = step(a, b)
		}
		if i%5 == 3 {
			// The state of a was synced: a ledger on what the device holds has all of it.
			lost := newFolder(t)
			for name, data := range f.disk.durable {
				lost.write(name, string(data))
			}
			var given, left int64
			if err := errors.Join(a.View(func(s *State) { given = s.Cursor }), lost.open().View(func(s *State) { left = s.Cursor })); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			if left < given {
				t.Fatalf("step %d: cursor %d was given away, and after a loss of power the last is %d", i, given, left)
			}
		}
	}
	f.disk.before, f.disk.after = nil, nil
	m.compare(t, a)
	m.compare(t, b)
	m.compare(t, f.open())
	return m.records, stateOf(t, a)
}

// Whatever operation fails, nothing is lost or repeated once the fault is gone, and nothing is acknowledged before.
func TestFaultAtAnyOperation(t *testing.T) {
	t.Parallel()
	var ops []op
	want, state := run(t, newFolder(t), func(_ int, o op) error {
		ops = append(ops, o)
		return nil
	})
	for n, o := range ops {
		if n%every != 0 {
			continue
		}
		faults := []error{errDisk}
		if o.name == "writeat" {
			faults = []error{torn{0}, torn{500}}
		}
		for _, fault := range faults {
			for _, length := range []int{1, 4} {
				if looks := !o.changes() && o.name != "sync"; (looks && n%8 != 0) || (length > 1 && n%12 != 0) {
					continue // there are too many of them
				}
				records, got := run(t, newFolder(t), func(i int, _ op) error {
					if i < n || i >= n+length {
						return nil
					}
					return fault
				})
				name := fmt.Sprintf("operation %d, %s of %s, and %d more: %v", n, o.name, o.file, length-1, fault)
				if !reflect.DeepEqual(want, records) {
					t.Fatalf("%s: %s", name, cmp.Diff(want, records))
				}
				if got != state {
					t.Fatalf("%s: %s", name, jsonDiff(state, got))
				}
			}
		}
	}
}

// While a kind of operation fails for good, every call that needs it fails, with the cause, and none panics.
func TestFaultThatLasts(t *testing.T) {
	for _, name := range []string{"openfile", "stat", "fstat", "readfile", "writefile", "readat", "writeat", "sync"} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.maxBytes = 3000
			appendAll(t, f.open(), events(root, 0, 99)...)
			old := f.open()
			refresh(t, old)
			before := f.content()
			f.disk.before = func(o op) error {
				if o.name == name {
					return errDisk
				}
				return nil
			}
			failed := 0
			for _, l := range []*Ledger{old, f.open()} {
				_, appendErr := l.Append(t.Context(), events(root, 100, 101))
				_, readErr := l.Read(99, 10)
				for _, err := range []error{appendErr, readErr, l.Refresh(), l.View(func(*State) {}), l.Sync()} {
					if err != nil {
						failed++
						if !errors.Is(err, errDisk) {
							t.Errorf("%v", err)
						}
					}
				}
				l.Earliest()
			}
			f.disk.before = nil
			if failed == 0 && name != "writefile" { // of which a compaction tells apart
				t.Error("no call failed")
			}
			if name == "writeat" {
				if diff := cmp.Diff(before, f.content()); diff != "" {
					t.Error(diff)
				}
			}
			for _, l := range []*Ledger{old, f.open()} {
				appendAll(t, l, events(root, 100, 101)...)
				if got := cursors(read(t, l, 99, 10)); !cmp.Equal(got, []int64{100, 101, 102}) {
					t.Errorf("cursors %v", got)
				}
			}
		})
	}
}

func TestFirstWriteFails(t *testing.T) {
	for _, name := range []string{"writefile", "openfile", "readat", "writeat"} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			l := f.open()
			f.disk.before = func(o op) error {
				if o.name == name {
					return errDisk
				}
				return nil
			}
			if _, err := l.Append(t.Context(), events(root, 0, 4)); !errors.Is(err, errDisk) {
				t.Errorf("append: %v", err)
			}
			f.disk.before = nil
			if done := appendAll(t, l, events(root, 0, 4)...); done.Added != 5 || done.Cursor != 5 {
				t.Errorf("append: %+v", done)
			}
		})
	}
}

// noLock is a lock that cannot be had.
type noLock struct{ testLock }

func (noLock) Acquire(context.Context) error { return errDisk }

func TestLockFails(t *testing.T) {
	f := newFolder(t)
	failing := Open(Options{Dir: f.dir, TaskID: task, Root: root, Disk: f.disk, Lock: noLock{}})
	for range 2 { // the turn within the process is given back
		if _, err := failing.Append(t.Context(), events(root, 0, 0)); !errors.Is(err, errDisk) {
			t.Errorf("append: %v", err)
		}
	}
	if len(f.content()) > 0 {
		t.Error("something was written without the lock")
	}
}

// A sync that has failed is not believed the next time: the system may have given the bytes up and call them written.
// Nothing is acknowledged before they have been written once more.
func TestFailedSyncIsNotBelievedTheNextTime(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	appendAll(t, l, events(root, 0, 3)...)
	fails := true
	f.disk.before = func(o op) error {
		if o.name == "sync" && fails {
			return errDisk
		}
		return nil
	}
	if err := l.Sync(); !errors.Is(err, errDisk) {
		t.Fatalf("sync: %v", err)
	}
	before, err := os.Stat(f.path(EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	fails = false
	content, other := f.content(), f.open()
	refresh(t, other)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(f.path(EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	if os.SameFile(before, after) {
		t.Error("the bytes of the failed sync were not written once more")
	}
	if diff := cmp.Diff(content, f.content()); diff != "" {
		t.Errorf("the file is another: %s", diff)
	}
	for _, l := range []*Ledger{l, other, f.open()} {
		if at := appendAll(t, l, events(root, 0, 4)...).Cursor; at != 5 {
			t.Errorf("an instance goes on at %d", at)
		}
	}
}

func TestCheckpointThatCannotBeLookedAt(t *testing.T) {
	f := newFolder(t)
	f.disk.before = func(o op) error {
		if o.name == "stat" && o.file == CheckpointFile {
			return errDisk
		}
		return nil
	}
	if err := f.open().Refresh(); !errors.Is(err, errDisk) {
		t.Errorf("it passes for %v", err)
	}
}
