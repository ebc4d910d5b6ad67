package home

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// disk is this package's only way to the files: where faults can be injected (see [WithFaults]).
type disk struct {
	meet func(op Op, path string) error // nil for no faults
}

// fault is why the operation has to fail, or nil.
func (d disk) fault(op Op, path string) error {
	if d.meet == nil {
		return nil
	}
	if err := d.meet(op, path); err != nil {
		return &fs.PathError{Op: string(op), Path: path, Err: err}
	}
	return nil
}

func (d disk) lstat(path string) (fs.FileInfo, error) {
	if err := d.fault(OpStat, path); err != nil {
		return nil, err
	}
	return os.Lstat(path)
}

func (d disk) list(dir string) ([]fs.DirEntry, error) {
	if err := d.fault(OpList, dir); err != nil {
		return nil, err
	}
	return os.ReadDir(dir)
}

func (d disk) mkdir(dir string) error {
	if err := d.fault(OpMkdir, dir); err != nil {
		return err
	}
	return os.Mkdir(dir, dirPerm)
}

func (d disk) remove(path string) error {
	if err := d.fault(OpRemove, path); err != nil {
		return err
	}
	return os.Remove(path)
}

func (d disk) open(path string, flag int) (*os.File, error) {
	if err := d.fault(OpOpen, path); err != nil {
		return nil, err
	}
	return openPlain(path, flag)
}

// openPlain opens a plain file without following a link and without waiting for a pipe's other end.
func openPlain(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, filePerm)
	if errors.Is(err, syscall.ELOOP) {
		return nil, symlinkError(path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkFile(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// write writes data by put, or as much of it as an injected fault lets through.
func (d disk) write(path string, data []byte, put func([]byte) (int, error)) (int, error) {
	err := d.fault(OpWrite, path)
	if err == nil {
		return put(data)
	}
	if _, torn := errors.AsType[Torn](err); !torn {
		return 0, err
	}
	n, failed := put(data[:len(data)/2])
	if failed != nil {
		return n, failed
	}
	return n, err
}

func (d disk) syncFolder(dir string) error {
	if err := d.fault(OpSyncFolder, dir); err != nil {
		return err
	}
	return syncFolder(dir)
}

// syncFolder makes the names in a folder last. File systems that cannot sync a folder keep its names by other means
// or not at all; there is nothing to be done about that here.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// about names what failed as the caller knows it: a temporary file's name, or none at all, would tell nobody anything.
func about(op Op, path string, err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return &fs.PathError{Op: string(op), Path: path, Err: errno}
	}
	return err
}
