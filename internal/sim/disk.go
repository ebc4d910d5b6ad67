package sim

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"dsh-agentlink/ledger"
)

// Disk is the machine's disk: what all processes see, and beside it what would be left after a loss of power. A process
// that is killed takes nothing with it that it has written; a write that it was in the middle of may be there in part.
type Disk struct {
	*journal
	dice *dice

	mu     sync.Mutex
	inodes uint64
	names  map[string]*inode
	// lasting is where the names lead after a loss of power.
	lasting map[string]*inode
	broken  map[string]syscall.Errno // faults of the disk that last for a while, by operation
	books   *books                   // looks at every change of a ledger
	lies    bool                     // it says that it has synced and has not; for the tests of the model
}

// inode is one file. Its content after a loss of power is synced, and perhaps some of what was written since.
type inode struct {
	number uint64
	data   []byte
	synced []byte
	whole  int // bytes of whole lines, which the books know
}

// Operations of a disk, as keys of Disk.broken.
const (
	opRead    = "read"
	opOpen    = "open"
	opWrite   = "write"
	opSync    = "sync"
	opReplace = "replace" // of a whole file: making, writing and renaming a temporary one
	opFolder  = "folder"  // syncing the folder behind the rename
)

var diskOps = []string{opRead, opOpen, opWrite, opSync, opReplace, opFolder}

func newDisk(seed uint64, j *journal, books *books) *Disk {
	return &Disk{
		journal: j, dice: newDice(seed, "disk"), books: books,
		names: map[string]*inode{}, lasting: map[string]*inode{}, broken: map[string]syscall.Errno{},
	}
}

// wear breaks an operation for all processes until mend.
func (d *Disk) wear(op string, err syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken[op] = err
}

// mend ends all faults.
func (d *Disk) mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.broken)
}

// mended reports whether the disk has no fault now.
func (d *Disk) mended() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.broken) == 0
}

// losePower takes the disk back to what was synced, and to as much of what was written since as luck has it. All
// processes have to be dead.
func (d *Disk) losePower() {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := map[string]*inode{}
	paths := make([]string, 0, len(d.names))
	for path := range d.names {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		f := d.lasting[path]
		if now := d.names[path]; f != now && d.dice.chance(0.5) {
			f = now // the rename was on its way to the disk
		}
		if f == nil {
			continue
		}
		data := slices.Clone(f.synced)
		if more, appended := bytes.CutPrefix(f.data, f.synced); appended {
			data = append(data, more[:d.dice.upTo(len(more))]...)
		} else if d.dice.chance(0.5) {
			data = slices.Clone(f.data)
		}
		d.inodes++
		left[path] = &inode{number: d.inodes, data: data, synced: slices.Clone(data), whole: wholeLines(data)}
		if filepath.Base(path) == ledger.EventsFile {
			d.books.cutBack(path, data)
		}
	}
	for _, path := range paths {
		if left[path] == nil && filepath.Base(path) == ledger.EventsFile {
			d.books.cutBack(path, nil)
		}
	}
	d.names, d.lasting = left, map[string]*inode{}
	for path, f := range left {
		d.lasting[path] = f
	}
}

// yield lets others run in the middle of something, now and then. d.mu is held.
func (d *Disk) yield() {
	if d.dice.chance(0.2) {
		d.mu.Unlock()
		runtime.Gosched()
		d.mu.Lock()
	}
}

// mount is the disk as one process sees it; it is the process's [ledger.Disk].
type mount struct {
	disk *Disk
	p    *process
}

var _ ledger.Disk = mount{}

// fault returns the error of an operation that does not happen. d.mu is held.
func (m mount) fault(op, path string) error {
	if !m.p.alive() {
		return errDead
	}
	if errno := m.disk.broken[op]; errno != 0 {
		m.disk.count(fmt.Sprintf("disk: %s fails with %s", op, name(errno)))
		return &fs.PathError{Op: op, Path: path, Err: errno}
	}
	return nil
}

// OpenFile implements [ledger.Disk].
func (m mount) OpenFile(path string) (ledger.File, error) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if err := m.fault(opOpen, path); err != nil {
		return nil, err
	}
	f := m.disk.names[path]
	if f == nil {
		return nil, &fs.PathError{Op: opOpen, Path: path, Err: fs.ErrNotExist}
	}
	return &handle{mount: m, path: path, inode: f}, nil
}

// Stat implements [ledger.Disk].
func (m mount) Stat(path string) (fs.FileInfo, error) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	if !m.p.alive() {
		return nil, errDead
	}
	f := m.disk.names[path]
	if f == nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
	}
	return describe(f.number, len(f.data)), nil
}

// ReadFile implements [ledger.Disk].
func (m mount) ReadFile(path string, most int64) ([]byte, error) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	f := m.disk.names[path]
	if f == nil && m.p.alive() {
		return nil, &fs.PathError{Op: opRead, Path: path, Err: fs.ErrNotExist}
	}
	if err := m.fault(opRead, path); err != nil {
		return nil, err
	}
	if int64(len(f.data)) > most {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, most)
	}
	return slices.Clone(f.data), nil
}

// WriteFile implements [ledger.Disk]: the content is synced in a temporary file before that takes the name, and the
// name lasts when the folder was synced, too.
func (m mount) WriteFile(path string, data []byte) error {
	d := m.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	how := m.p.enter()
	if how == gone || how == diesBefore {
		return m.die(how, "replacing a file", path)
	}
	if err := m.fault(opReplace, path); err != nil {
		return err
	}
	d.inodes++
	f := &inode{number: d.inodes, data: slices.Clone(data), synced: slices.Clone(data), whole: wholeLines(data)}
	d.names[path] = f
	if filepath.Base(path) == ledger.EventsFile {
		d.books.replaced(path, data)
	}
	if how == diesWithin {
		return m.die(how, "replacing a file", path)
	}
	if err := m.fault(opFolder, path); err != nil {
		return err
	}
	d.lasting[path] = f
	return m.die(how, "replacing a file", path)
}

// die ends the process if that is its fate.
func (m mount) die(how fate, what, path string) error {
	if how == lives {
		return nil
	}
	if how != gone {
		m.disk.count(fmt.Sprintf("kill: %s %s %s", [...]string{diesBefore: "before", diesWithin: "within", diesBehind: "behind"}[how], what, filepath.Ext(path)))
		m.p.kill()
	}
	return errDead
}

// name is the symbol of an error number.
func name(errno syscall.Errno) string {
	switch errno {
	case syscall.ENOSPC:
		return "ENOSPC"
	case syscall.EIO:
		return "EIO"
	case syscall.EROFS:
		return "EROFS"
	case syscall.EACCES:
		return "EACCES"
	case syscall.EMFILE:
		return "EMFILE"
	}
	return errno.Error()
}
