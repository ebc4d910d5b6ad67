//go:build reliability

package scenario

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// limitScenarios are about what the system does not give: it refuses writes past a size and new files past a number.
var limitScenarios = []scenario{
	{name: "the disk is full for a task's ledger", run: fullLedger},
	{name: "the disk is full at some step of a delegation", run: fullDelegation},
	{name: "no file can be opened", run: noFiles},
}

// limits sets a soft limit of the process; what was refused under it is granted as soon as it is lifted.
func (b *bridge) limits(resource int, soft uint64) {
	b.t.Helper()
	var limit syscall.Rlimit
	b.prlimit(resource, nil, &limit)
	limit.Cur = min(soft, limit.Max)
	b.prlimit(resource, &limit, nil)
}

func (b *bridge) prlimit(resource int, set, old *syscall.Rlimit) {
	b.t.Helper()
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(b.cmd.Process.Pid), uintptr(resource),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), 0, 0)
	if errno != 0 {
		b.t.Fatalf("prlimit: %v", errno)
	}
}

const unlimited = math.MaxUint64

// fullLedger lets the writes of one task fail, in the middle of a record.
func fullLedger(e *env) {
	meaning := &storm{e: e, meaning: map[string]string{}}
	hear := func(b *bridge, t task) {
		meaning.heard(t, b.call("dsh_tail", args{"taskId": t.id, "maxEvents": 500, "maxBytes": 1_000_000}).text)
	}
	b := e.bridge()
	other, t := e.finished(b, "other"), e.finished(b, "first")
	for n := range 4 {
		e.works(b, t, fmt.Sprint("longer ", n)) // than the other will be
	}
	for n, room := range []int64{0, 100, 1000, 2500} {
		said := fmt.Sprint("with room for ", room)
		e.eventually(func() string { return e.differs(t.id) })
		size := int64(len(e.read(e.ledgerPath(t))))
		b.limits(syscall.RLIMIT_FSIZE, uint64(size+room))
		e.happens(t, said)
		s := e.unrecorded(b, t, e.ledgerPath(t), "file too large")
		if _, records := e.compacted(t); int64(len(records)) != s.num("cursor") {
			e.t.Errorf("the cursor %s is told, the file ends at %d", s.must("cursor"), len(records))
		}
		hear(b, t)
		b.try("dsh_followup", args{"taskId": t.id, "prompt": e.prompt(e.say("never sent"))}).diskFault(e.ledgerPath(t), "file too large")
		e.works(b, other, "other: "+said)
		if n%2 == 0 {
			b.limits(syscall.RLIMIT_FSIZE, unlimited)
			e.complete(t)
		} else {
			b.kill()
			b = e.bridge()
		}
		b.status(t).want(args{"recovery": "live", "fault": nil, "finalMessage.text": e.text(said), "turn.number": 6 + 2*n})
		e.complete(t)
		hear(b, t)
		e.works(b, t, "there is room again")
	}
	if events := b.tail(t, 0); len(pick(events, "user/message", args{"from": "bridge"})) != 9 {
		e.t.Errorf("a prompt that could not be noted was sent: %s", events)
	}
}

// fullDelegation lets a delegation fail at every step at which something is written. Repeated with room, it is done
// once.
func fullDelegation(e *env) {
	b := e.bridge()
	refused := map[string]int{}
	for size := uint64(0); size <= 1800; size += 100 {
		cwd := e.workspace()
		call := args{"prompt": e.prompt(e.say("arrived")), "cwd": cwd, "requestId": "request " + strconv.FormatUint(size, 10)}
		b.limits(syscall.RLIMIT_FSIZE, size)
		first := b.try("dsh_delegate", call)
		if first.isError {
			code := first.str("error.code")
			refused[code]++
			first.says(e.home, "file too large")
		}
		b.limits(syscall.RLIMIT_FSIZE, unlimited)
		a := b.try("dsh_delegate", call)
		if a.isError && a.str("error.code") == "delegation_incomplete" {
			e.t.Errorf("with %d bytes: %s\nand then: %s", size, first.text, a.text)
			b.call("dsh_followup", args{"taskId": a.str("error.details.taskId"), "prompt": call["prompt"]})
			a = b.call("dsh_delegate", call)
		}
		a.want(args{"accepted": true, "workspace.cwd": cwd})
		t := task{id: a.str("taskId"), session: a.str("sessionId"), cwd: cwd}
		b.ended(t, a.num("cursor"))
		e.single(b, t, fmt.Sprint("with ", size, " bytes"))
		e.complete(t)
	}
	if len(refused) == 0 {
		e.t.Error("no delegation has failed")
	}
	e.t.Logf("refused: %v", refused)
}

// noFiles takes the process the right to open another file.
func noFiles(e *env) {
	b := e.bridge()
	t := e.finished(b, "first")
	open, err := os.ReadDir("/proc/" + strconv.Itoa(b.cmd.Process.Pid) + "/fd")
	if err != nil {
		e.t.Fatal(err)
	}
	highest := 0
	for _, fd := range open {
		if n, err := strconv.Atoi(fd.Name()); err == nil {
			highest = max(highest, n)
		}
	}
	b.limits(syscall.RLIMIT_NOFILE, 1)
	e.happens(t, "unseen")
	for tool, arguments := range map[string]args{
		"dsh_status": {"taskId": t.id}, "dsh_wait": {"taskId": t.id, "timeoutSec": 0}, "dsh_tail": {"taskId": t.id}, "dsh_list": {},
		"dsh_followup": {"taskId": t.id, "prompt": e.prompt(e.say("never sent"))},
		"dsh_delegate": {"cwd": e.workspace(), "prompt": e.prompt(e.say("never sent"))},
	} {
		b.try(tool, arguments).diskFault(e.home, "too many open files")
	}
	b.limits(syscall.RLIMIT_NOFILE, uint64(highest+200))
	e.complete(t)
	e.works(b, t, "as before")
	e.finished(b, "a new one")
}
