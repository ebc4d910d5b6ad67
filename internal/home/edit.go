package home

import (
	"io/fs"
	"os"
)

// File is a file of the home that is read and written in place.
type File struct {
	file *os.File
	path string
	disk disk
}

// Edit opens the plain file at path, which is below the home, for reading and writing. A missing one is
// [fs.ErrNotExist].
func (h *Home) Edit(path string) (*File, error) {
	f, err := h.OpenFile(path, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	return &File{file: f, path: path, disk: h.disk}, nil
}

// ReadAt is that of [os.File].
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if err := f.disk.fault(OpRead, f.path); err != nil {
		return 0, err
	}
	return f.file.ReadAt(p, off)
}

// WriteAt is that of [os.File]. Of a write that fails the first n bytes are in the file.
func (f *File) WriteAt(p []byte, off int64) (n int, err error) {
	return f.disk.write(f.path, p, func(p []byte) (int, error) { return f.file.WriteAt(p, off) })
}

// Truncate cuts the file to size bytes.
func (f *File) Truncate(size int64) error {
	if err := f.disk.fault(OpTruncate, f.path); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

// Sync makes the content of the file last.
func (f *File) Sync() error {
	if err := f.disk.fault(OpSync, f.path); err != nil {
		return err
	}
	return f.file.Sync()
}

// Stat describes the open file, which may no longer be the one at its path.
func (f *File) Stat() (fs.FileInfo, error) {
	if err := f.disk.fault(OpStat, f.path); err != nil {
		return nil, err
	}
	return f.file.Stat()
}

// Close lets go of the file.
func (f *File) Close() error { return f.file.Close() }
