package sim

import (
	"bytes"
	"fmt"
	"io"
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

// content is what every process sees under a name; nil when there is no such file.
func (d *Disk) content(path string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[path]; f != nil {
		return slices.Clone(f.data)
	}
	return nil
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

// handle is an open file.
type handle struct {
	mount
	path   string
	inode  *inode
	closed bool
}

// ready returns why an operation on the handle does not happen. d.mu is held.
func (h *handle) ready(op string) error {
	if h.closed {
		return &fs.PathError{Op: op, Path: h.path, Err: fs.ErrClosed}
	}
	return h.fault(op, h.path)
}

// ReadAt implements [ledger.File].
func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if err := h.ready(opRead); err != nil {
		return 0, err
	}
	if off >= int64(len(h.inode.data)) {
		return 0, io.EOF
	}
	n := copy(p, h.inode.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements [ledger.File]. A write that fails, or whose process dies within, is there in part.
func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	d := h.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	how := h.p.enter()
	if how == gone || how == diesBefore {
		return 0, h.die(how, "writing records", h.path)
	}
	err := h.ready(opWrite)
	n := len(p)
	if err != nil || how == diesWithin {
		n = d.dice.upTo(len(p))
	}
	half := d.dice.upTo(n)
	h.put(p[:half], off)
	d.yield() // what is written is seen little by little
	if !h.p.alive() {
		return half, errDead
	}
	h.put(p[half:n], off+int64(half))
	d.note("%s: writes %d bytes of %s%s", h.p.name, n, filepath.Base(filepath.Dir(h.path)), bytes.ReplaceAll(append([]byte("\n"), p[:n]...), []byte("\n"), []byte("\n        | ")))
	if err != nil {
		return n, err
	}
	if how != lives {
		return n, h.die(how, "writing records", h.path)
	}
	return n, nil
}

// put writes at an offset. d.mu is held.
func (h *handle) put(p []byte, off int64) {
	if missing := off + int64(len(p)) - int64(len(h.inode.data)); missing > 0 {
		h.inode.data = append(h.inode.data, make([]byte, missing)...)
	}
	copy(h.inode.data[off:], p)
	h.audit(off)
}

// audit shows the books what changed from an offset on. d.mu is held.
func (h *handle) audit(from int64) {
	f := h.inode
	if h.disk.names[h.path] != f {
		h.disk.books.broken(h.path, "a file was changed that is no longer the ledger")
	}
	if from < int64(f.whole) {
		h.disk.books.broken(h.path, fmt.Sprintf("whole records were changed from byte %d of %d on", from, f.whole))
		return
	}
	end := f.whole + wholeLines(f.data[f.whole:])
	h.disk.books.appended(h.path, f.data[f.whole:end])
	f.whole = end
}

// wholeLines is the length of the whole lines at the beginning of data.
func wholeLines(data []byte) int { return bytes.LastIndexByte(data, '\n') + 1 }

// Truncate implements [ledger.File].
func (h *handle) Truncate(size int64) error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	how := h.p.enter()
	if how == gone || how == diesBefore {
		return h.die(how, "cutting a torn line", h.path)
	}
	if err := h.ready(opWrite); err != nil {
		return err
	}
	h.inode.data = h.inode.data[:min(size, int64(len(h.inode.data)))]
	h.audit(size)
	return h.die(how, "cutting a torn line", h.path)
}

// Sync implements [ledger.File]. As on a journaling file system, the name lasts with the content.
func (h *handle) Sync() error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	how := h.p.enter()
	if how == gone || how == diesBefore {
		return h.die(how, "syncing", h.path)
	}
	if err := h.ready(opSync); err != nil {
		return err
	}
	if h.disk.lies {
		return nil
	}
	h.inode.synced = slices.Clone(h.inode.data)
	if h.disk.names[h.path] == h.inode {
		h.disk.lasting[h.path] = h.inode
	}
	return h.die(how, "syncing", h.path)
}

// Stat implements [ledger.File].
func (h *handle) Stat() (fs.FileInfo, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if err := h.ready("stat"); err != nil {
		return nil, err
	}
	return describe(h.inode.number, len(h.inode.data)), nil
}

// Close implements [ledger.File].
func (h *handle) Close() error {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	h.closed = true
	return nil
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
