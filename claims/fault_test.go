package claims

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"dsh-agentlink/internal/home"
)

// Whichever operation of a claim's making or ending fails: the call says so, the lock is free, no claim in conflict is
// let in beside one that may stand, and the repeated call gets through.
func TestFaultAtAnyOperation(t *testing.T) {
	mine, theirs := claim(1, "/a", ExclusiveWrite), claim(2, "/a/b", ExclusiveWrite)
	run := func(nth int, errno syscall.Errno) (operations int) {
		meet := func(home.Op, string) error {
			operations++
			if operations == nth {
				return errno
			}
			return nil
		}
		h, err := home.Open(filepath.Join(t.TempDir(), "agentlink"), home.WithFaults(meet))
		if err != nil {
			return operations
		}
		r := Open(h, patience)
		// A lock's note is a courtesy, so that not every fault is told.
		if err := r.Acquire(t.Context(), mine); err != nil {
			if !errors.Is(err, errno) {
				t.Errorf("operation %d: the claim failed with %v", nth, err)
			}
			if err := r.Acquire(t.Context(), mine); err != nil {
				t.Errorf("operation %d: the repeated claim failed with %v", nth, err)
			}
		}
		var conflict *ConflictError
		if err := r.Acquire(t.Context(), theirs); !errors.As(err, &conflict) && !errors.Is(err, errno) {
			t.Errorf("operation %d: a claim in conflict ended with %v", nth, err)
		}
		if _, _, err := r.Release(t.Context(), mine.TaskID); err != nil {
			if !errors.Is(err, errno) {
				t.Errorf("operation %d: the release failed with %v", nth, err)
			}
			if _, _, err := r.Release(t.Context(), mine.TaskID); err != nil {
				t.Errorf("operation %d: the repeated release failed with %v", nth, err)
			}
		}
		if err := r.Acquire(t.Context(), theirs); err != nil && !errors.Is(err, errno) {
			t.Errorf("operation %d: the next claim failed with %v", nth, err)
		}
		return operations
	}
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EMFILE} {
		for nth, last := 1, run(0, errno); nth <= last; nth++ {
			run(nth, errno)
		}
	}
}
