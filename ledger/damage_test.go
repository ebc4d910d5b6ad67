package ledger

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// replaceLine changes one line of a ledger, counted from 1.
func replaceLine(n int, edit func(string) string) func(string) string {
	return func(file string) string {
		lines := strings.SplitAfter(file, "\n")
		lines[n-1] = edit(lines[n-1])
		return strings.Join(lines, "")
	}
}

func swap(old, new string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, new, 1) }
}

// A file that is not what this package writes is refused by everything that reads or writes, by those who had it open
// before and by those who come to it, and nothing is repaired.
func TestDamageIsRefusedAndLeftAsItIs(t *testing.T) {
	type damage struct {
		name string
		edit func(string) string
		line int64
		want string // part of the reason
		// fresh is set where only an instance that reads the file from its beginning can notice.
		fresh bool
	}
	for _, tt := range []damage{
		{"not JSON", replaceLine(4, func(string) string { return "nonsense\n" }), 4, "invalid character", true},
		{"an empty line", replaceLine(4, func(s string) string { return "\n" + s }), 4, "unexpected end", true},
		{"zeros in place of a line", replaceLine(4, func(s string) string { return strings.Repeat("\x00", len(s)-1) + "\n" }), 4, "invalid character", true},
		{"a line that lost its end", replaceLine(4, func(s string) string { return s[:20] + "\n" }), 4, "unexpected end", true},
		{"a line that is missing", replaceLine(4, func(string) string { return "" }), 4, "the cursor is 4, it has to be 3", true},
		{"a line that is there twice", replaceLine(4, func(s string) string { return s + s }), 5, "the cursor is 3, it has to be 4", true},
		{"a seq that is there twice", replaceLine(5, swap(`"sourceSeq":3`, `"sourceSeq":2`)), 5, "seq 2 of its session comes after seq 2", true},
		{"a negative seq", replaceLine(4, swap(`"sourceSeq":2`, `"sourceSeq":-2`)), 4, "sourceSeq", true},
		{"an event without a seq", replaceLine(4, swap(`"sourceSeq":2,`, ``)), 4, "sourceSeq", true},
		{"a record of no type", replaceLine(4, swap(`"type":"session/event"`, `"type":""`)), 4, "type", true},
		{"a sentence", replaceLine(4, swap(`"event":"`, `"event":"do the `)), 4, "coordination.event", true},
		{"a word in place of a number", replaceLine(4, swap(`"cursor":3`, `"cursor":"3"`)), 4, "cursor", true},
		{"another task's", replaceLine(1, swap(task, "dsh_ffffffffffff")), 1, "dsh_ffffffffffff", true},
		{"another session's", replaceLine(1, swap(root, "session-other")), 1, "session-other", true},
		{"a newer format", replaceLine(1, swap(`"format":1`, `"format":2`)), 1, "format 2 is newer", true},
		{"no format", replaceLine(1, swap(`"format":1,`, ``)), 1, "first line", true},
		{"a negative format", replaceLine(1, swap(`"format":1`, `"format":-1`)), 1, "first line", true},
		{"a negative beginning", replaceLine(1, swap(`"after":0`, `"after":-1`)), 1, "first line", true},
		{"a beginning without its checkpoint", replaceLine(1, swap(`"after":0`, `"after":9`)), 0, "begin behind 9", true},
		{"no first line", replaceLine(1, func(string) string { return "" }), 1, "first line", true},
		{"nothing at all", func(string) string { return "" }, 1, "first line", false},
		{"half a first line", func(s string) string { return s[:20] }, 1, "first line", false},
		{"shorter than it was", func(s string) string { return s[:len(s)/2] }, 0, "shrank", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFolder(t)
			old := f.open()
			appendAll(t, old, events(root, 0, 9)...)
			f.change(EventsFile, tt.edit)
			before := f.content()
			check := func(who, what string, err error, line int64) {
				t.Helper()
				var damaged *DamagedError
				if !errors.As(err, &damaged) {
					t.Fatalf("%s of the %s instance: %v", what, who, err)
				}
				if damaged.Path != f.path(EventsFile) || damaged.Line != line || !strings.Contains(damaged.Reason, tt.want) {
					t.Errorf("%s of the %s instance: %v, want line %d and %q", what, who, damaged, line, tt.want)
				}
			}
			all := func(who string, l *Ledger, line int64) {
				t.Helper()
				for range 2 { // the second time is no better
					_, err := l.Append(t.Context(), events(root, 0, 12))
					check(who, "append", err, line)
					_, err = l.Read(0, 10)
					check(who, "read", err, line)
					check(who, "refresh", l.Refresh(), line)
				}
			}
			switch {
			case !tt.fresh && tt.line == 0:
				all("old", old, 0)
			case !tt.fresh:
				tt.want = "shrank"
				all("old", old, 0)
				tt.want = "first line"
				fallthrough
			default:
				fresh := f.open()
				all("new", fresh, tt.line)
				check("new", "view", fresh.View(func(*State) {}), tt.line)
				check("new", "sync", fresh.Sync(), tt.line)
				if got := fresh.Earliest(); got != 1 && got != 10 {
					t.Errorf("earliest is %d", got)
				}
			}
			if diff := cmp.Diff(before, f.content()); diff != "" {
				t.Errorf("something was changed: %s", diff)
			}
		})
	}
}

// A process that has the file open reads on from where it was, and notices what is wrong from there on.
func TestDamageBehindTheLastLook(t *testing.T) {
	f := newFolder(t)
	a, b := f.open(), f.open()
	appendAll(t, a, events(root, 0, 4)...)
	refresh(t, b)
	state := stateOf(t, b)
	f.change(EventsFile, func(s string) string { return s + "nonsense\n" })
	var damaged *DamagedError
	if _, err := b.Append(t.Context(), events(root, 5, 6)); !errors.As(err, &damaged) || damaged.Line != 7 {
		t.Errorf("append: %v", err)
	}
	// What was read before the damage stays true.
	if diff := jsonDiff(state, stateOf(t, b)); diff != "" {
		t.Error(diff)
	}
}

func TestRecordChangedUnderAReader(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"another cursor": swap(`"cursor":3`, `"cursor":8`),
		"nonsense":       swap(`"cursor":3`, `"cursor":3}`),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			l := f.open()
			appendAll(t, l, events(root, 0, 4)...)
			refresh(t, l)
			data := []byte(replaceLine(4, edit)(f.content()[EventsFile]))
			file, err := os.OpenFile(f.path(EventsFile), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if _, err := file.WriteAt(data, 0); err != nil {
				t.Fatal(err)
			}
			var damaged *DamagedError
			if records, err := l.Read(0, 10); !errors.As(err, &damaged) {
				t.Errorf("%d records, %v", len(records), err)
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	f := newFolder(t)
	f.maxBytes = 3000
	old := f.open()
	appendAll(t, old, events(root, 0, 99)...) // large enough for a checkpoint
	if err := os.Remove(f.path(EventsFile)); err != nil {
		t.Fatal(err)
	}
	before := f.content()
	if len(before) != 1 {
		t.Fatalf("there is no checkpoint: %d files", len(before))
	}
	for who, l := range map[string]*Ledger{"old": old, "new": f.open()} {
		var damaged *DamagedError
		_, err := l.Append(t.Context(), events(root, 100, 101))
		if !errors.As(err, &damaged) || !strings.Contains(damaged.Reason, "gone") {
			t.Errorf("append of the %s instance: %v", who, err)
		}
		if err := l.Refresh(); !errors.As(err, &damaged) {
			t.Errorf("refresh of the %s instance: %v", who, err)
		}
	}
	if diff := cmp.Diff(before, f.content()); diff != "" {
		t.Errorf("something was changed: %s", diff)
	}
}

func TestOlderFileInItsPlace(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	appendAll(t, l, events(root, 0, 4)...)
	older := f.content()
	appendAll(t, l, events(root, 5, 9)...)
	f.restore(older) // as from a backup: another file
	var damaged *DamagedError
	for range 2 {
		if _, err := l.Append(t.Context(), events(root, 0, 12)); !errors.As(err, &damaged) || !strings.Contains(damaged.Reason, "older file") {
			t.Errorf("append: %v", err)
		}
		if err := l.View(func(*State) {}); !errors.As(err, &damaged) {
			t.Errorf("view: %v", err)
		}
	}
	if diff := cmp.Diff(older, f.content()); diff != "" {
		t.Errorf("something was changed: %s", diff)
	}
}

func TestFileWithoutLinesIsNotReadWhole(t *testing.T) {
	f := newFolder(t)
	appendAll(t, f.open(), events(root, 0, 4)...)
	if err := os.Truncate(f.path(EventsFile), 1<<40); err != nil { // a hole, which takes no room
		t.Skipf("the file system has no holes: %v", err)
	}
	l := f.open()
	var damaged *DamagedError
	if err := l.Refresh(); !errors.As(err, &damaged) || !strings.Contains(damaged.Reason, "longer than any record") {
		t.Errorf("refresh: %v", err)
	}
}
