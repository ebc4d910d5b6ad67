package ledger

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func (f *folder) inspect(rootID string) (Inspection, error) {
	return Inspect(Options{Dir: f.dir, TaskID: task, Root: rootID, Disk: f.disk})
}

func TestInspectTellsWhatIsThere(t *testing.T) {
	for name, given := range map[string]string{"with the root": root, "by the ledger's own word": ""} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			appendAll(t, f.open(), events(root, 0, 9)...)
			info, err := os.Stat(f.path(EventsFile))
			if err != nil {
				t.Fatal(err)
			}
			before := f.content()
			found, err := f.inspect(given)
			if err != nil {
				t.Fatal(err)
			}
			want := Inspection{Root: root, Size: info.Size(), First: 1, Last: 10, UpdatedAt: 1_700_000_000_000}
			if diff := cmp.Diff(want, found); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, f.content()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInspectOfNothing(t *testing.T) {
	f := newFolder(t)
	for _, given := range []string{root, ""} {
		if found, err := f.inspect(given); err != nil || found != (Inspection{Root: given}) {
			t.Errorf("got %+v, %v", found, err)
		}
	}
}

func TestInspectTellsOfATornLineAndACheckpoint(t *testing.T) {
	f := newFolder(t)
	f.maxBytes = 20_000
	l := f.open()
	appendAll(t, l, events(root, 0, 499)...)
	appendAll(t, l, events(root, 500, 509)...)
	f.change(EventsFile, func(s string) string { return s + `{"cursor":` })
	found, err := f.inspect("")
	if err != nil {
		t.Fatal(err)
	}
	if found.Torn != int64(len(`{"cursor":`)) || found.Last != 510 || found.Checkpoint == 0 || found.First <= 1 {
		t.Errorf("got %+v", found)
	}
}

func TestInspectNamesDamage(t *testing.T) {
	for name, data := range map[string]string{
		"no header":      "nonsense\n",
		"an empty file":  "",
		"no whole line":  `{"format":1`,
		"no root":        `{"format":1,"taskId":"dsh_0123456789ab","after":0}` + "\n",
		"another task's": `{"format":1,"taskId":"dsh_ffffffffffff","root":"session-r","after":0}` + "\n",
		"a bad record":   `{"format":1,"taskId":"dsh_0123456789ab","root":"session-r","after":0}` + "\n{}\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.write(EventsFile, data)
			found, err := f.inspect("")
			if _, damaged := errors.AsType[*DamagedError](err); !damaged {
				t.Errorf("got %v", err)
			}
			if found.Size != int64(len(data)) {
				t.Errorf("the size is %d", found.Size)
			}
		})
	}
}
