package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// keepAside keeps a damaged file as the bridge's home does.
func keepAside(path string) (string, error) {
	for n := 1; ; n++ {
		as := fmt.Sprintf("%s.damaged-%d", path, n)
		err := os.Link(path, as)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		return as, err
	}
}

func repeatable(id, outcome string) Entry {
	return other(TypePromptIssued, Coordination{RequestID: id, Fingerprint: strings.Repeat("a", 64), Outcome: outcome})
}

// damages are ways in which a ledger of some ten records can be broken.
var damages = map[string]func(f *folder){
	"a line that is none":        func(f *folder) { f.change(EventsFile, replaceLine(4, func(string) string { return "nonsense\n" })) },
	"a line that is missing":     func(f *folder) { f.change(EventsFile, replaceLine(4, func(string) string { return "" })) },
	"another task's file":        func(f *folder) { f.change(EventsFile, swap(task, "dsh_ffffffffffff")) },
	"an empty file":              func(f *folder) { f.change(EventsFile, func(string) string { return "" }) },
	"a file without a beginning": func(f *folder) { f.change(EventsFile, func(s string) string { return s[len(s)/2:] }) },
	"a cursor beyond belief":     func(f *folder) { f.change(EventsFile, swap(`"cursor":3,`, `"cursor":9000000000000000000,`)) },
	"a checkpoint that is none":  func(f *folder) { f.write(CheckpointFile, "{") },
	"a checkpoint ahead": func(f *folder) {
		f.write(CheckpointFile, fmt.Sprintf(`{"format":1,"taskId":%q,"state":{"cursor":777777,"root":%q}}`, task, root))
	},
}

// A recovered ledger goes on above every cursor of the damaged one, takes the whole history again, still knows the
// prompts that may be repeated, and the other processes go on with it by themselves.
func TestRecover(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			a, b := f.open(), f.open()
			appendAll(t, a, append([]Entry{repeatable("p1", PromptAccepted)}, events(root, 0, 9)...)...)
			refresh(t, b)
			damage(f)
			before := f.content()

			l := f.open()
			done, err := l.Recover(t.Context(), 0, keepAside)
			if err != nil || done.Damage == nil {
				t.Fatalf("recovered %+v, %v", done, err)
			}
			if done.After < done.Highest+cursorStep || done.After < 11 {
				t.Errorf("the new cursors begin behind %d, the highest read was %d", done.After, done.Highest)
			}
			for _, kept := range done.Kept {
				name, _, _ := strings.Cut(filepath.Base(kept), ".damaged")
				if diff := cmp.Diff(before[name], f.content()[filepath.Base(kept)]); diff != "" {
					t.Errorf("%s is not what was there: %s", kept, diff)
				}
			}
			for who, l := range map[string]*Ledger{"the one that recovered it": l, "one that had it open": b, "a new one": f.open()} {
				appended := appendAll(t, l, events(root, 0, 9)...)
				if appended.Cursor != done.After+10 {
					t.Errorf("%s is at cursor %d, want %d", who, appended.Cursor, done.After+10)
				}
				var expired *CursorError
				if _, err := l.Read(11, 1); !errors.As(err, &expired) || !expired.Expired() || expired.Earliest != done.After+1 {
					t.Errorf("an old cursor read by %s: %v", who, err)
				}
			}
			again, err := f.open().Recover(t.Context(), 0, keepAside)
			if err != nil || again.Damage != nil || again.Torn != 0 {
				t.Errorf("the second time: %+v, %v", again, err)
			}
			issued, known := issuedPrompt(t, l, "p1")
			if readable := name != "an empty file" && name != "a file without a beginning"; known != readable {
				t.Errorf("the prompt is known: %v", known)
			} else if known && (issued.Outcome != PromptAccepted || issued.Cursor != done.After) {
				t.Errorf("the prompt is %+v", issued)
			}
		})
	}
}

// issuedPrompt reads one from the ledger's state.
func issuedPrompt(tb testing.TB, l *Ledger, id string) (issued Issued, known bool) {
	tb.Helper()
	if err := l.View(func(s *State) { issued, known = s.IssuedPrompt(id) }); err != nil {
		tb.Fatal(err)
	}
	return issued, known
}

func TestRecoverLeavesASoundLedgerAlone(t *testing.T) {
	f := newFolder(t)
	appendAll(t, f.open(), events(root, 0, 9)...)
	before := f.content()
	if done, err := f.open().Recover(t.Context(), 0, keepAside); err != nil || !cmp.Equal(done, Recovered{}) {
		t.Errorf("a sound ledger: %+v, %v", done, err)
	}
	f.change(EventsFile, func(s string) string { return s + `{"cursor":11,"obs` })
	if done, err := f.open().Recover(t.Context(), 0, keepAside); err != nil || !cmp.Equal(done, Recovered{Torn: 17}) {
		t.Errorf("a torn line: %+v, %v", done, err)
	}
	if diff := cmp.Diff(before, f.content()); diff != "" {
		t.Errorf("something was changed: %s", diff)
	}
}

// A file that is gone, or an older one in its place, looks sound to whoever comes to it; who knew it better says so.
func TestRecoverOfAnOlderFile(t *testing.T) {
	for _, name := range []string{"gone", "older"} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			b := f.open()
			appendAll(t, b, events(root, 0, 4)...)
			older := f.content()
			appendAll(t, b, events(root, 0, 9)...)
			if name == "gone" {
				older = nil
			}
			f.restore(older)
			var damaged *DamagedError
			if err := b.Refresh(); !errors.As(err, &damaged) || damaged.Seen != 10 {
				t.Fatalf("the one that had it open: %v (%+v)", err, damaged)
			}
			done, err := f.open().Recover(t.Context(), damaged.Seen, keepAside)
			if err != nil || done.Damage == nil || done.Highest < 10 {
				t.Fatalf("recovered %+v, %v", done, err)
			}
			if at := appendAll(t, b, events(root, 0, 9)...).Cursor; at != done.After+10 {
				t.Errorf("it goes on at %d, want %d", at, done.After+10)
			}
		})
	}
}

func TestRecoverLeavesANewerFormatAlone(t *testing.T) {
	f := newFolder(t)
	appendAll(t, f.open(), events(root, 0, 9)...)
	f.change(EventsFile, swap(`"format":1`, `"format":2`))
	before := f.content()
	_, err := f.open().Recover(t.Context(), 0, keepAside)
	var damaged *DamagedError
	if !errors.As(err, &damaged) || !damaged.Newer {
		t.Errorf("a newer ledger: %v", err)
	}
	if diff := cmp.Diff(before, f.content()); diff != "" {
		t.Errorf("something was changed: %s", diff)
	}
}

// Whatever disk operation a recovery dies at, another one completes it, and no cursor is given twice.
func TestRecoverDiesAtAnyOperation(t *testing.T) {
	for name, damage := range damages {
		for died := 1; ; died++ {
			f := newFolder(t)
			appendAll(t, f.open(), events(root, 0, 9)...)
			damage(f)
			disk := newDisk()
			n := 0
			disk.before = func(op) error {
				if n++; n >= died {
					return errDisk
				}
				return nil
			}
			_, err := f.openOn(disk).Recover(t.Context(), 0, keepAside)
			if err == nil {
				break // it had fewer operations
			}
			done, err := f.open().Recover(t.Context(), 0, keepAside)
			if err != nil {
				t.Fatalf("%s: the recovery after operation %d: %v", name, died, err)
			}
			l := f.open()
			if at := appendAll(t, l, events(root, 0, 9)...).Cursor; at < 11 || (done.Damage != nil && at != done.After+10) {
				t.Errorf("%s: after operation %d the ledger is at %d (%+v)", name, died, at, done)
			}
		}
	}
}

// Whatever happens to the bytes of a ledger: after a recovery it can be read, and where it was found damaged its
// cursors are all new.
func TestRecoverProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := newFolder(t)
		f.maxBytes = 4096
		l := f.open()
		count := rapid.Int64Range(1, 120).Draw(r, "events")
		for _, e := range events(root, 0, count-1) {
			appendAll(t, l, e)
		}
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(f.content()))).Draw(r, "file")
		data := []byte(f.content()[name])
		at := rapid.IntRange(0, max(len(data)-1, 0)).Draw(r, "at")
		switch rapid.IntRange(0, 3).Draw(r, "kind") {
		case 0:
			data[at] = rapid.Byte().Draw(r, "byte")
		case 1:
			data = data[:at]
		case 2:
			data = data[at:]
		case 3:
			data = slices.Insert(data, at, rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(r, "bytes")...)
		}
		f.write(name, string(data))
		fresh := f.open()
		done, err := fresh.Recover(t.Context(), 0, keepAside)
		var damaged *DamagedError
		if errors.As(err, &damaged) && damaged.Newer {
			return
		}
		if err != nil {
			r.Fatal(err)
		}
		refresh(t, f.open())
		if done.Damage == nil {
			return // another word in place of a word is not noticed; the history is held against it later
		}
		if done.After <= count {
			r.Fatalf("cursors begin behind %d, and %d were given", done.After, count)
		}
		if last := appendAll(t, fresh, events(root, 0, count-1)...).Cursor; last != done.After+count {
			r.Fatalf("the ledger ends at %d, want %d more than %d", last, count, done.After)
		}
	})
}
