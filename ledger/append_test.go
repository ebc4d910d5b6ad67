package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAppendRecordsEachEventOnce(t *testing.T) {
	f := newFolder(t)
	a, b := f.open(), f.open()
	for _, tt := range []struct {
		name    string
		by      *Ledger
		entries []Entry
		want    Appended
	}{
		{"the first", a, events(root, 0, 2), Appended{Added: 3, Moved: true, Cursor: 3}},
		{"the same, seen by another", b, events(root, 0, 2), Appended{Moved: true, Cursor: 3}},
		{"the same again", b, events(root, 0, 2), Appended{Cursor: 3}},
		{"more than the other saw", b, events(root, 1, 4), Appended{Added: 2, Moved: true, Cursor: 5}},
		{"twice in a batch", a, append(events(root, 3, 5), events(root, 3, 5)...), Appended{Added: 1, Moved: true, Cursor: 6}},
		{"another session", a, events(child, 0, 1), Appended{Added: 2, Moved: true, Cursor: 8}},
		{"across chunks, which take seqs and are not recorded", b, []Entry{one(root, 50, 6)}, Appended{Added: 1, Moved: true, Cursor: 9}},
		{"what lay between them comes too late", a, []Entry{one(root, 20, 0)}, Appended{Moved: true, Cursor: 9}},
		{"nothing", a, nil, Appended{}},
	} {
		if got := appendAll(t, tt.by, tt.entries...); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	var got []string
	for _, r := range read(t, a, 0, 100) {
		got = append(got, strings.TrimPrefix(r.SourceSessionID, "session-")+" "+toJSON(t, *r.SourceSeq))
	}
	want := []string{"root 0", "root 1", "root 2", "root 3", "root 4", "root 5", "child 0", "child 1", "root 50"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAppendRecordsRequestsAndSnapshotsOnce(t *testing.T) {
	queue := other(TypeQueue, Coordination{Queue: []QueueItem{{ID: "i1", Placement: "queued"}}})
	jobs := other(TypeJobs, Coordination{Jobs: []JobState{{ID: "j1", Status: "running"}}})
	f := newFolder(t)
	a, b := f.open(), f.open()
	batch := []Entry{
		other(TypeQuestionRequested, Coordination{RequestID: "q"}),
		other(TypeApprovalRequested, Coordination{RequestID: "a", ApprovalID: "app"}),
		queue, jobs,
		other(TypeApprovalResolved, Coordination{ApprovalID: "app", Outcome: "rejected"}),
		other(TypeQuestionResolved, Coordination{RequestID: "q", Outcome: "answered"}),
	}
	if got := appendAll(t, a, batch...).Added; got != len(batch) {
		t.Errorf("the first observer added %d of %d", got, len(batch))
	}
	if got := appendAll(t, b, batch...).Added; got != 0 {
		t.Errorf("the second observer added %d", got)
	}
	records := read(t, b, 0, 10)
	if got := records[4].Coordination.RequestID; got != "a" {
		t.Errorf("the decision names request %q, want the one it decides", got)
	}
	both := append([]Entry{}, queue, jobs)
	both[0].Coordination.Queue = []QueueItem{{ID: "i1", Placement: "steering"}}
	both[1].Coordination.Jobs = nil
	if got := appendAll(t, b, both...).Added; got != 2 {
		t.Errorf("of two changed snapshots %d were added", got)
	}
}

func TestAppendIsOneLockAndOneWrite(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	appendAll(t, l, events(root, 0, 0)...)
	for _, n := range []int64{1, 10, 300} {
		writes, syncs := f.disk.count("writeat"), f.disk.count("sync")
		mark := int64(-1)
		if err := l.View(func(s *State) { mark = s.Watermark(root) }); err != nil {
			t.Fatal(err)
		}
		appendAll(t, l, events(root, mark+1, mark+n)...)
		if got := f.disk.count("writeat") - writes; got != 1 {
			t.Errorf("a batch of %d took %d writes", n, got)
		}
		if got := f.disk.count("sync") - syncs; got != 0 {
			t.Errorf("a batch of %d took %d syncs", n, got)
		}
		appendAll(t, l, events(root, mark+1, mark+n)...)
		if got := f.disk.count("writeat") - writes; got != 1 {
			t.Errorf("a batch of %d with nothing new in it was written", n)
		}
	}
}

func TestAppendReadsOnlyWhatIsNew(t *testing.T) {
	f := newFolder(t)
	a, b := f.open(), f.open()
	appendAll(t, a, events(root, 0, 999)...)
	refresh(t, b)
	opens, reads := f.disk.count("openfile"), f.disk.count("readat")
	for i := range int64(10) {
		appendAll(t, a, events(root, 1000+i, 1000+i)...)
		refresh(t, b)
	}
	if got := f.disk.count("openfile") - opens; got != 0 {
		t.Errorf("the file was opened %d times more", got)
	}
	if got := f.disk.count("readat") - reads; got != 10 {
		t.Errorf("10 records of another took %d reads", got)
	}
}

func TestAppendRefusesAHole(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	appendAll(t, l, events(root, 0, 4)...)
	before, state := f.content(), stateOf(t, l)

	batch := append([]Entry{other(TypeQuestionRequested, Coordination{RequestID: "q"})}, events(child, 0, 1)...)
	_, err := l.Append(t.Context(), append(batch, one(root, 7, 6)))
	var hole *NotContiguousError
	if !errors.As(err, &hole) {
		t.Fatalf("append: %v", err)
	}
	if diff := cmp.Diff(&NotContiguousError{SessionID: root, From: 6, Watermark: 4}, hole); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, f.content()); diff != "" {
		t.Errorf("something was written: %s", diff)
	}
	if diff := jsonDiff(state, stateOf(t, l)); diff != "" {
		t.Errorf("the state moved: %s", diff)
	}
	// With the history read, it goes on; and so it does with a gap where the history has none.
	if got := appendAll(t, l, append(batch, events(root, 5, 7)...)...).Added; got != 6 {
		t.Errorf("added %d of 6", got)
	}
	gap := []Entry{other(TypeGap, Coordination{From: 8, To: 19}), one(root, 20, 8)}
	if got := appendAll(t, l, gap...).Added; got != 2 {
		t.Errorf("added %d of 2", got)
	}
}

func TestAppendTellsWhatItSawMove(t *testing.T) {
	f := newFolder(t)
	a, b := f.open(), f.open()
	appendAll(t, a, events(root, 0, 4)...)
	refresh(t, b)
	if got := appendAll(t, b, events(root, 0, 4)...); got.Moved {
		t.Error("nothing moved since the last look")
	}
	// A write that failed must not count as seen: the same records move the ledger when they are written at last.
	f.disk.before = func(o op) error {
		if o.name == "writeat" {
			return errDisk
		}
		return nil
	}
	if _, err := b.Append(t.Context(), events(root, 5, 9)); err == nil {
		t.Fatal("the write was to fail")
	}
	f.disk.before = nil
	if got := appendAll(t, b, events(root, 5, 9)...); !got.Moved || got.Added != 5 {
		t.Errorf("after the fault: %+v", got)
	}
}

func TestAppendGivesUpWithItsContext(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	ctx, cancel := context.WithCancel(t.Context())
	f.lock <- struct{}{}
	cancel()
	if _, err := l.Append(ctx, events(root, 0, 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("append: %v", err)
	}
	<-f.lock
	appendAll(t, l, events(root, 0, 0)...)
}

func TestRecordsOnDisk(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	appendAll(t, l, one(child, 0, 0), other(TypeQuestionRequested, Coordination{RequestID: "q"}))
	want := `{"format":1,"taskId":"dsh_0123456789ab","root":"session-root","after":0}
{"cursor":1,"observedAt":1700000000000,"sourceSessionId":"session-child","sourceSeq":0,"parentSessionId":"session-root","origin":"subagent","type":"session/event","coordination":{"event":"turn/start","turn":1}}
{"cursor":2,"observedAt":1700000000000,"sourceSessionId":"session-root","origin":"root","type":"question/requested","coordination":{"requestId":"q"}}
`
	if diff := cmp.Diff(map[string]string{EventsFile: want}, f.content()); diff != "" {
		t.Error(diff)
	}
}

// A process that is killed in the middle of a write leaves the beginning of a line, or of several.
func TestTornTailIsCutOff(t *testing.T) {
	t.Parallel()
	batch := append(events(root, 2, 3), other(TypeQuestionRequested, Coordination{RequestID: "q"}))
	f := newFolder(t)
	writer := f.open()
	appendAll(t, writer, events(root, 0, 1)...)
	start := f.content()
	appendAll(t, writer, batch...)
	want := f.content()
	state := stateOf(t, writer)
	lines := want[EventsFile][len(start[EventsFile]):]
	for k := 0; k < len(lines); k += every {
		torn := map[string]string{EventsFile: start[EventsFile] + lines[:k]}
		f.restore(torn)
		whole := int64(2 + strings.Count(lines[:k], "\n"))

		reader := f.open()
		if got := read(t, reader, 0, 10); int64(len(got)) != whole {
			t.Fatalf("after %d bytes a reader has %d records, want %d", k, len(got), whole)
		}
		if diff := cmp.Diff(torn, f.content()); diff != "" {
			t.Fatalf("a reader changed the file: %s", diff)
		}
		if got := appendAll(t, f.open(), batch...); got.Cursor != 5 || int64(got.Added) != 5-whole {
			t.Fatalf("after %d bytes the append did %+v", k, got)
		}
		if diff := cmp.Diff(want, f.content()); diff != "" {
			t.Fatalf("after %d bytes: %s", k, diff)
		}
		refresh(t, reader)
		if diff := jsonDiff(state, stateOf(t, reader)); diff != "" {
			t.Fatalf("after %d bytes: %s", k, diff)
		}
	}
}

// Nothing of a torn line is left behind a shorter one.
func TestLongTornTailIsCutOff(t *testing.T) {
	f := newFolder(t)
	appendAll(t, f.open(), events(root, 0, 1)...)
	start := f.content()
	appendAll(t, f.open(), events(root, 2, 2)...)
	want := f.content()
	f.restore(map[string]string{EventsFile: start[EventsFile] + strings.Repeat(`{"cursor":3`, 500)})
	appendAll(t, f.open(), events(root, 2, 2)...)
	if diff := cmp.Diff(want, f.content()); diff != "" {
		t.Error(diff)
	}
}

func TestRecordOfTooManyBytesIsRefused(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	l := f.open()
	appendAll(t, l, events(root, 0, 0)...)
	before := f.content()
	item := QueueItem{ID: strings.Repeat("i", 128), Placement: "queued"}
	long := other(TypeQueue, Coordination{Queue: make([]QueueItem, maxLine/128)})
	for i := range long.Coordination.Queue {
		long.Coordination.Queue[i] = item
	}
	if _, err := l.Append(t.Context(), []Entry{long}); err == nil || !strings.Contains(err.Error(), "record 1 of the batch") {
		t.Errorf("append: %v", err)
	}
	if diff := cmp.Diff(before, f.content()); diff != "" {
		t.Error("something was written")
	}
	long.Coordination.Queue = long.Coordination.Queue[:3*readBlock/128] // one that takes several reads
	appendAll(t, l, append([]Entry{long}, events(root, 1, 1)...)...)
	if got := read(t, f.open(), 1, 10); len(got) != 2 || !cmp.Equal(got[0].Coordination.Queue, long.Coordination.Queue) {
		t.Errorf("%d records were read", len(got))
	}
}

func TestStateKeepsNumbersThatAreZero(t *testing.T) {
	var s Session
	if err := json.Unmarshal([]byte(`{"watermark":0,"final":0,"candidate":0}`), &s); err != nil || s.Watermark != 0 || s.Final != 0 || s.Candidate != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
