package bridge

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"dsh-agentlink/internal/home"
)

// errnos are the ways in which the disk fails.
var errnos = []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EROFS, syscall.EACCES, syscall.EMFILE}

// place is a kind of operation on a kind of file.
type place struct {
	op   home.Op
	file string
}

// kindOf says what a file of the home is for.
func kindOf(dir, path string) string {
	below, err := filepath.Rel(dir, path)
	switch {
	case err != nil || strings.HasPrefix(below, ".."):
		return "above the home"
	case strings.HasPrefix(filepath.Base(path), "launch-"):
		return "launch lock"
	}
	switch parts := strings.Split(below, "/"); {
	case below == ".":
		return "home"
	case len(parts) == 1:
		return below
	case parts[0] == "ledgers" && len(parts) == 2:
		return "ledger folder"
	case parts[0] == "ledgers" || parts[1] == "registry.lock":
		return parts[len(parts)-1]
	default:
		return strings.TrimSuffix(parts[0], "s") + " file"
	}
}

// faultyDisk fails operations at one place: the nth there, or from the nth on until it is lifted.
type faultyDisk struct {
	dir string

	mu    sync.Mutex
	seen  map[place]int
	temps []string // temporary files that were opened
	at    place
	nth   int
	lasts bool
	why   error
	hit   string // path of the first operation that failed
}

func (d *faultyDisk) meet(op home.Op, path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := place{op, kindOf(d.dir, path)}
	d.seen[p]++
	if op != home.OpRemove && strings.HasPrefix(filepath.Base(path), ".") {
		d.temps = append(d.temps, string(op)+" "+path)
	}
	if d.why == nil || p != d.at || d.seen[p] < d.nth || (d.hit != "" && !d.lasts) {
		return nil
	}
	if d.hit == "" {
		d.hit = path
	}
	return d.why
}

func (d *faultyDisk) lift() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.why = nil
}

// met is the path of the operation that failed; empty when none did.
func (d *faultyDisk) met() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hit
}

// diskCase is one fault of a sweep.
type diskCase struct {
	place
	nth   int
	lasts bool
	errno syscall.Errno
	torn  bool // a write leaves half of its data
}

func (c diskCase) String() string {
	s := fmt.Sprintf("%s %s %d %s", c.op, c.file, c.nth, map[syscall.Errno]string{syscall.ENOSPC: "ENOSPC", syscall.EIO: "EIO",
		syscall.EROFS: "EROFS", syscall.EACCES: "EACCES", syscall.EMFILE: "EMFILE"}[c.errno])
	if c.torn {
		s += " torn"
	}
	if c.lasts {
		s += " on"
	}
	return s
}
