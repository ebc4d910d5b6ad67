package tasks

import (
	"errors"
	"os"
	"testing"
)

// Whatever stands in the file of one task: it is that task, or it is refused with the file's path and left alone. The
// others are not concerned. Seeds are in testdata.
func FuzzTaskFile(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		s, h := newStore(t)
		other := newTask()
		other.TaskID = "dsh_00000000000b"
		if err := s.Save(other); err != nil {
			t.Fatal(err)
		}
		const id = "dsh_00000000000a"
		path := h.TaskFile(id)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		task, err := s.Load(id)
		good, bad, listed := s.List()
		if listed != nil || len(good)+len(bad) != 2 {
			t.Fatalf("there are %v and %v, %v", good, bad, listed)
		}
		if unusable, ok := errors.AsType[*FileError](err); err != nil && (!ok || unusable.TaskID != id || unusable.Path != path) {
			t.Fatalf("it is refused with %v", err)
		}
		if err == nil && task.TaskID != id {
			t.Fatalf("it is %+v", task)
		}
		if left, err := os.ReadFile(path); err != nil || string(left) != string(data) {
			t.Fatalf("it became %q, %v", left, err)
		}
		if err != nil {
			return
		}
		if err := s.Save(task); err != nil {
			t.Fatalf("it cannot be saved: %v", err)
		}
	})
}
