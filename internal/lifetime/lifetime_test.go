package lifetime

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

const roleEnv = "LIFETIME_TEST_ROLE"

// TestMain plays the processes that the tests start. Each writes lines to file 3, which the test reads.
func TestMain(m *testing.M) {
	report := func(line string) { fmt.Fprintln(os.NewFile(3, "report"), line) }
	switch role := os.Getenv(roleEnv); role {
	case "":
		goleak.VerifyTestMain(m)
	case "server":
		serve(report)
	case "server that polls":
		notice = func(int) (*process, error) { return nil, errors.ErrUnsupported }
		serve(report)
	case "hangs":
		ctx, stop := Context(context.Background())
		defer stop()
		Guard(ctx, 10*time.Millisecond, os.Exit)
		report("ready")
		<-ctx.Done()
		report(context.Cause(ctx).Error())
		select {}
	case "talks":
		ctx, stop := Context(context.Background())
		defer stop()
		report("ready")
		<-ctx.Done()
		_, err := fmt.Println("to nobody")
		report(fmt.Sprint(errors.Is(err, syscall.EPIPE)))
	case "parent of server", "parent of server that polls":
		cmd := command(strings.TrimPrefix(role, "parent of "), os.NewFile(3, "report"))
		if err := cmd.Start(); err != nil {
			report(err.Error())
		}
		io.Copy(io.Discard, os.Stdin)
	}
}

// serve lives as a server does.
func serve(report func(string)) {
	ctx, stop := Context(context.Background())
	defer stop()
	disarm := Guard(ctx, time.Minute, os.Exit)
	defer disarm()
	report("ready")
	<-ctx.Done()
	report(context.Cause(ctx).Error())
}

func command(role string, report *os.File) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(exe)
	// Under the race detector a process otherwise rests for a second at its end.
	cmd.Env = append(os.Environ(), roleEnv+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.ExtraFiles = []*os.File{report}
	return cmd
}

// start starts a process that plays role and waits until it, or the one it starts in turn, is ready. The next lines of
// the report come from the function.
func start(t *testing.T, role string, prepare func(*exec.Cmd)) (cmd *exec.Cmd, next func() string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	cmd = command(role, w)
	if prepare != nil {
		prepare(cmd)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	w.Close()
	lines := bufio.NewReader(r)
	next = func() string {
		line, _ := lines.ReadString('\n')
		return strings.TrimSuffix(line, "\n")
	}
	if line := next(); line != "ready" {
		t.Fatalf("the process says %q", line)
	}
	return cmd, next
}

func TestSignalsEndTheContext(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			cmd, next := start(t, "server", nil)
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			if got, want := next(), (&SignalError{Signal: s}).Error(); got != want {
				t.Errorf("the cause is %q, want %q", got, want)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The one that is watched is the test's grandchild: its parent is killed, and it has no other way to know.
func TestTheParentsDeathEndsTheContext(t *testing.T) {
	for _, server := range []string{"server", "server that polls"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			parent, next := start(t, "parent of "+server, func(cmd *exec.Cmd) {
				if _, err := cmd.StdinPipe(); err != nil {
					t.Fatal(err)
				}
			})
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			parent.Wait()
			if got := next(); got != ErrParentGone.Error() {
				t.Errorf("the cause is %q", got)
			}
			// The report is closed when the last process that has it is gone.
			if got := next(); got != "" {
				t.Errorf("then it says %q", got)
			}
		})
	}
}

func TestAParentThatDiedBeforeItWasWatched(t *testing.T) {
	before := parent
	defer func() { parent = before }()
	parent = os.Getpid() // which nobody's parent has become
	ctx, stop := Context(t.Context())
	defer stop()
	<-ctx.Done()
	if got := context.Cause(ctx); !errors.Is(got, ErrParentGone) {
		t.Errorf("the cause is %v", got)
	}
}

func TestGuardEndsAShutdownThatHangs(t *testing.T) {
	t.Parallel()
	cmd, next := start(t, "hangs", nil)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	next()
	if err := cmd.Wait(); err != nil {
		t.Errorf("not exit code 0: %v", err)
	}
}

// Further signals do not cut the shutdown off.
func TestMoreSignalsChangeNothing(t *testing.T) {
	t.Parallel()
	cmd, next := start(t, "hangs", nil)
	for range 3 {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
	if got := next(); got != (&SignalError{Signal: syscall.SIGTERM}).Error() {
		t.Errorf("the cause is %q", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("not exit code 0: %v", err)
	}
}

func TestAStdoutWithoutAReaderIsNoSignal(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd, next := start(t, "talks", func(cmd *exec.Cmd) { cmd.Stdout = w })
	w.Close()
	r.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != "true" {
		t.Errorf("is the write's error EPIPE: %q", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestContextFollowsItsParent(t *testing.T) {
	why := errors.New("why")
	parent, cancel := context.WithCancelCause(t.Context())
	ctx, stop := Context(parent)
	cancel(why)
	<-ctx.Done()
	if got := context.Cause(ctx); got != why {
		t.Errorf("the cause is %v", got)
	}
	stop()
	stop()
}

func TestStopEndsTheContext(t *testing.T) {
	ctx, stop := Context(t.Context())
	if err := ctx.Err(); err != nil {
		t.Fatal(err)
	}
	stop()
	if got := context.Cause(ctx); got != context.Canceled {
		t.Errorf("the cause is %v", got)
	}
}

func TestGuard(t *testing.T) {
	const d = 2 * time.Second
	type exited struct {
		code  int
		after time.Duration
	}
	// The sleeps are on the fake clock of the bubble: that nothing happens in all that time is what is tested.
	run := func(t *testing.T, f func(end, disarm func())) (all []exited) {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx, end := context.WithCancel(t.Context())
			defer end()
			disarm := Guard(ctx, d, func(code int) { all = append(all, exited{code, time.Since(began)}) })
			f(end, disarm)
			disarm()
		})
		return all
	}
	t.Run("a shutdown that hangs", func(t *testing.T) {
		got := run(t, func(end, _ func()) {
			time.Sleep(time.Hour) // fake: nothing ends it by itself
			end()
			time.Sleep(time.Hour) // fake: it is cut off once, and not again
		})
		if len(got) != 1 || got[0] != (exited{0, time.Hour + d}) {
			t.Errorf("got %v", got)
		}
	})
	t.Run("a shutdown in time", func(t *testing.T) {
		got := run(t, func(end, disarm func()) {
			end()
			time.Sleep(d - 1) // fake: the last moment
			disarm()
			time.Sleep(time.Hour) // fake: nothing comes after that
		})
		if got != nil {
			t.Errorf("got %v", got)
		}
	})
	t.Run("no shutdown", func(t *testing.T) {
		if got := run(t, func(_, disarm func()) { disarm() }); got != nil {
			t.Errorf("got %v", got)
		}
	})
}
