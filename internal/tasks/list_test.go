package tasks

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dsh-agentlink/internal/home"
)

// A list is of the files as they are now, whoever changed them.
func TestListSeesEveryChange(t *testing.T) {
	s, h := newStore(t)
	other := Open(h)
	task := newTask()
	look := func() []Task {
		t.Helper()
		list, bad, err := s.List()
		if err != nil || len(bad) > 0 {
			t.Fatal(bad, err)
		}
		return list
	}
	for _, stage := range []Stage{Mapped, Claimed, Created, Prompted} {
		task.Stage = stage
		if err := other.Save(task); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			list := look()
			if diff := cmp.Diff([]Task{task}, list); diff != "" {
				t.Errorf("at stage %s: %s", stage, diff)
			}
			list[0].Request.ID = "changed by a caller"
		}
	}
	if err := other.Delete(task.TaskID); err != nil {
		t.Fatal(err)
	}
	if list := look(); len(list) != 0 {
		t.Errorf("a deleted task is listed: %v", list)
	}
	if err := os.WriteFile(h.TaskFile(task.TaskID), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, bad, err := s.List(); err != nil || len(bad) != 1 {
		t.Errorf("a damaged file: %v, %v", bad, err)
	}
}

// ago sets the time of a file or a folder back, as if it had been left alone since.
func ago(t *testing.T, path string, d time.Duration) {
	t.Helper()
	then := time.Now().Add(-d)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

// overwrite writes a task into its file as no bridge does: in place, leaving number, size and time of the file as they
// were.
func overwrite(t *testing.T, h *home.Home, task Task) {
	t.Helper()
	path := h.TaskFile(task.TaskID)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := encode(task)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(data)) != info.Size() {
		t.Fatalf("%d bytes in place of %d", len(data), info.Size())
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// Two files that replace each other within a tick of the file system's clock can look the same. So a file is remembered
// only once it has been left alone for longer than any tick.
func TestOnlyOldFilesAreRemembered(t *testing.T) {
	for _, c := range []struct {
		name       string
		age        time.Duration
		remembered bool
	}{
		{"just written", 0, false},
		{"from the future", -time.Hour, false},
		{"left alone", 2 * settled, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, h := newStore(t)
			task := newTask()
			if err := s.Save(task); err != nil {
				t.Fatal(err)
			}
			ago(t, h.TaskFile(task.TaskID), c.age)
			if _, err := s.Load(task.TaskID); err != nil {
				t.Fatal(err)
			}
			changed := task
			changed.SessionID = strings.Repeat("x", len(task.SessionID))
			overwrite(t, h, changed)
			want := changed
			if c.remembered {
				want = task
			}
			got, err := s.Load(task.TaskID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is shown is as old as the folder, and the folder is as old as the last file that was made, replaced or removed.
func TestShowGoesByTheFolder(t *testing.T) {
	s, h := newStore(t)
	other := Open(h)
	show := func(want ...Task) {
		t.Helper()
		for range 2 {
			list, bad, err := s.Show()
			if err != nil || len(bad) > 0 {
				t.Fatal(bad, err)
			}
			if diff := cmp.Diff(want, list, cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
			for _, task := range list {
				task.Request.ID = "changed by a caller"
			}
		}
	}
	show()
	first, second := newTask(), newTask()
	second.CreatedAt = first.CreatedAt.Add(time.Second)
	for range 2 { // while the folder is young, and when it is old
		for _, task := range []Task{first, second} {
			if err := other.Save(task); err != nil {
				t.Fatal(err)
			}
		}
		show(first, second)
		second.Stage = Claimed
		if err := other.Save(second); err != nil {
			t.Fatal(err)
		}
		show(first, second)
		if err := other.Delete(second.TaskID); err != nil {
			t.Fatal(err)
		}
		show(first)
		second.Stage = Mapped
		ago(t, h.TasksDir(), 2*settled)
		show(first)
	}
	ago(t, h.TaskFile(first.TaskID), 2*settled)
	changed := first
	changed.SessionID = strings.Repeat("x", len(first.SessionID))
	overwrite(t, h, changed)
	show(first) // no bridge does that
	if err := os.WriteFile(h.TaskFile(second.TaskID), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	ago(t, h.TasksDir(), 3*settled)
	for range 2 { // a file that cannot be used is looked at every time, for it may be mended in place
		if _, bad, err := s.Show(); err != nil || len(bad) != 1 {
			t.Fatalf("a damaged file: %v, %v", bad, err)
		}
	}
	data, err := encode(second)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.TaskFile(second.TaskID), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if list, bad, err := s.Show(); err != nil || len(bad) != 0 || len(list) != 2 {
		t.Fatalf("a mended file: %v, %v, %v", list, bad, err)
	}
}
