package tasks

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
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
