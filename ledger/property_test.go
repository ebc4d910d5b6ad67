package ledger

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// world is a home in which some processes share a ledger, beside a list of what has to be in it.
type world struct {
	f       *folder
	model   []Record
	given   int64 // the highest cursor that a caller may know
	process []*Ledger
}

func (w *world) pick(t *rapid.T) (int, *Ledger) {
	i := rapid.IntRange(0, len(w.process)-1).Draw(t, "process")
	return i, w.process[i]
}

// batch draws what a process has observed: a run of events of one or two sessions, of which others may have recorded
// any part, and requests and snapshots between them.
func (w *world) batch(t *rapid.T) []Entry {
	var batch []Entry
	for _, session := range rapid.SampledFrom([][]string{{root}, {child}, {root, child}, {}}).Draw(t, "sessions") {
		mark := w.watermark(session)
		from := max(0, mark+1-rapid.Int64Range(-3, 8).Draw(t, "behind"))
		if mark >= 0 && rapid.IntRange(0, 9).Draw(t, "host died") == 0 {
			batch = append(batch, w.rewind(t, session))
			continue
		}
		to := from + rapid.Int64Range(0, 12).Draw(t, "run")
		for seq := from; seq <= to; seq++ {
			if seq%15 != 3 { // a chunk, which is not recorded
				batch = append(batch, one(session, seq, from))
			}
		}
	}
	id := fmt.Sprint("r", rapid.IntRange(0, 5).Draw(t, "id"))
	for _, entry := range rapid.SliceOfN(rapid.SampledFrom([]Entry{
		other(TypeQuestionRequested, Coordination{RequestID: "q" + id}),
		other(TypeQuestionResolved, Coordination{RequestID: "q" + id, Outcome: "answered"}),
		other(TypeQueue, Coordination{Queue: []QueueItem{{ID: id, Placement: "queued"}}}),
		other(TypePromptIssued, Coordination{RequestID: "p" + id, Outcome: PromptAccepted}),
	}), 0, 2).Draw(t, "others") {
		batch = slices.Insert(batch, rapid.IntRange(0, len(batch)).Draw(t, "place"), entry)
	}
	return batch
}

// history is what stands of a session's events: what a rewind took back is not in it.
func (w *world) history(session string) (list []Record) {
	for _, r := range w.model {
		switch {
		case r.SourceSessionID != session:
		case r.Type == TypeEvent:
			list = append(list, r)
		case r.Type == TypeRewind:
			list = slices.DeleteFunc(list, func(e Record) bool { return *e.SourceSeq >= r.Coordination.From })
		}
	}
	return list
}

func (w *world) watermark(session string) int64 {
	if list := w.history(session); len(list) > 0 {
		return *list[len(list)-1].SourceSeq
	}
	return -1
}

// rewind is the entry of a process that found the host without its last events.
func (w *world) rewind(t *rapid.T, session string) Entry {
	list := w.history(session)
	from := rapid.Int64Range(0, w.watermark(session)+1).Draw(t, "from")
	e := one(session, 0, 0)
	e.Type, e.SourceSeq, e.Coordination = TypeRewind, nil, Coordination{From: from}
	var left []Entry
	for _, r := range list {
		if *r.SourceSeq < from {
			left = append(left, Entry{Record: r})
		}
		e.Seen = Mark{Seq: *r.SourceSeq, Time: r.Coordination.Time}
	}
	e.Coordination.Session = Prefix(root, left)
	e.Seen.Seq += rapid.SampledFrom([]int64{0, 0, 0, 1}).Draw(t, "another was first")
	return e
}

// expect says what a batch adds to the list, or that it has a hole. It knows nothing of states: it looks through the
// whole list for every entry.
func (w *world) expect(batch []Entry) (added []Record, hole bool) {
	list := &world{model: slices.Clone(w.model)}
	for _, e := range batch {
		r := e.Record
		fresh := true
		switch r.Type {
		case TypeEvent:
			mark := list.watermark(r.SourceSessionID)
			if fresh = *r.SourceSeq > mark; fresh && e.From > mark+1 {
				return nil, true
			}
		case TypeRewind:
			mark := list.watermark(r.SourceSessionID)
			fresh = mark >= r.Coordination.From && mark == e.Seen.Seq
		case TypeQuestionRequested:
			id := r.Coordination.RequestID
			fresh = !list.asked(id) && !list.answered(id)
			if list.last(func(o *Record) bool { return o.Coordination.RequestID == id }) != nil {
				r.Type = TypeReplayed // its turn ended, and nobody answered it
			}
		case TypeQuestionResolved:
			fresh = list.asked(r.Coordination.RequestID)
		case TypeQueue:
			before := list.last(func(o *Record) bool { return o.Type == TypeQueue })
			fresh = before == nil || !slices.Equal(before.Coordination.Queue, r.Coordination.Queue)
		}
		if fresh {
			r.Cursor, r.ObservedAt = int64(len(list.model)+1), 1_700_000_000_000
			list.model = append(list.model, r)
		}
	}
	return list.model[len(w.model):], false
}

func (w *world) last(is func(*Record) bool) *Record {
	for i := range slices.Backward(w.model) {
		if is(&w.model[i]) {
			return &w.model[i]
		}
	}
	return nil
}

// endsTurn reports whether a record takes along what the root asks.
func endsTurn(r *Record) bool {
	return r.SourceSessionID == root && (r.Coordination.Event == "turn/end" || r.Type == TypeRewind)
}

// asked reports whether a question of the root waits for an answer, answered whether it got one.
func (w *world) asked(id string) bool {
	r := w.last(func(r *Record) bool { return r.Coordination.RequestID == id || endsTurn(r) })
	return r != nil && (r.Type == TypeQuestionRequested || r.Type == TypeReplayed)
}

func (w *world) answered(id string) bool {
	r := w.last(func(r *Record) bool { return r.Coordination.RequestID == id })
	return r != nil && r.Type == TypeQuestionResolved
}

func (w *world) append(t *rapid.T) {
	_, l := w.pick(t)
	batch := w.batch(t)
	added, hole := w.expect(batch)
	done, err := l.Append(context.Background(), batch)
	if hole {
		var refused *NotContiguousError
		if !errors.As(err, &refused) {
			t.Fatalf("a batch with a hole was taken: %v", err)
		}
		return
	}
	if err != nil || done.Compaction != nil {
		t.Fatalf("append: %v, %v", err, done.Compaction)
	}
	w.model = append(w.model, added...)
	want := Appended{Added: len(added), Moved: done.Moved || len(added) > 0, Cursor: int64(len(w.model))}
	if len(batch) == 0 {
		want = Appended{}
	}
	if done != want {
		t.Fatalf("append: %+v, want %+v", done, want)
	}
}

// tornWrite is an append that runs out of room; the process may die of it.
func (w *world) tornWrite(t *rapid.T) {
	i, l := w.pick(t)
	batch := w.batch(t)
	added, hole := w.expect(batch)
	room := rapid.IntRange(0, 1500).Draw(t, "room")
	left := room
	for _, r := range added {
		line, err := r.encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		if left -= len(line); left < 0 || hole {
			break
		}
		w.model = append(w.model, r)
	}
	dies, writing := rapid.Bool().Draw(t, "dies"), false
	w.f.disk.before = func(o op) error {
		switch {
		case o.name == "writeat":
			writing = true
			return torn{room}
		case writing && dies:
			return errDisk
		}
		return nil
	}
	_, err := l.Append(context.Background(), batch)
	w.f.disk.before = nil
	if err == nil && (len(added) > 0 || hole) {
		t.Fatal("a write that failed was acknowledged")
	}
	if dies {
		w.restart(i)
	}
}

// tear leaves the beginning of a line, as a process does that is killed.
func (w *world) tear(t *rapid.T) {
	if len(w.model) == 0 {
		return
	}
	line, err := w.model[len(w.model)-1].encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(w.f.path(EventsFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(line[:rapid.IntRange(0, len(line)-1).Draw(t, "bytes")]); err != nil {
		t.Fatal(err)
	}
}

func (w *world) restart(i int) {
	_ = w.process[i].Close()
	w.process[i] = w.f.open()
}

// losePower leaves what the device has, and perhaps some of what it was to get.
func (w *world) losePower(t *rapid.T) {
	now := w.f.content()
	content := map[string]string{}
	for name, data := range w.f.disk.durable {
		content[name] = string(data)
	}
	if rest, ok := strings.CutPrefix(now[EventsFile], content[EventsFile]); ok && len(content) > 0 {
		content[EventsFile] += rest[:rapid.IntRange(0, len(rest)).Draw(t, "kept")]
	}
	w.f.restore(content)
	for i := range w.process {
		w.restart(i)
	}
	var cursor int64
	if err := w.process[0].View(func(s *State) { cursor = s.Cursor }); err != nil {
		t.Fatalf("after a loss of power: %v", err)
	}
	if cursor < w.given {
		t.Fatalf("cursor %d was given away, and after a loss of power the last is %d", w.given, cursor)
	}
	w.model = w.model[:cursor]
}

func (w *world) sync(t *rapid.T) {
	_, l := w.pick(t)
	var cursor int64
	if err := errors.Join(l.View(func(s *State) { cursor = s.Cursor }), l.Sync()); err != nil {
		t.Fatal(err)
	}
	w.given = max(w.given, cursor)
}

func (w *world) read(t *rapid.T) {
	_, l := w.pick(t)
	last := int64(len(w.model))
	since := rapid.Int64Range(-2, last+2).Draw(t, "since")
	limit := rapid.IntRange(0, 100).Draw(t, "limit")
	got, err := l.Read(since, limit)
	earliest := l.Earliest()
	if since < earliest-1 || since > last {
		var refused *CursorError
		want := CursorError{Cursor: since, Earliest: earliest, Last: last}
		if !errors.As(err, &refused) || *refused != want {
			t.Fatalf("read behind %d: %v, want %v", since, err, &want)
		}
		return
	}
	if err != nil {
		t.Fatalf("read behind %d: %v", since, err)
	}
	want := w.model[since:min(since+int64(limit), last)]
	if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(want, got) {
		t.Fatalf("read behind %d: %s", since, cmp.Diff(want, got))
	}
}

// check compares one process with the list.
func (w *world) check(t *rapid.T) {
	_, l := w.pick(t)
	if err := l.Refresh(); err != nil {
		t.Fatalf("refresh: %v", err)
	}
	var got State
	if err := l.View(func(s *State) { got = *s }); err != nil {
		t.Fatal(err)
	}
	want := newState(root)
	for i := range w.model {
		want.apply(&w.model[i])
	}
	if diff := jsonDiff(toJSON(t, want), toJSON(t, &got)); diff != "" {
		t.Fatalf("the state is not what the records fold to: %s", diff)
	}
	since := l.Earliest() - 1
	if rapid.IntRange(0, 3).Draw(t, "thoroughly") > 0 {
		since = max(since, int64(len(w.model))-10)
	}
	records, err := l.Read(since, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if want := w.model[since:]; len(want) != len(records) || len(want) > 0 && !reflect.DeepEqual(want, records) {
		t.Fatalf("the records are not those that were written: %s", cmp.Diff(want, records))
	}
}

// Whatever some processes do to a ledger, and whatever happens to them, it holds the list of what they observed: each
// thing once, the events of a session in their order, the cursors without a hole.
func TestSharedLedgerIsAList(t *testing.T) {
	t.Parallel()
	if checks := flag.Lookup("rapid.checks"); every > 1 && checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("25"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{f: newFolder(t)}
		w.f.maxBytes = rapid.SampledFrom([]int64{1, 6000, 15_000, 1 << 20}).Draw(rt, "maxBytes")
		for range rapid.IntRange(1, 3).Draw(rt, "processes") {
			w.process = append(w.process, w.f.open())
		}
		defer func() {
			for _, l := range w.process {
				_ = l.Close()
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"append":     w.append,
			"append too": w.append,
			"torn write": w.tornWrite,
			"tear":       w.tear,
			"sync":       w.sync,
			"read":       w.read,
			"restart":    func(t *rapid.T) { i, _ := w.pick(t); w.restart(i) },
			"lose power": w.losePower,
			"":           w.check,
		})
	})
}
