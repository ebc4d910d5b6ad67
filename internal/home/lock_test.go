package home

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	holderEnv = "HOME_TEST_HOLD_LOCK_IN"
	patience  = 20 * time.Second // far more than anything here takes
)

// TestMain plays another bridge process when told so: it takes the registry lock, says so and holds it until its stdin
// ends.
func TestMain(m *testing.M) {
	dir := os.Getenv(holderEnv)
	if dir == "" {
		goleak.VerifyTestMain(m)
		return
	}
	h, err := Open(dir)
	if err == nil {
		err = h.Lock(h.RegistryLock()).Acquire(context.Background(), patience)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin)
}

// holder starts another process that holds the registry lock of h. The function ends it without giving it a chance to
// clean up.
func holder(t *testing.T, h *Home) (pid int, kill func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), holderEnv+"="+h.Dir())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
		stdin.Close()
	})
	t.Cleanup(kill)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return cmd.Process.Pid, kill
}

func acquire(t *testing.T, l *Lock) {
	t.Helper()
	if err := l.Acquire(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
}

func release(t *testing.T, l *Lock) {
	t.Helper()
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestLockNamesItsHolderWhileHeld(t *testing.T) {
	h := newHome(t)
	l := h.Lock(h.RegistryLock())
	if l.Path() != h.RegistryLock() {
		t.Errorf("path is %s", l.Path())
	}
	for range 2 {
		acquire(t, l)
		o, ok := readNote(l.Path())
		if !ok || o.PID != os.Getpid() {
			t.Errorf("the note is %+v, %t", o, ok)
		}
		release(t, l)
		if o, ok := readNote(l.Path()); ok {
			t.Errorf("after the release the note is %+v", o)
		}
		if info, err := os.Lstat(l.Path()); err != nil || info.Mode() != 0o600 {
			t.Errorf("after the release there is %v, %v", info, err)
		}
	}
	if err := l.Release(); err == nil {
		t.Error("a lock that is not held was released")
	}
}

func TestTwoLocksOnOnePathExcludeEachOther(t *testing.T) {
	h := newHome(t)
	a, b := h.Lock(h.RegistryLock()), h.Lock(h.RegistryLock())
	acquire(t, a)
	timeout, ok := errors.AsType[*LockTimeoutError](b.Acquire(t.Context(), time.Millisecond))
	if !ok || timeout.Path != a.Path() || timeout.PID != os.Getpid() || timeout.Since.IsZero() {
		t.Fatalf("got %+v", timeout)
	}
	release(t, a)
	acquire(t, b)
	release(t, b)
}

// A lock that is free is taken even with no time to wait for it.
func TestAFreeLockTakesNoTime(t *testing.T) {
	h := newHome(t)
	l := h.Lock(h.RegistryLock())
	for range 100 {
		if err := l.Acquire(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		release(t, l)
	}
}

func TestTimeoutNamesTheOtherProcess(t *testing.T) {
	h := newHome(t)
	pid, kill := holder(t, h)
	l := h.Lock(h.RegistryLock())
	err := l.Acquire(t.Context(), 20*time.Millisecond)
	timeout, ok := errors.AsType[*LockTimeoutError](err)
	if !ok || timeout.PID != pid || timeout.Since.IsZero() {
		t.Fatalf("got %v, want the other process %d", err, pid)
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("process %d", pid)) {
		t.Errorf("the message does not name the process: %v", err)
	}

	// Killed, it frees the lock but leaves its note, which then is ours.
	kill()
	acquire(t, l)
	if o, ok := readNote(l.Path()); !ok || o.PID != os.Getpid() {
		t.Errorf("the note is %+v, %t", o, ok)
	}
	release(t, l)
}

func TestTimeoutWithoutANote(t *testing.T) {
	h := newHome(t)
	a, b := h.Lock(h.RegistryLock()), h.Lock(h.RegistryLock())
	acquire(t, a)
	defer release(t, a)
	if err := os.Truncate(a.Path(), 0); err != nil {
		t.Fatal(err)
	}
	err := b.Acquire(t.Context(), 0)
	if timeout, ok := errors.AsType[*LockTimeoutError](err); !ok || timeout.PID != 0 || !strings.Contains(err.Error(), "no note") {
		t.Errorf("got %v", err)
	}
}

func TestWaitEndsWithTheContext(t *testing.T) {
	h := newHome(t)
	held := h.Lock(h.RegistryLock())
	acquire(t, held)
	defer release(t, held)
	for name, l := range map[string]*Lock{"the same Lock": held, "another Lock": h.Lock(h.RegistryLock())} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- l.Acquire(ctx, patience) }()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if err := l.Acquire(ctx, patience); !errors.Is(err, context.Canceled) {
				t.Errorf("with a context that has ended: %v", err)
			}
		})
	}
}

func TestSameLockTimesOutInProcess(t *testing.T) {
	h := newHome(t)
	l := h.Lock(h.RegistryLock())
	acquire(t, l)
	defer release(t, l)
	err := l.Acquire(t.Context(), time.Millisecond)
	if timeout, ok := errors.AsType[*LockTimeoutError](err); !ok || timeout.PID != os.Getpid() {
		t.Errorf("got %v", err)
	}
}

// The counter is a plain int: only the lock keeps its changes apart, which the race detector checks as well.
func TestGoroutinesTakeTurns(t *testing.T) {
	h := newHome(t)
	locks := []*Lock{h.Lock(h.RegistryLock()), h.Lock(h.RegistryLock())}
	const goroutines, turns = 6, 20
	var counter int
	file := h.TasksDir() + "/counter"
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			l := locks[i%len(locks)]
			for range turns {
				if err := l.Acquire(t.Context(), patience); err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Lstat(file); err == nil {
					t.Error("two goroutines at once")
				}
				f, err := h.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY)
				if err != nil {
					t.Error(err)
				} else {
					f.Close()
					os.Remove(file)
				}
				if i%len(locks) == 0 {
					counter++
				}
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if counter != goroutines/2*turns {
		t.Errorf("counted %d", counter)
	}
}

func TestALockFolderFailsClosed(t *testing.T) {
	h := newHome(t)
	if err := os.MkdirAll(h.RegistryLock(), 0o700); err != nil {
		t.Fatal(err)
	}
	err := h.Lock(h.RegistryLock()).Acquire(t.Context(), patience)
	if folder, ok := errors.AsType[*LockFolderError](err); !ok || folder.Path != h.RegistryLock() {
		t.Errorf("got %v", err)
	}
	if info, err := os.Lstat(h.RegistryLock()); err != nil || !info.IsDir() {
		t.Errorf("the folder is now %v, %v", info, err)
	}
}

func TestParseNote(t *testing.T) {
	for note, want := range map[string]bool{
		`{"pid":7,"since":"2026-01-02T03:04:05Z"}`:        true,
		`{"pid":7,"since":"2026-01-02T03:04:05Z"}` + "\n": true,
		``:          false,
		`{"pid":7`:  false,
		`{"pid":7}`: false,
		`{"pid":-1,"since":"2026-01-02T03:04:05Z"}`: false,
		`[]`: false,
	} {
		if _, ok := parseNote([]byte(note)); ok != want {
			t.Errorf("%s: %t, want %t", note, ok, want)
		}
	}
}

func FuzzParseNote(f *testing.F) {
	f.Add([]byte(`{"pid":7,"since":"2026-01-02T03:04:05Z"}`))
	f.Add([]byte(`{"pid":1e99}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, ok := parseNote(data)
		if ok && o.PID <= 0 || !ok && o != (owner{}) {
			t.Errorf("%q became %+v, %t", data, o, ok)
		}
	})
}
