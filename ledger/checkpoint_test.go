package ledger

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mixed is a stretch of a task's life, with everything in it that a state can hold. It ends with seq from+9.
func mixed(from int64) []Entry {
	id := fmt.Sprint(from)
	inbox := one(root, from+8, 0)
	inbox.Coordination = Coordination{Event: "agent/inbox/spliced", Inbox: &InboxChange{Target: "next-turn", Inserted: []InboxItem{{ID: "i" + id, RequestID: "p" + id}}}}
	if from%20 == 0 {
		inbox.Coordination.Inbox.Inserted, inbox.Coordination.Inbox.Removed = nil, 1
	}
	batch := append(events(root, from, from+7), events(child, from, from+2)...)
	for i := range batch {
		batch[i].From = 0 // the tests leave stretches out
	}
	return append(batch,
		other(TypePromptIssued, Coordination{RequestID: "p" + id, Outcome: PromptAccepted, Fingerprint: "f" + id}), inbox,
		other(TypeQuestionRequested, Coordination{RequestID: "q" + id}),
		other(TypeApprovalRequested, Coordination{RequestID: "a" + id, ApprovalID: "app" + id}),
		other(TypeQuestionResolved, Coordination{RequestID: "q" + id, Outcome: "answered"}),
		other(TypeQueue, Coordination{Queue: []QueueItem{{ID: "i" + id, Placement: "queued"}}}),
		other(TypeJobs, Coordination{Jobs: []JobState{}}),
		other(TypeGap, Coordination{From: from + 9, To: from + 9}))
}

// model is what a ledger holds, as a list that nobody forgets anything of.
type model struct{ records []Record }

// follow takes the records in that an instance has and the model has not.
func (m *model) follow(tb testing.TB, l *Ledger) {
	tb.Helper()
	m.records = append(m.records, read(tb, l, int64(len(m.records)), 1_000_000)...)
}

// compare holds a ledger against the model.
func (m *model) compare(tb testing.TB, l *Ledger) {
	tb.Helper()
	refresh(tb, l)
	if diff := jsonDiff(foldAll(tb, m.records), stateOf(tb, l)); diff != "" {
		tb.Fatalf("the state is not what the records fold to: %s", diff)
	}
	earliest := l.Earliest()
	got := read(tb, l, earliest-1, 1_000_000)
	if want := m.records[earliest-1:]; !reflect.DeepEqual(want, got) {
		tb.Fatalf("the records from %d on are not those that were written: %s", earliest, cmp.Diff(want, got))
	}
}

func TestCompactionForgetsRecordsAndNothingElse(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.maxBytes = 20_000
	a, b := f.open(), f.open()
	var m model
	earliest, compactions := int64(1), 0
	for i := range int64(60) {
		appendAll(t, []*Ledger{a, b}[i%2], mixed(i*10)...)
		m.follow(t, a)
		if i%4 == 0 {
			m.compare(t, a)
		}
		refresh(t, a)
		m.compare(t, b)
		if a.Earliest() != b.Earliest() || a.Earliest() < earliest {
			t.Fatalf("earliest went from %d to %d and %d", earliest, a.Earliest(), b.Earliest())
		}
		if a.Earliest() > earliest {
			compactions++
		}
		earliest = a.Earliest()
		if earliest >= int64(len(m.records)) {
			t.Fatalf("of %d records the earliest is %d: no recent cursor can go on", len(m.records), earliest)
		}
		if size := int64(len(f.content()[EventsFile])); size > f.maxBytes+10_000 {
			t.Fatalf("the file has %d bytes", size)
		}
	}
	for i := range m.records {
		if m.records[i].Cursor != int64(i+1) {
			t.Fatalf("record %d has cursor %d", i+1, m.records[i].Cursor)
		}
	}
	if compactions < 4 {
		t.Errorf("%d compactions", compactions)
	}
	m.compare(t, f.open())
	if diff := cmp.Diff([]string{CheckpointFile, EventsFile}, slices.Sorted(maps.Keys(f.content()))); diff != "" {
		t.Error(diff)
	}
}

// grow appends until the next append will compact.
func grow(tb testing.TB, f *folder, l *Ledger, m *model) (next []Entry) {
	tb.Helper()
	for i := int64(0); ; i++ {
		before := f.content()
		earliest := l.Earliest()
		appendAll(tb, l, mixed(i*10)...)
		if l.Earliest() > earliest && earliest > 1 { // the second compaction: there is a checkpoint already
			f.restore(before)
			return mixed(i * 10)
		}
		m.follow(tb, l)
	}
}

// A process can die, and the power can go, between any two writes of a compaction.
func TestCrashDuringCompaction(t *testing.T) {
	f := newFolder(t)
	f.maxBytes = 20_000
	var m model
	batch := grow(t, f, f.open(), &m)
	before := f.content()

	type moment struct {
		name    string
		content map[string]string
	}
	var moments []moment
	writer := f.open()
	refresh(t, writer)
	f.disk.durable = map[string][]byte{EventsFile: []byte(before[EventsFile]), CheckpointFile: []byte(before[CheckpointFile])}
	f.disk.after = func(o op) {
		if !o.changes() && o.name != "sync" {
			return
		}
		name := fmt.Sprintf("%d %s of %s", len(moments)/2, o.name, o.file)
		moments = append(moments, moment{name + ", process killed", f.content()})
		durable := map[string]string{}
		for name, data := range f.disk.durable {
			durable[name] = string(data)
		}
		moments = append(moments, moment{name + ", power lost", durable})
	}
	done := appendAll(t, writer, batch...)
	f.disk.after = nil
	if done.Compaction != nil || len(moments) != 2*4 { // write, sync, checkpoint, file
		t.Fatalf("%d moments, %v", len(moments), done.Compaction)
	}
	recorded := int64(len(m.records))
	m.follow(t, writer)

	for _, at := range moments {
		t.Run(at.name, func(t *testing.T) {
			f.tb = t
			f.restore(at.content)
			l := f.open()
			var cursor int64
			if err := l.View(func(s *State) { cursor = s.Cursor }); err != nil {
				t.Fatal(err)
			}
			if cursor != recorded && cursor != int64(len(m.records)) {
				t.Errorf("cursor is %d; %d were written before and %d after", cursor, recorded, len(m.records))
			}
			// Whoever observed the same appends the same, and it is there once.
			if done := appendAll(t, l, batch...); done.Cursor < int64(len(m.records)) {
				t.Fatalf("append: %+v", done)
			}
			after := model{slices.Clone(m.records)}
			after.follow(t, l) // prompts are no observations: each is recorded
			after.compare(t, l)
			appendAll(t, l, mixed(10_000)...)
			after.follow(t, l)
			after.compare(t, l)
			after.compare(t, f.open())
		})
	}
}

// A compaction that fails costs nothing but room: the append that met it has worked.
func TestCompactionFails(t *testing.T) {
	for _, fault := range []op{
		{"sync", EventsFile}, {"writefile", CheckpointFile}, {"readat", EventsFile}, {"writefile", EventsFile}, {"openfile", EventsFile}, {"readfile", CheckpointFile},
	} {
		t.Run(fault.name+" of "+fault.file, func(t *testing.T) {
			f := newFolder(t)
			f.maxBytes = 20_000
			var m model
			grow(t, f, f.open(), &m)
			l := f.open()
			m.compare(t, l)
			failed := 0
			f.disk.before = func(o op) error {
				if o == fault {
					return errDisk
				}
				return nil
			}
			for i := int64(1000); failed == 0; i++ {
				done, err := l.Append(t.Context(), mixed(i*10))
				if err != nil {
					t.Fatal(err)
				}
				if done.Compaction != nil {
					failed++
					if !errors.Is(done.Compaction, errDisk) {
						t.Errorf("compaction: %v", done.Compaction)
					}
				}
				if int64(done.Added) == 0 || done.Cursor == 0 {
					t.Errorf("append: %+v", done)
				}
			}
			// It is tried again when the file has grown by a part, not at every append.
			if reopens := fault.name == "openfile" || fault.name == "readfile"; !reopens {
				if done := appendAll(t, l, other(TypeStreamError, Coordination{})); done.Compaction != nil {
					t.Errorf("it was tried again at once: %v", done.Compaction)
				}
			}
			f.disk.before = nil
			m.follow(t, l)
			m.compare(t, l)
			m.compare(t, f.open())
			for i := int64(2000); l.Earliest() <= int64(len(m.records))-300; i++ {
				appendAll(t, l, mixed(i*10)...)
				m.follow(t, l)
				if i > 2100 {
					t.Fatal("it is not tried again")
				}
			}
			m.compare(t, l)
		})
	}
}

func TestLedgerOfNoSize(t *testing.T) {
	f := newFolder(t)
	f.maxBytes = 1
	l := f.open()
	appendAll(t, l, other(TypeQuestionResolved, Coordination{RequestID: "never-asked"})) // an empty ledger is larger than it may be
	var m model
	for seq := range int64(50) {
		if done := appendAll(t, l, events(root, seq, seq)...); done.Compaction != nil {
			t.Fatal(done.Compaction)
		}
		m.follow(t, l)
		m.compare(t, l)
		m.compare(t, f.open())
	}
}

func TestDamagedCheckpointIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(string) string
		want string
	}{
		"not JSON":                     {func(string) string { return "nonsense" }, "invalid character"},
		"nothing":                      {func(string) string { return "" }, "unexpected end"},
		"half of it":                   {func(s string) string { return s[:len(s)/2] }, "unexpected end"},
		"null":                         {func(string) string { return "null" }, "not a checkpoint"},
		"an empty object":              {func(string) string { return "{}" }, "not a checkpoint"},
		"a newer format":               {swap(`"format":1`, `"format":2`), "format 2 is newer"},
		"another task's":               {swap(task, "dsh_ffffffffffff"), "dsh_ffffffffffff"},
		"another session's":            {swap(`"root":"session-root"`, `"root":"session-other"`), "session-other"},
		"no state":                     {func(string) string { return `{"format":1,"taskId":"` + task + `","state":null}` }, "not a checkpoint"},
		"no cursor":                    {swap(`"cursor":`, `"curser":`), "not a checkpoint"},
		"a session of nothing":         {swap(`"sessions":{`, `"sessions":{"x":null,`), `session "x" is null`},
		"a request of nothing":         {swap(`"pending":{`, `"pending":{"x":null,`), `pending request "x" is null`},
		"a prompt of nothing":          {swap(`"prompts":{`, `"prompts":{"x":null,`), `prompt "x" is null`},
		"a session without watermark":  {swap(`"watermark":`, `"watermerk":`), "is incomplete"},
		"a session without candidate":  {swap(`"candidate":`, `"candidete":`), "is incomplete"},
		"a watermark below none":       {swap(`"watermark":`, `"watermark":-`), "is incomplete"},
		"a text in place of a session": {swap(`"sessions":{`, `"sessions":{"x":"y",`), "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.maxBytes = 20_000
			var m model
			grow(t, f, f.open(), &m)
			f.change(CheckpointFile, tt.edit)
			before := f.content()
			l := f.open()
			var damaged *DamagedError
			_, err := l.Append(t.Context(), mixed(10_000))
			if !errors.As(err, &damaged) || damaged.Path != f.path(CheckpointFile) || !strings.Contains(damaged.Reason, tt.want) {
				t.Errorf("append: %v, want %q", err, tt.want)
			}
			if err := l.View(func(*State) {}); !errors.As(err, &damaged) {
				t.Errorf("view: %v", err)
			}
			if diff := cmp.Diff(before, f.content()); diff != "" {
				t.Errorf("something was changed: %s", diff)
			}
		})
	}
}

func TestCheckpointAndFileBelongTogether(t *testing.T) {
	f := newFolder(t)
	f.maxBytes = 20_000
	l := f.open()
	var older, newer map[string]string
	for i, ends := int64(0), int64(0); newer == nil; i++ {
		done := appendAll(t, l, mixed(i*10)...)
		switch content := f.content(); {
		case older == nil && content[CheckpointFile] != "":
			older, ends = content, done.Cursor
		case older != nil && l.Earliest() > ends+1: // the file begins behind the end of the older one
			newer = content
		}
	}
	for name, tt := range map[string]struct {
		content map[string]string
		want    string
	}{
		"an older checkpoint":             {map[string]string{CheckpointFile: older[CheckpointFile], EventsFile: newer[EventsFile]}, "begin behind"},
		"no checkpoint":                   {map[string]string{EventsFile: newer[EventsFile]}, "begin behind"},
		"an older file":                   {map[string]string{CheckpointFile: newer[CheckpointFile], EventsFile: older[EventsFile]}, "before the checkpoint"},
		"a file that lost its last lines": {map[string]string{CheckpointFile: newer[CheckpointFile], EventsFile: newer[EventsFile][:len(newer[EventsFile])-20]}, "before the checkpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			f.tb = t
			f.restore(tt.content)
			var damaged *DamagedError
			if _, err := f.open().Append(t.Context(), mixed(10_000)); !errors.As(err, &damaged) || !strings.Contains(damaged.Reason, tt.want) {
				t.Errorf("append: %v", err)
			}
			if diff := cmp.Diff(tt.content, f.content()); diff != "" {
				t.Errorf("something was changed: %s", diff)
			}
		})
	}
}
