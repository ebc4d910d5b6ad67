package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// script notes the operations on a home, and lets chosen ones fail.
type script struct {
	done []string
	fail func(n int, op Op, path string) error // n counts from 0
}

func (s *script) meet(op Op, path string) error {
	s.done = append(s.done, string(op)+" "+filepath.Base(path))
	if s.fail == nil {
		return nil
	}
	return s.fail(len(s.done)-1, op, path)
}

// scripted returns a home at dir whose operations are noted from now on.
func scripted(t *testing.T, dir string) (*Home, *script) {
	t.Helper()
	s := &script{}
	h, err := Open(dir, WithFaults(s.meet))
	if err != nil {
		t.Fatal(err)
	}
	s.done = nil
	return h, s
}

// only lets one kind of operation fail.
func only(op Op, err error) func(int, Op, string) error {
	return func(_ int, o Op, _ string) error {
		if o == op {
			return err
		}
		return nil
	}
}

// Every operation that a call needs can fail. The call then fails with the path and the reason, whole or not at all,
// and works when it is repeated.
func TestEveryOperationCanFail(t *testing.T) {
	calls := map[string]func(h *Home) error{
		"write":   func(h *Home) error { return h.WriteFile(h.TaskFile(taskID), []byte("new")) },
		"replace": func(h *Home) error { return h.WriteFile(h.ClaimFile(taskID), []byte("new")) },
		"read":    func(h *Home) error { _, err := h.ReadFile(h.ClaimFile(taskID), 10); return err },
		"names":   func(h *Home) error { _, err := h.Names(h.ClaimsDir()); return err },
		"remove": func(h *Home) error {
			// What an attempt before has removed is gone.
			if err := h.Remove(h.ClaimFile(taskID)); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		},
		"edit": func(h *Home) error {
			f, err := h.Edit(h.ClaimFile(taskID))
			if err != nil {
				return err
			}
			defer f.Close()
			_, written := f.WriteAt([]byte("new"), 0)
			_, read := f.ReadAt(make([]byte, 1), 0)
			_, looked := f.Stat()
			return errors.Join(written, read, looked, f.Truncate(3), f.Sync())
		},
		"keep": func(h *Home) error { _, err := h.Keep(h.ClaimFile(taskID), "old", time.Unix(0, 0)); return err },
		"move aside": func(h *Home) error {
			// As for remove.
			if _, err := h.MoveAside(h.ClaimFile(taskID), "old", time.Unix(0, 0)); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		},
		"probe": func(h *Home) error { _, err := h.ProbeLock(h.RegistryLock()); return err },
		"stat":  func(h *Home) error { _, err := h.Stat(h.ClaimFile(taskID)); return err },
		"lock": func(h *Home) error {
			l := h.Lock(h.RegistryLock())
			if err := l.Acquire(t.Context(), 0); err != nil {
				return err
			}
			return l.Release()
		},
	}
	for name, call := range calls {
		// begin makes the folder that the call finds.
		begin := func() (*Home, *script) {
			dir := filepath.Join(t.TempDir(), "agentlink")
			h, _ := scripted(t, dir)
			if err := h.WriteFile(h.ClaimFile(taskID), []byte("old")); err != nil {
				t.Fatal(err)
			}
			return scripted(t, dir)
		}
		h, s := begin()
		if err := call(h); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for n, what := range s.done {
			for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EROFS, syscall.EACCES, syscall.EMFILE} {
				h, s := begin()
				hit := ""
				s.fail = func(i int, _ Op, path string) error {
					if i != n {
						return nil
					}
					hit = path
					return errno
				}
				err := call(h)
				note := what == "open registry.lock" || what == "write registry.lock" // which is a courtesy
				if err == nil && !note {
					t.Fatalf("%s: %s failed and nothing was said", name, what)
				}
				if err != nil && (!errors.Is(err, errno) || !strings.Contains(err.Error(), hit)) {
					t.Errorf("%s: %s of %s failed: %v", name, what, hit, err)
				}
				if data, err := os.ReadFile(h.ClaimFile(taskID)); name != "remove" && name != "move aside" && name != "edit" && (err != nil || string(data) != "old" && string(data) != "new") {
					t.Errorf("%s: %s failed and left %q, %v", name, what, data, err)
				}
				for path := range tree(t, h.Dir()) {
					if strings.HasPrefix(filepath.Base(path), ".") && path != "." {
						t.Errorf("%s: %s failed and left %s", name, what, path)
					}
				}
				if err := call(h); err != nil {
					t.Errorf("%s after %s failed: %v", name, what, err)
				}
			}
		}
	}
}

// The steps of a write are those that make it last, in the order that makes it whole.
func TestOperationsOfAWrite(t *testing.T) {
	h, s := scripted(t, filepath.Join(t.TempDir(), "agentlink"))
	write := func() []string {
		t.Helper()
		s.done = nil
		if err := h.WriteFile(h.TaskFile(taskID), []byte("x")); err != nil {
			t.Fatal(err)
		}
		var changes []string
		for _, what := range s.done {
			if !strings.HasPrefix(what, "stat ") {
				changes = append(changes, what)
			}
		}
		return changes
	}
	file := []string{"open " + taskID + ".json", "write " + taskID + ".json", "sync " + taskID + ".json", "rename " + taskID + ".json", "sync folder tasks"}
	folders := []string{"mkdir agentlink", "sync folder " + filepath.Base(filepath.Dir(h.Dir())), "mkdir tasks", "sync folder agentlink"}
	if diff := cmp.Diff(append(folders, file...), write()); diff != "" {
		t.Errorf("the first time: %s", diff)
	}
	if diff := cmp.Diff(file, write()); diff != "" {
		t.Errorf("the second time: %s", diff)
	}
	// Another process cannot know whether the one that made the folder lived to make its name last.
	h, s = scripted(t, h.Dir())
	if diff := cmp.Diff(append([]string{"sync folder agentlink"}, file...), write()); diff != "" {
		t.Errorf("another process: %s", diff)
	}
}

// A folder that was made but whose name may be lost is made to last by the next call.
func TestFolderThatMayBeLost(t *testing.T) {
	top := t.TempDir()
	h, s := scripted(t, filepath.Join(top, "a", "agentlink"))
	for _, lost := range []string{top, filepath.Join(top, "a"), h.Dir()} {
		s.fail = func(_ int, op Op, path string) error {
			if op == OpSyncFolder && path == lost {
				return syscall.EIO
			}
			return nil
		}
		for range 2 {
			if err := h.WriteFile(h.TaskFile(taskID), nil); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), lost) {
				t.Errorf("while names in %s may be lost: %v", lost, err)
			}
		}
	}
	s.fail = nil
	if err := h.WriteFile(h.TaskFile(taskID), nil); err != nil {
		t.Error(err)
	}
}

// Half of a write reaches the file, and what it was meant to replace stays.
func TestTornWrite(t *testing.T) {
	h, s := scripted(t, filepath.Join(t.TempDir(), "agentlink"))
	path := h.TaskFile(taskID)
	if err := h.WriteFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	s.fail = only(OpWrite, Torn{syscall.ENOSPC})
	err := h.WriteFile(path, []byte("new content"))
	if cause, ok := errors.AsType[*fs.PathError](err); !ok || cause.Path != path || cause.Err != syscall.ENOSPC {
		t.Errorf("replacing: %v", err)
	}
	f, err := h.Edit(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := f.WriteAt([]byte("0123456789"), 3); n != 5 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("appending: %d, %v", n, err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "old01234" {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

// A temporary file that cannot be removed either is never taken for anything.
func TestTemporaryFileStays(t *testing.T) {
	h, s := scripted(t, filepath.Join(t.TempDir(), "agentlink"))
	s.fail = func(_ int, op Op, _ string) error {
		if op == OpRename || op == OpRemove {
			return syscall.EROFS
		}
		return nil
	}
	if err := h.WriteFile(h.TaskFile(taskID), []byte("x")); !errors.Is(err, syscall.EROFS) {
		t.Fatal(err)
	}
	s.fail = nil
	names, err := h.Names(h.TasksDir())
	if err != nil || len(names) != 1 || !strings.HasPrefix(names[0], ".") {
		t.Errorf("there are %v, %v", names, err)
	}
	if _, err := h.ReadFile(h.TaskFile(taskID), 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading: %v", err)
	}
}

// A lock that could not be taken is held by nobody.
func TestLockThatCannotBeTaken(t *testing.T) {
	h, s := scripted(t, filepath.Join(t.TempDir(), "agentlink"))
	l := h.Lock(h.RegistryLock())
	s.fail = only(OpLock, syscall.EMFILE)
	for range 2 {
		if err := l.Acquire(t.Context(), time.Minute); !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), l.Path()) {
			t.Errorf("acquire: %v", err)
		}
	}
	if err := l.Release(); err == nil {
		t.Error("it was released though nobody held it")
	}
	s.fail = nil
	acquire(t, h.Lock(h.RegistryLock()))
}
