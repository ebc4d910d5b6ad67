package tasks

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/home"
)

// Whichever operation of a save fails, the file is the old task or the new one, and a repeated save makes it the new one.
func TestSaveFailsAtAnyOperation(t *testing.T) {
	before := newTask()
	before.Stage, before.PromptSent = Created, SentNo
	after := before
	after.Stage, after.PromptSent = Prompted, SentUnknown
	run := func(nth int, why error) (operations int) {
		armed := false
		meet := func(home.Op, string) error {
			if armed {
				operations++
			}
			if armed && operations == nth {
				return why
			}
			return nil
		}
		h, err := home.Open(filepath.Join(t.TempDir(), "agentlink"), home.WithFaults(meet))
		if err != nil {
			t.Fatal(err)
		}
		s := Open(h)
		if err := s.Save(before); err != nil {
			t.Fatal(err)
		}
		armed = true
		failed := s.Save(after)
		armed = false
		var errno syscall.Errno
		if nth > 0 && !(errors.As(why, &errno) && errors.Is(failed, errno)) {
			t.Errorf("operation %d: the save ended with %v", nth, failed)
		}
		got, err := s.Load(before.TaskID)
		if err != nil || !cmp.Equal(got, before) && !cmp.Equal(got, after) || failed == nil && !cmp.Equal(got, after) {
			t.Errorf("operation %d: the task is %+v, %v", nth, got, err)
		}
		if all, bad, err := s.List(); len(all) != 1 || len(bad) != 0 || err != nil {
			t.Errorf("operation %d: there are %v and %v, %v", nth, all, bad, err)
		}
		if err := s.Save(after); err != nil {
			t.Errorf("operation %d: the repeated save failed with %v", nth, err)
		}
		if got, err := s.Load(before.TaskID); err != nil || !cmp.Equal(got, after) {
			t.Errorf("operation %d: the task is %+v, %v", nth, got, err)
		}
		return operations
	}
	for _, why := range []error{syscall.EIO, home.Torn{Err: syscall.ENOSPC}} {
		for nth, last := 1, run(0, why); nth <= last; nth++ {
			run(nth, why)
		}
	}
}
