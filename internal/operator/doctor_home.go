package operator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/shirou/gopsutil/v4/disk"

	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
)

// What a folder and a file of the home should grant nobody but its user.
const foreignBits fs.FileMode = 0o077

// examineFolder looks at who can get at what is in the home.
func (d *doctor) examineFolder(h *home.Home) {
	if !exists(h.Dir()) {
		if dir := nearest(h.Dir()); syscall.Access(dir, 2) != nil {
			d.report.add(AreaHome, Bad, "ls -ld "+quote(dir), "%s does not exist, and you may not make it: %s cannot be written to", h.Dir(), dir)
		} else {
			d.report.add(AreaHome, Note, "", "%s does not exist yet; the first task makes it", h.Dir())
		}
		return
	}
	var open, links, foreign []string
	err := filepath.WalkDir(h.Dir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone since its folder was read
		}
		if err != nil {
			return err
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			links = append(links, path)
			return nil
		case info.Mode().Perm()&foreignBits != 0:
			open = append(open, path)
		}
		if !ownFile(info) {
			foreign = append(foreign, path)
		}
		return nil
	})
	if err != nil {
		d.report.add(AreaHome, Bad, "ls -laR "+quote(h.Dir()), "%s cannot be read: %s", h.Dir(), err)
	}
	if len(foreign) > 0 {
		d.report.add(AreaHome, Bad, "ls -laR "+quote(h.Dir()), "not all of it belongs to you: %s", list(foreign))
	}
	if len(links) > 0 {
		d.report.add(AreaHome, Bad, "ls -l "+quote(links[0]), "symbolic links are not followed: %s", list(links))
	}
	if len(open) > 0 {
		d.report.add(AreaHome, Warning, "chmod -R go= "+quote(h.Dir()), "others may get at %s", list(open))
	}
	if err == nil && len(open)+len(links)+len(foreign) == 0 {
		d.report.add(AreaHome, OK, "", "%s belongs to you, and nobody else gets at it", h.Dir())
	}
}

// Room below which something is said.
const (
	littleRoom = 100 << 20 // a few hundred busy tasks' worth
	noRoom     = 1 << 20
)

// sharedKinds are the file systems on which a lock taken by one process may not be seen by another, or on another
// machine. The names are those of Linux and macOS; what only begins with one counts as well.
var sharedKinds = []string{"nfs", "smb", "cifs", "9p", "v9fs", "fuse", "osxfuse", "macfuse", "sshfs", "afs", "afpfs", "webdav", "davfs", "lustre", "ceph",
	"vboxsf", "vmhgfs", "prl_fs", "drvfs", "virtiofs", "coda", "ncp", "panfs"}

func shared(kind string) bool {
	kind = strings.ToLower(kind)
	return slices.ContainsFunc(sharedKinds, func(s string) bool { return strings.HasPrefix(kind, s) })
}

// nearest is the folder, or the nearest one above it that exists.
func nearest(dir string) string {
	for !exists(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}

// readOnly reports whether the file system refuses every write, whoever writes.
func readOnly(dir string) bool { return errors.Is(syscall.Access(dir, 2), syscall.EROFS) }

// examineRoom looks at the file system that the home is on.
func (d *doctor) examineRoom(h *home.Home) {
	dir := nearest(h.Dir())
	usage, err := disk.Usage(dir)
	if err != nil {
		d.report.add(AreaHome, Warning, "df "+quote(dir), "the file system cannot be looked at: %s", err)
		return
	}
	df := "df -h " + quote(dir)
	switch {
	case readOnly(dir):
		d.report.add(AreaHome, Bad, df, "%s is on a read-only file system: nothing can be recorded", dir)
	case usage.Free < noRoom || (usage.InodesTotal > 0 && usage.InodesFree == 0):
		d.report.add(AreaHome, Bad, df, "the file system is full: nothing can be recorded")
	case usage.Free < littleRoom:
		d.report.add(AreaHome, Warning, df, "only %s are free", humanize.IBytes(usage.Free))
	default:
		d.report.add(AreaHome, OK, "", "%s are free", humanize.IBytes(usage.Free))
	}
	kind := usage.Fstype
	switch {
	case kind == "":
		d.report.add(AreaHome, Note, "", "the kind of the file system is not known")
	case shared(kind):
		d.report.add(AreaHome, Warning, "export DSH_BRIDGE_HOME=DIR", "the file system is %s, where locks between processes cannot be trusted: keep the home on a local disk", kind)
	default:
		d.report.add(AreaHome, OK, "", "the file system is %s, where locks can be trusted", kind)
	}
}

// launchGrace is longer than a launch takes.
const launchGrace = 2 * time.Minute

// examineTasks looks for tasks that cannot be used and launches that never got through.
func (d *doctor) examineTasks(o *Operator) {
	good, bad, err := o.tasks.List()
	if err != nil {
		d.report.add(AreaTasks, Bad, "ls -la "+quote(o.home.TasksDir()), "%s", err)
		return
	}
	for _, e := range bad {
		if errors.Is(e, tasks.ErrNewerFormat) {
			d.report.add(AreaTasks, Bad, "", "%s; use the bridge that wrote it", e)
			continue
		}
		d.report.add(AreaTasks, Bad, "mv "+quote(e.Path)+" "+quote(e.Path+".unreadable"), "%s", e)
	}
	unfinished := 0
	for _, t := range good {
		if t.Launched() || d.now().Sub(t.CreatedAt) < launchGrace || o.arrived(t) {
			continue
		}
		unfinished++
		d.report.add(AreaTasks, Warning, Program+" show "+t.TaskID, "the launch of %s never finished: it got to %q, prompt sent: %s", t.TaskID, t.Stage, t.PromptSent)
	}
	if len(bad)+unfinished == 0 {
		d.report.add(AreaTasks, OK, "", "%s", count(len(good), "task", "every launch is complete"))
	}
}

// arrived reports whether a task's ledger shows that the host has its first prompt.
func (o *Operator) arrived(t tasks.Task) (arrived bool) {
	l := ledger.Open(o.ledgerOptions(t.TaskID, t.SessionID))
	defer l.Close()
	err := l.View(func(state *ledger.State) { arrived = state.Arrived(t.PromptID) })
	return err == nil && arrived
}

// examineClaims looks for claims that nothing will end.
func (d *doctor) examineClaims(o *Operator) {
	answer, err := o.claimsOn(d.view)
	if err != nil {
		d.report.add(AreaClaims, Bad, "ls -la "+quote(o.home.ClaimsDir()), "%s", err)
		return
	}
	for _, c := range answer.Claims {
		switch {
		case c.SessionID == "":
			d.report.add(AreaClaims, Bad, c.Help, "the claim of task %s: %s", c.TaskID, c.Problem)
		case c.Problem != "":
			d.report.add(AreaClaims, Warning, c.Help, "the claim of task %s on %s: %s", c.TaskID, c.Cwd, c.Problem)
		case c.CwdMissing:
			d.report.add(AreaClaims, Note, Program+" claims release "+c.TaskID, "the claim of task %s is on %s, which is no folder any more", c.TaskID, c.Cwd)
		}
	}
	switch {
	case !d.view.up() && len(answer.Claims) > 0:
		d.report.add(AreaClaims, Note, "", "%s", count(len(answer.Claims), "claim", "whether their sessions exist is not known while the host is away"))
	case answer.Problems == 0:
		d.report.add(AreaClaims, OK, "", "%s", count(len(answer.Claims), "claim", ""))
	}
}

func (d *doctor) examineLedgers(o *Operator) {
	answer, err := o.Ledgers()
	if err != nil {
		d.report.add(AreaLedgers, Bad, "ls -la "+quote(o.home.LedgersDir()), "%s", err)
		return
	}
	for _, l := range answer.Ledgers {
		switch {
		case l.Problem != "":
			d.report.add(AreaLedgers, Bad, l.Help, "%s", l.Problem)
		case l.Orphan:
			d.report.add(AreaLedgers, Note, "", "no task has the ledger %s", filepath.Dir(l.Path))
		}
	}
	if answer.Problems == 0 {
		d.report.add(AreaLedgers, OK, "", "%s", count(len(answer.Ledgers), "ledger", "none is damaged"))
	}
}

func (d *doctor) examineLocks(ctx context.Context, o *Operator) {
	answer, err := o.Locks(ctx, false)
	if err != nil {
		d.report.add(AreaLocks, Bad, "", "%s", err)
		return
	}
	held := 0
	for _, l := range answer.Locks {
		name := l.Path
		switch {
		case l.State == LockHangs:
			d.report.add(AreaLocks, Warning, l.Help, "%s: %s", name, l.Problem)
		case l.Problem != "":
			d.report.add(AreaLocks, Bad, l.Help, "%s: %s", name, l.Problem)
		case l.State == LockHeld:
			held++
		}
	}
	if answer.Problems == 0 {
		d.report.add(AreaLocks, OK, "", "%s", count(answer.Free+held, "lock", fmt.Sprintf("%d held right now", held)))
	}
}

// examineProcesses looks at the other bridges of this user.
func (d *doctor) examineProcesses(ctx context.Context) {
	others, err := bridgeProcesses(ctx)
	if err != nil {
		d.report.add(AreaProcesses, Note, "", "the processes of this machine cannot be listed: %s", err)
		return
	}
	own := buildOf(ownExecutable())
	for _, p := range others {
		switch {
		case p.State == ProcessStopped:
			d.report.add(AreaProcesses, Warning, fmt.Sprintf("kill -CONT %d", p.PID), "bridge process %d is stopped; what it holds stays held", p.PID)
		case p.Build != own:
			d.report.add(AreaProcesses, Note, "", "bridge process %d is another build: %s, this one is %s", p.PID, orUnknown(p.Build), orUnknown(own))
		}
	}
	d.report.add(AreaProcesses, OK, "", "%s", count(len(others), "other bridge process", ""))
}

func orUnknown(build string) string {
	if build == "" {
		return "unknown"
	}
	return build
}

// count says how many there are, and what holds for them if there are any.
func count(n int, noun, holds string) string {
	switch {
	case n == 0:
		return "no " + noun
	case n > 1 && strings.HasSuffix(noun, "s"):
		noun += "es"
	case n > 1:
		noun += "s"
	}
	if holds != "" {
		holds = "; " + holds
	}
	return fmt.Sprintf("%d %s%s", n, noun, holds)
}
