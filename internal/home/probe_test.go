package home

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func probe(t *testing.T, h *Home, path string) LockProbe {
	t.Helper()
	p, err := h.ProbeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if p.Path != path {
		t.Errorf("the probe of %s is about %s", path, p.Path)
	}
	return p
}

func TestProbeOfALockThatNobodyTookMakesNothing(t *testing.T) {
	h := newHome(t)
	if p := probe(t, h, h.RegistryLock()); p.State != LockAbsent || p.PID != 0 {
		t.Errorf("got %+v", p)
	}
	if _, err := os.Lstat(h.ClaimsDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
}

func TestProbeTellsHeldFromFree(t *testing.T) {
	h := newHome(t)
	l := h.Lock(h.RegistryLock())
	acquire(t, l)
	for range 2 { // a look does not take what it looks at
		if p := probe(t, h, l.Path()); p.State != LockHeld || p.PID != os.Getpid() || p.Since.IsZero() {
			t.Errorf("held: %+v", p)
		}
	}
	release(t, l)
	if p := probe(t, h, l.Path()); p.State != LockFree || p.PID != 0 {
		t.Errorf("released: %+v", p)
	}
	acquire(t, l)
	release(t, l)
}

func TestProbeNamesAnotherProcess(t *testing.T) {
	h := newHome(t)
	pid, kill := holder(t, h)
	if p := probe(t, h, h.RegistryLock()); p.State != LockHeld || p.PID != pid {
		t.Errorf("alive: %+v, want process %d", p, pid)
	}
	kill()
	if p := probe(t, h, h.RegistryLock()); p.State != LockFree || p.PID != pid {
		t.Errorf("killed: %+v, want the note of process %d", p, pid)
	}
}

func TestProbeOfAFolder(t *testing.T) {
	h := newHome(t)
	if err := os.MkdirAll(h.RegistryLock(), 0o700); err != nil {
		t.Fatal(err)
	}
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := os.Chtimes(h.RegistryLock(), made, made); err != nil {
		t.Fatal(err)
	}
	if p := probe(t, h, h.RegistryLock()); p.State != LockFolder || !p.Since.Equal(made) {
		t.Errorf("got %+v", p)
	}
}

func TestProbeRefusesWhatIsNoLock(t *testing.T) {
	h := newHome(t)
	if err := os.MkdirAll(h.ClaimsDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", h.RegistryLock()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{h.RegistryLock(), h.Dir() + "/../outside.lock", "/etc/passwd"} {
		if _, err := h.ProbeLock(path); err == nil {
			t.Errorf("%s was looked at", path)
		} else if _, ok := errors.AsType[*UnsafeError](err); !ok {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestProbeChangesNothing(t *testing.T) {
	h := newHome(t)
	l := h.Lock(h.RegistryLock())
	acquire(t, l)
	release(t, l)
	look := func() [3]any {
		info, err := os.Lstat(l.Path())
		if err != nil {
			t.Fatal(err)
		}
		return [3]any{info.Size(), info.ModTime().UnixNano(), info.Mode()}
	}
	before := look()
	probe(t, h, l.Path())
	if diff := cmp.Diff(before, look()); diff != "" {
		t.Error(diff)
	}
}
