package operator

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// Program is the base name of the bridge's executable.
const Program = "dsh-agentlink"

// States of a process.
const (
	ProcessRuns    = "running"
	ProcessStopped = "stopped" // by a signal or a debugger: it holds what it holds until somebody lets it go on
	ProcessGone    = "gone"
)

// Process is what is known of one process of this machine. The arguments of its command line are not part of it.
type Process struct {
	PID   int    `json:"pid"`
	Name  string `json:"name,omitempty"` // base name of its executable
	State string `json:"state"`
	Since string `json:"since,omitempty"` // when it started
	// Build is what its executable says of itself: the module's version or the revision; empty when it cannot be read.
	Build string `json:"build,omitempty"`
}

// processLimit bounds a look at the processes of the machine.
const processLimit = 5 * time.Second

// processOf looks a process up by its id.
func processOf(ctx context.Context, pid int) Process {
	ctx, cancel := context.WithTimeout(ctx, processLimit)
	defer cancel()
	if pid <= 0 || pid > math.MaxInt32 {
		return Process{PID: pid, State: ProcessGone}
	}
	p, err := process.NewProcessWithContext(ctx, int32(pid))
	if err != nil {
		return Process{PID: pid, State: ProcessGone}
	}
	return describeProcess(ctx, p)
}

func describeProcess(ctx context.Context, p *process.Process) Process {
	d := Process{PID: int(p.Pid), State: ProcessRuns}
	status, err := p.StatusWithContext(ctx)
	switch {
	case err != nil:
	case slices.Contains(status, process.Zombie):
		return Process{PID: d.PID, State: ProcessGone}
	case slices.Contains(status, process.Stop):
		d.State = ProcessStopped
	}
	d.Name = programName(ctx, p)
	if ms, err := p.CreateTimeWithContext(ctx); err == nil {
		d.Since = stampMillis(ms)
	}
	return d
}

// programName is the base name of a process's program; Linux marks one whose file was replaced since.
func programName(ctx context.Context, p *process.Process) string {
	name, err := p.ExeWithContext(ctx)
	if err != nil || name == "" {
		if name, err = p.NameWithContext(ctx); err != nil {
			return ""
		}
	}
	return filepath.Base(strings.TrimSuffix(name, " (deleted)"))
}

// ownProcess reports whether a process belongs to this user.
func ownProcess(ctx context.Context, p *process.Process) bool {
	uids, err := p.UidsWithContext(ctx)
	return err == nil && len(uids) > 0 && int(uids[0]) == os.Getuid()
}

// bridgeProcesses finds the other bridge processes of this user: those whose program has the bridge's name, or is the
// same file as this one.
func bridgeProcesses(ctx context.Context) ([]Process, error) {
	ctx, cancel := context.WithTimeout(ctx, processLimit)
	defer cancel()
	all, err := process.ProcessesWithContext(ctx)
	if err != nil {
		return nil, err
	}
	self := ownExecutable()
	var found []Process
	for _, p := range all {
		if int(p.Pid) == os.Getpid() || !ownProcess(ctx, p) {
			continue
		}
		exe, err := p.ExeWithContext(ctx)
		if err != nil || (exe != self && programName(ctx, p) != Program) {
			continue
		}
		if d := describeProcess(ctx, p); d.State != ProcessGone {
			d.Build = buildOf(imageOf(p.Pid, exe))
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return found, nil
}

// imageOf is a path under which a process's program can be read, on Linux also after its file was replaced.
func imageOf(pid int32, exe string) string {
	if runtime.GOOS == "linux" {
		return "/proc/" + strconv.Itoa(int(pid)) + "/exe"
	}
	return exe
}

func ownExecutable() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}

// buildOf reads the build of a program out of its file; the program itself is not run.
func buildOf(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return ""
	}
	if revision := Revision(info); revision != "" {
		return revision
	}
	return info.Main.Version
}

// Revision is the commit that a program was built from, in twelve digits, with a mark when the checkout had been changed;
// empty for a build outside a checkout.
func Revision(info *debug.BuildInfo) string {
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}
