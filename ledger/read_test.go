package ledger

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadReturnsWhatIsBehindACursor(t *testing.T) {
	const last = 3*markEvery + 5
	f := newFolder(t)
	writer, reader := f.open(), f.open()
	appendAll(t, writer, events(root, 0, 1)...)
	appendAll(t, writer, events(root, 2, last-1)...)
	for _, l := range []*Ledger{writer, reader} { // one has the places of its own records, one those it has read
		for _, since := range []int64{0, 1, 2, markEvery - 1, markEvery, markEvery + 1, 2 * markEvery, last - 1, last} {
			if err := l.Check(since); err != nil {
				t.Errorf("behind %d: %v", since, err)
			}
			for _, limit := range []int{0, 1, 2, markEvery - 1, markEvery, markEvery + 1, 2*markEvery + 1, last, math.MaxInt} {
				got := cursors(read(t, l, since, limit))
				want := []int64{}
				for c := since + 1; c <= last && len(want) < limit; c++ {
					want = append(want, c)
				}
				if !slices.Equal(want, got) {
					t.Errorf("%d behind %d: %v, want %v", limit, since, got, want)
				}
			}
		}
	}
	for _, r := range read(t, reader, 0, last) {
		if *r.SourceSeq != r.Cursor-1 {
			t.Fatalf("record %d has seq %d", r.Cursor, *r.SourceSeq)
		}
	}
}

func TestEachGoesOnAsLongAsItIsTold(t *testing.T) {
	const last = 2*markEvery + 5
	l := newFolder(t).open()
	appendAll(t, l, events(root, 0, last-1)...)
	for _, since := range []int64{0, 1, markEvery - 1, markEvery, markEvery + 1, last - 1, last} {
		for _, want := range []int64{1, 2, markEvery, last} {
			var got []int64
			var kept []Record
			err := l.Each(since, func(r *Record, left int64) bool {
				if left != last-r.Cursor+1 {
					t.Errorf("at %d: %d are left", r.Cursor, left)
				}
				got, kept = append(got, r.Cursor), append(kept, *r)
				return int64(len(got)) < want
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := min(want, last-since); int64(len(got)) != n || (n > 0 && (got[0] != since+1 || got[n-1] != since+n)) {
				t.Errorf("%d behind %d: %v", want, since, got)
			}
			for _, r := range kept {
				if *r.SourceSeq != r.Cursor-1 {
					t.Errorf("record %d was kept with seq %d", r.Cursor, *r.SourceSeq)
				}
			}
		}
	}
}

func TestReadRefusesACursorThatIsNotThere(t *testing.T) {
	f := newFolder(t)
	f.maxBytes = 3000
	l := f.open()
	for _, since := range []int64{1, math.MaxInt64} { // nothing is there yet
		check(t, l, since, &CursorError{Cursor: since, Earliest: 1, Last: 0}, false)
	}
	read(t, l, 0, 10)
	appendAll(t, l, events(root, 0, 199)...)
	earliest := l.Earliest()
	if earliest <= 1 || earliest > 200 {
		t.Fatalf("earliest is %d", earliest)
	}
	for _, l := range []*Ledger{l, f.open()} {
		for _, since := range []int64{math.MinInt64, -1, 0, 1, earliest - 2} {
			check(t, l, since, &CursorError{Cursor: since, Earliest: earliest, Last: 200}, true)
		}
		for _, since := range []int64{201, math.MaxInt64} {
			check(t, l, since, &CursorError{Cursor: since, Earliest: earliest, Last: 200}, false)
		}
		if got := read(t, l, earliest-1, 1000); len(got) != int(200-earliest+1) || got[0].Cursor != earliest {
			t.Errorf("%d records", len(got))
		}
		read(t, l, 200, 1)
	}
}

func check(t *testing.T, l *Ledger, since int64, want *CursorError, expired bool) {
	t.Helper()
	_, nothing := l.Read(since, 0)
	_, some := l.Read(since, 10)
	for _, err := range []error{l.Check(since), nothing, some} {
		var got *CursorError
		if !errors.As(err, &got) {
			t.Fatalf("read behind %d: %v", since, err)
		}
		if diff := cmp.Diff(want, got); diff != "" || got.Expired() != expired {
			t.Errorf("read behind %d: %v (expired: %v) %s", since, got, got.Expired(), diff)
		}
	}
}

// Whoever asks before anything was read gets what is on the disk, not an empty ledger.
func TestFirstLook(t *testing.T) {
	f := newFolder(t)
	f.maxBytes = 3000
	writer := f.open()
	appendAll(t, writer, events(root, 0, 199)...)
	if got, want := f.open().Earliest(), writer.Earliest(); got != want || got == 1 {
		t.Errorf("earliest is %d, want %d", got, want)
	}
	if diff := jsonDiff(stateOf(t, writer), stateOf(t, f.open())); diff != "" {
		t.Error(diff)
	}

	empty := newFolder(t).open()
	if got := empty.Earliest(); got != 1 {
		t.Errorf("earliest of an empty ledger is %d", got)
	}
	if diff := jsonDiff(toJSON(t, newState(root)), stateOf(t, empty)); diff != "" {
		t.Error(diff)
	}
	refresh(t, empty)
	if err := empty.Sync(); err != nil {
		t.Errorf("sync of an empty ledger: %v", err)
	}
}

// View costs nothing while there is a state: it is called under locks that the reader of the stream takes.
func TestViewDoesNotTouchTheDisk(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	appendAll(t, l, events(root, 0, 4)...)
	f.disk.before = func(o op) error { return fmt.Errorf("%s of %s", o.name, o.file) }
	if got := l.Earliest(); got != 1 {
		t.Errorf("earliest is %d", got)
	}
	stateOf(t, l)
}

// One sync serves all that was appended before it, by whomever.
func TestSync(t *testing.T) {
	f := newFolder(t)
	a, b := f.open(), f.open()
	sync := func(l *Ledger, want int) {
		t.Helper()
		before := f.disk.count("sync")
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		if got := f.disk.count("sync") - before; got != want {
			t.Errorf("%d syncs, want %d", got, want)
		}
	}
	sync(a, 0) // there is nothing yet
	for i := range int64(5) {
		appendAll(t, a, events(root, i, i)...)
	}
	sync(a, 1)
	sync(a, 0)
	appendAll(t, a, events(root, 0, 4)...) // nothing new
	sync(a, 0)
	appendAll(t, b, events(root, 5, 5)...)
	sync(a, 0) // it has not seen the record, so it can have given no cursor of it
	refresh(t, a)
	sync(a, 1)
	sync(b, 1) // it cannot know
	sync(b, 0)
}

func TestSyncFails(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	appendAll(t, l, events(root, 0, 4)...)
	f.disk.before = func(o op) error {
		if o.name == "sync" {
			return errDisk
		}
		return nil
	}
	for range 2 {
		if err := l.Sync(); !errors.Is(err, errDisk) {
			t.Errorf("sync: %v", err)
		}
	}
	f.disk.before = nil
	if err := l.Sync(); err != nil {
		t.Errorf("sync: %v", err)
	}
}

// A process that cannot open the file again after a fault must not take that for "nothing to sync".
func TestSyncOfAFileThatWasLost(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	appendAll(t, l, events(root, 0, 4)...)
	f.disk.before = func(o op) error {
		if o.name == "writeat" || o.name == "openfile" {
			return errDisk
		}
		return nil
	}
	if _, err := l.Append(t.Context(), events(root, 5, 6)); err == nil {
		t.Fatal("the write was to fail")
	}
	if err := l.Refresh(); !errors.Is(err, errDisk) {
		t.Fatalf("refresh: %v", err)
	}
	if err := l.Sync(); !errors.Is(err, errDisk) {
		t.Errorf("sync: %v", err)
	}
	f.disk.before = nil
	before := f.disk.count("sync")
	if err := l.Sync(); err != nil || f.disk.count("sync") != before+1 {
		t.Errorf("sync: %v", err)
	}
}

// The file can be replaced while it is synced, by this process or by another.
func TestSyncDuringACompaction(t *testing.T) {
	for name, who := range map[string]func(*folder, *Ledger) *Ledger{
		"by this instance":    func(_ *folder, l *Ledger) *Ledger { return l },
		"by another instance": func(f *folder, _ *Ledger) *Ledger { return f.open() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.maxBytes = 3000
			l := f.open()
			appendAll(t, l, events(root, 0, 9)...)
			compactor := who(f, l)
			once := false
			f.disk.before = func(o op) error {
				if o.name == "sync" && !once {
					once = true
					appendAll(t, compactor, events(root, 0, 199)...)
				}
				return nil
			}
			if err := l.Sync(); err != nil {
				t.Errorf("sync: %v", err)
			}
			if compactor.Earliest() == 1 {
				t.Error("nothing was compacted")
			}
			f.disk.before = nil
			refresh(t, l)
			if err := l.Sync(); err != nil {
				t.Errorf("sync: %v", err)
			}
		})
	}
}
