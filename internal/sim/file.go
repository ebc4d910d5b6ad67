package sim

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
)

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
