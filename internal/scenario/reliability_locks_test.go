//go:build reliability

package scenario

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"dsh-agentlink/internal/home"
	"dsh-agentlink/ledger"
)

// lockScenarios are about locks that somebody else keeps.
var lockScenarios = []scenario{
	{name: "a stopped process holds a ledger's lock", run: stoppedLedgerOwner},
	{name: "a stopped process holds the lock of the claims", run: stoppedRegistryOwner},
	{name: "a lock folder in place of a ledger's lock", run: ledgerLockFolder},
	{name: "a lock folder in place of the lock of the claims", run: registryLockFolder},
}

// These variables make this program a process that takes a lock and stops, instead of one that tests.
const (
	holdHome = "SCENARIO_HOLD_HOME"
	holdLock = "SCENARIO_HOLD_LOCK"
)

// Before TestMain, which would build the binary once more.
func init() {
	if path := os.Getenv(holdLock); path != "" {
		os.Exit(stopHolding(os.Getenv(holdHome), path))
	}
}

// stopHolding takes a lock as every bridge does, and stops with it in its hands. Continued, it gives it back.
func stopHolding(dir, path string) int {
	h, err := home.Open(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	lock := h.Lock(path)
	if err := lock.Acquire(context.Background(), limit); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := lock.Release(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// owner is a process that was stopped while it held a lock.
type owner struct {
	e   *env
	cmd *exec.Cmd
}

// holds starts an owner of a lock of the home, and waits until it is stopped.
func (e *env) holds(path string) *owner {
	e.t.Helper()
	self, err := os.Executable()
	if err != nil {
		e.t.Fatal(err)
	}
	o := &owner{e: e, cmd: exec.Command(self)}
	o.cmd.Env = []string{holdHome + "=" + e.home, holdLock + "=" + path, "HOME=" + e.temp, "TMPDIR=" + e.temp}
	var said recording
	o.cmd.Stderr = &said
	if err := o.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if o.cmd.ProcessState == nil {
			_ = o.cmd.Process.Kill()
			_ = o.cmd.Wait()
		}
	})
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(o.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || !status.Stopped() {
			e.t.Fatalf("the owner of %s is not stopped: %v %v %s", path, status, err, &said)
		}
		return o
	}
}

// goesOn lets the process give the lock back and end.
func (o *owner) goesOn() {
	o.e.t.Helper()
	if err := o.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		o.e.t.Fatal(err)
	}
	if err := o.cmd.Wait(); err != nil {
		o.e.t.Errorf("the owner of the lock ended with %v", err)
	}
}

// dies ends the process with the lock in its hands.
func (o *owner) dies() {
	o.e.t.Helper()
	if err := o.cmd.Process.Kill(); err != nil {
		o.e.t.Fatal(err)
	}
	_ = o.cmd.Wait() // it was killed
}

// age is how long ago a lock was taken, as messages tell it.
var age = regexp.MustCompile(`\(\d[\dhm.]*m?s\)`)

// named checks that a text tells who has the lock, and for how long.
func (o *owner) named(text string) {
	o.e.t.Helper()
	if !strings.Contains(text, fmt.Sprintf("process %d ", o.cmd.Process.Pid)) || !age.MatchString(text) {
		o.e.t.Errorf("it is not said that process %d has the lock, and since when: %s", o.cmd.Process.Pid, text)
	}
}

// lockLimit is how long a call may take that meets a lock of a bridge with little patience, waiting for it more than once
// on a busy machine. It is less than such a bridge would wait with any more patience.
const lockLimit = 15 * time.Second

// met calls a tool that meets a lock.
func (b *bridge) met(tool string, arguments args) answer {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), lockLimit)
	defer cancel()
	return b.begin(ctx, tool, arguments).answer()
}

// impatient is a bridge that does not wait long for a lock.
func (e *env) impatient() *bridge {
	e.t.Helper()
	return e.bridge("DSH_LOCK_TIMEOUT_MS=300")
}

func stoppedLedgerOwner(e *env) {
	b := e.impatient()
	t, other := e.finished(b, "first"), e.finished(b, "other")
	for said, end := range map[string]func(*owner){"it went on": (*owner).goesOn, "it was killed": (*owner).dies} {
		o := e.holds(filepath.Join(e.ledgerDir(t), ledger.LockFile))
		a := b.met("dsh_followup", args{"taskId": t.id, "prompt": e.prompt(e.say("never sent"))}).failed("lock_timeout")
		o.named(a.str("error.message"))
		a.str("error.hint")

		// What the host tells meanwhile cannot be recorded, which is said; and it is not said that it did not happen.
		e.happens(t, said)
		s := e.until(b, t, "waiting for its lock", func(a answer) bool { return a.str("recovery") == "faulted" })
		s.want(args{"availability": "connected"}).says("lock_timeout")
		o.named(s.str("fault"))
		w := b.call("dsh_wait", args{"taskId": t.id, "timeoutSec": 0})
		o.named(w.str("fault"))
		if w.num("nextCursor") != s.num("cursor") {
			e.t.Errorf("the cursor moved while nothing could be written: %s, then %s", s.text, w.text)
		}
		tail := b.call("dsh_tail", args{"taskId": t.id})
		o.named(tail.str("fault"))

		// The other task is none the wiser.
		e.works(b, other, "other: "+said)

		end(o)
		e.complete(t)
		b.status(t).want(args{"recovery": "live", "fault": nil, "execution": "turn_completed", "finalMessage.text": e.text(said)})
	}
	e.works(b, t, "last")
	if events := b.tail(t, 0); len(pick(events, "user/message", args{"from": "bridge"})) != 2 {
		e.t.Errorf("a prompt that was refused for want of the lock was sent: %s", events)
	}
}

func stoppedRegistryOwner(e *env) {
	b := e.impatient()
	t := e.finished(b, "first")
	o := e.holds(filepath.Join(e.home, "claims", "registry.lock"))
	cwd := e.workspace()
	delegation := args{"prompt": e.prompt(e.say("second")), "cwd": cwd}
	for tool, arguments := range map[string]args{"dsh_delegate": delegation, "dsh_release_workspace": {"taskId": t.id}} {
		o.named(b.met(tool, arguments).failed("lock_timeout").str("error.message"))
	}
	if tasks := e.tasks(); len(tasks) != 1 {
		e.t.Errorf("a delegation that could not claim its directory has left a task: %v", tasks)
	}
	e.works(b, t, "no claim is needed for this")
	o.goesOn()
	second := e.delegate(b, e.prompt(e.say("second")), args{"cwd": cwd})
	b.ended(second, second.cursor).want(args{"finalMessage.text": e.text("second")})

	// A delegation that may be repeated has a lock of its own.
	delegation = args{"prompt": e.prompt(e.say("third")), "cwd": e.workspace(), "requestId": "the third"}
	id := b.call("dsh_delegate", delegation).str("taskId")
	locks, err := filepath.Glob(filepath.Join(e.home, "tasks", "launch-*.lock"))
	if err != nil || len(locks) != 1 {
		e.t.Fatalf("the delegation has left the locks %v (%v), want one", locks, err)
	}
	o = e.holds(locks[0])
	o.named(b.met("dsh_delegate", delegation).failed("lock_timeout").str("error.message"))
	o.dies()
	b.call("dsh_delegate", delegation).want(args{"taskId": id, "repeated": true})
	b.call("dsh_release_workspace", args{"taskId": t.id}).want(args{"released": true})
}

// lockFolder puts a folder in a lock's place: what a TypeScript bridge leaves there.
func (e *env) lockFolder(path string) {
	e.t.Helper()
	if err := os.Remove(path); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		e.t.Fatal(err)
	}
}

func ledgerLockFolder(e *env) {
	b := e.impatient()
	t, other := e.finished(b, "first"), e.finished(b, "other")
	path := filepath.Join(e.ledgerDir(t), ledger.LockFile)
	e.lockFolder(path)
	hint := b.mustFail("lock_timeout", "dsh_followup", args{"taskId": t.id, "prompt": e.prompt()}).says(path).str("error.hint")
	e.happens(t, "behind the folder")
	s := e.until(b, t, "waiting for its lock", func(a answer) bool { return a.str("recovery") == "faulted" })
	if fault := s.str("fault"); !strings.Contains(fault, path) {
		e.t.Errorf("the status does not name the folder: %s", fault)
	}
	e.works(b, other, "besides")
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		e.t.Errorf("the folder was touched: %v %v", info, err)
	}
	e.obey(hint)
	e.complete(t)
	e.works(b, t, "last")
}

func registryLockFolder(e *env) {
	b := e.impatient()
	t := e.finished(b, "first")
	path := filepath.Join(e.home, "claims", "registry.lock")
	e.lockFolder(path)
	delegation := args{"prompt": e.prompt(e.say("second")), "cwd": e.workspace()}
	b.mustFail("lock_timeout", "dsh_delegate", delegation).says(path)
	hint := b.mustFail("lock_timeout", "dsh_release_workspace", args{"taskId": t.id}).says(path).str("error.hint")
	if tasks := e.tasks(); len(tasks) != 1 {
		e.t.Errorf("a delegation that could not claim its directory has left a task: %v", tasks)
	}
	b.status(t).want(args{"workspace.cwd": t.cwd, "recovery": "live"})
	e.works(b, t, "no claim is needed for this")
	e.obey(hint)
	delegation["waitSeconds"] = 30
	b.call("dsh_delegate", delegation).want(args{"finalMessage.text": e.text("second")})
	b.call("dsh_release_workspace", args{"taskId": t.id}).want(args{"released": true})
}
