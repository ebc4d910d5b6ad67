package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/ledger"
)

// diskRig is a bridge whose home has faults.
type diskRig struct {
	*rig
	disk  *faultyDisk
	errno syscall.Errno
	codes map[Code]int
	// given are the records behind the cursors that answers have told, as they were then.
	given map[int64]string
	task  seen
}

// newDiskRig starts a bridge on a home that other processes have left things in.
func newDiskRig(t *testing.T, c diskCase) *diskRig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), host: dshtest.New(dshtest.Options{})}
	if err := r.host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.host.Close)
	dir := filepath.Join(r.dir, "bridge")
	d := &diskRig{rig: r, errno: c.errno, codes: map[Code]int{}, given: map[int64]string{},
		disk: &faultyDisk{dir: dir, seen: map[place]int{}, at: c.place, nth: c.nth, lasts: c.lasts}}
	if c.errno != 0 {
		d.disk.why = c.errno
		if c.torn {
			d.disk.why = home.Torn{Err: c.errno}
		}
	}
	h, err := home.Open(dir, home.WithFaults(d.disk.meet))
	for err != nil { // the fault may be of the look at the folder
		if h, err = home.Open(dir, home.WithFaults(d.disk.meet)); d.disk.lasts {
			d.disk.lift()
		}
	}
	u, err := dsh.ParseURL(r.host.URL(), false)
	if err != nil {
		t.Fatal(err)
	}
	client := dsh.New(u, dsh.Options{RequestTimeout: 5 * time.Second})
	r.b = New(Options{Host: client, HostURL: u.String(), Home: h, LockTimeout: 10 * time.Second, Quiet: 10 * time.Millisecond, LedgerMaxBytes: 8000})
	r.b.Start()
	t.Cleanup(func() { r.b.Close(); client.CloseIdle() })
	return d
}

// explained checks that a text tells of the fault: where, and why.
func (d *diskRig) explained(what, text string) {
	d.t.Helper()
	hit := d.disk.met()
	if hit == "" {
		d.t.Fatalf("%s, and there was no fault: %s", what, text)
	}
	if !strings.Contains(text, d.errno.Error()) || !strings.Contains(text, hit) && !(d.disk.lasts && strings.Contains(text, d.disk.dir)) {
		d.t.Errorf("%s, and it does not name %s and say %q: %s", what, hit, d.errno, text)
	}
}

// attempt calls a tool once. A failure has to tell of the fault; an answer's cursor has to be on the disk.
func (d *diskRig) attempt(name string, call args, out *seen) bool {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 25*time.Second)
	defer cancel()
	text, failed := d.try(ctx, name, call)
	if failed != nil {
		d.codes[failed.Code]++
		if failed.Code != CodeDiskFault {
			d.t.Errorf("%s failed with the code %s for a fault of the disk: %v", name, failed.Code, failed)
		}
		d.explained(name+" failed with "+string(failed.Code), failed.Message)
		// A fault of the disk is no reason to move the file away that it concerns.
		if failed.Hint == "" || strings.Contains(failed.Hint, "aside") {
			d.t.Errorf("%s failed (%v) with the hint %q", name, failed, failed.Hint)
		}
		return false
	}
	var answer struct {
		seen
		Fault string
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		d.t.Fatal(err)
	}
	if answer.Fault != "" {
		d.explained(name+" tells of a fault", answer.Fault)
	}
	d.onDisk(max(answer.Cursor, answer.NextCursor))
	*out = answer.seen
	return true
}

// records reads the task's ledger as a process does that has just begun, on a disk that works.
func (d *diskRig) records() []ledger.Record {
	d.t.Helper()
	if d.task.TaskID == "" {
		return nil
	}
	h, err := home.Open(d.disk.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	l := ledger.Open(ledger.Options{Dir: h.LedgerDir(d.task.TaskID), TaskID: d.task.TaskID, Root: d.task.SessionID, Disk: homeDisk{h}})
	defer l.Close()
	records, err := l.Read(0, 10_000)
	if err != nil {
		d.t.Fatalf("the ledger cannot be read by another process: %v", err)
	}
	return records
}

// onDisk checks that what a cursor stands for can be read by another process, and keeps standing for that.
func (d *diskRig) onDisk(cursor int64) {
	d.t.Helper()
	records := d.records()
	if int64(len(records)) < cursor && d.task.TaskID != "" {
		d.t.Fatalf("cursor %d was given away, and %d records are on the disk", cursor, len(records))
	}
	for _, r := range records {
		raw, err := json.Marshal(r)
		if err != nil {
			d.t.Fatal(err)
		}
		if before, ok := d.given[r.Cursor]; ok && before != string(raw) {
			d.t.Fatalf("cursor %d was %s and is %s", r.Cursor, before, raw)
		}
		if r.Cursor <= cursor {
			d.given[r.Cursor] = string(raw)
		}
	}
}

// steps are the calls of a task from its beginning to its end. Each may be repeated until it succeeds.
func (d *diskRig) steps(patience int) []func() bool {
	call := args{"prompt": "Work.", "cwd": d.workspace("project"), "requestId": "launch-1"}
	follow := func() args { return args{"taskId": d.task.TaskID, "prompt": "More.", "requestId": "more-1"} }
	var at seen
	wait := func() bool {
		ok := d.attempt("dsh_wait", args{"taskId": d.task.TaskID, "until": "attention", "timeoutSec": patience}, &at)
		return ok && at.Reason == reasonTerminal
	}
	return []func() bool{
		func() bool {
			var s seen
			if !d.attempt("dsh_delegate", call, &s) {
				return false
			}
			d.task = s
			d.onDisk(s.Cursor)
			return s.Accepted
		},
		wait,
		func() bool { return d.attempt("dsh_followup", follow(), &at) && at.Accepted },
		wait,
		func() bool { return d.attempt("dsh_release_workspace", args{"taskId": d.task.TaskID}, &at) },
	}
}

// finish repeats each step until it succeeds.
func (d *diskRig) finish(from int) {
	d.t.Helper()
	for i, step := range d.steps(20)[from:] {
		for tries := 0; !step(); tries++ {
			if tries == 10 {
				d.t.Fatalf("step %d does not get through", from+i+1)
			}
		}
	}
}

// check compares what is left with the host's history once all is over.
func (d *diskRig) check() {
	d.t.Helper()
	sessions := d.host.Sessions()
	if len(sessions) != 1 || sessions[0].ID != d.task.SessionID {
		d.t.Fatalf("there are %d sessions", len(sessions))
	}
	d.settle()
	type event struct {
		seq  int64
		kind string
	}
	var want, got []event
	prompts := 0
	for _, ev := range d.host.Events(sessions[0].ID) {
		if ev.Type != dsh.EventChunk {
			want = append(want, event{ev.Seq, ev.Type})
		}
		var body struct{ Source struct{ Kind string } }
		if ev.Type == "user/message" && json.Unmarshal(ev.Data, &body) == nil && body.Source.Kind == "user" {
			prompts++
		}
	}
	if prompts != 2 {
		d.t.Errorf("%d prompts arrived, there were two", prompts)
	}
	d.onDisk(0)
	for i, r := range d.records() {
		if r.Cursor != int64(i)+1 {
			d.t.Errorf("record %d has cursor %d", i+1, r.Cursor)
		}
		if r.Type == ledger.TypeEvent {
			got = append(got, event{*r.SourceSeq, r.Coordination.Event})
		}
	}
	if !slices.Equal(want, got) {
		d.t.Errorf("the ledger is not the history:\n%v\n%v", want, got)
	}
	d.checkFiles()
}

// settle waits until the host rests and the bridge has all that it told.
func (d *diskRig) settle() {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 20*time.Second)
	defer cancel()
	if err := d.host.WaitIdle(ctx, d.task.SessionID); err != nil {
		d.t.Fatal(err)
	}
	watched := d.b.mux.Track(d.task.TaskID, d.task.SessionID)
	_, _, err := watched.Fresh(ctx)
	for err != nil && ctx.Err() == nil { // what came meanwhile may have met the fault
		_, _, err = watched.Fresh(ctx)
	}
	if err != nil {
		d.t.Fatalf("the task never came up to date: %v", err)
	}
}

// checkFiles looks for what a fault may have left behind: locks that are held, a claim, a temporary file in use.
func (d *diskRig) checkFiles() {
	d.t.Helper()
	h, err := home.Open(d.disk.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	err = filepath.WalkDir(d.disk.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".lock") {
			return err
		}
		l := h.Lock(path)
		if err := l.Acquire(d.t.Context(), time.Second); err != nil {
			return err
		}
		return l.Release()
	})
	if err != nil {
		d.t.Error(err)
	}
	if _, err := os.Lstat(h.ClaimFile(d.task.TaskID)); !errors.Is(err, os.ErrNotExist) {
		d.t.Errorf("the claim is still there: %v", err)
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	if len(d.disk.temps) > 0 {
		d.t.Errorf("temporary files were used: %v", d.disk.temps)
	}
}
