package ledger

import (
	"context"
	"io"
	"io/fs"
)

// Disk is how a ledger reaches its files. It is a seam for injecting faults; in the bridge it is the bridge's home.
type Disk interface {
	// OpenFile opens an existing file for reading and writing; it fails with fs.ErrNotExist when there is none.
	OpenFile(path string) (File, error)
	// Stat describes a file without following a symlink.
	Stat(path string) (fs.FileInfo, error)
	// ReadFile reads a whole file of at most max bytes.
	ReadFile(path string, max int64) ([]byte, error)
	// WriteFile makes or replaces a whole file atomically; when it returns, the file and its name are on the disk.
	WriteFile(path string, data []byte) error
}

// File is an open ledger file.
type File interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Stat() (fs.FileInfo, error)
	Close() error
}

// Locker is the lock that all processes of a home share for one ledger.
type Locker interface {
	// Acquire waits for the lock, within a time limit of its own.
	Acquire(ctx context.Context) error
	// Release gives the lock back. Only the holder may call it.
	Release()
}
