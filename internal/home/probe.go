package home

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// LockState is what a look at a lock's path tells.
type LockState string

// The states of a lock.
const (
	LockAbsent LockState = "absent" // there is no lock file: nobody has ever taken it
	LockFree   LockState = "free"
	LockHeld   LockState = "held"
	LockFolder LockState = "folder" // a TypeScript bridge's, which cannot be told to be free
)

// LockProbe is a look at a lock.
type LockProbe struct {
	Path  string
	State LockState
	// PID and Since are the owner note: who holds a lock that is held, or who left its note behind in one that is
	// free. They are zero without a note. For a folder, Since is when it was made or last changed.
	PID   int
	Since time.Time
}

// ProbeLock looks at the lock of the file at path, which is below the home, and leaves everything as it is: no file is
// made and no note is written. Whoever asks for the lock in the very moment of the look gets it a few milliseconds
// later. What is no lock at all is an *[UnsafeError].
func (h *Home) ProbeLock(path string) (LockProbe, error) {
	p := LockProbe{Path: path, State: LockAbsent}
	if err := h.parent(path, false); err != nil {
		return p, absent(err)
	}
	info, err := h.disk.lstat(path)
	if err != nil {
		return p, absent(err)
	}
	if info.IsDir() {
		p.State, p.Since = LockFolder, info.ModTime()
		return p, nil
	}
	f, err := h.disk.open(path, os.O_RDONLY)
	if err != nil {
		return p, err
	}
	defer f.Close()
	// A shared lock, so that two looks at once do not take each other for holders.
	switch err := tryFlock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		p.State = LockHeld
	case err != nil:
		return p, &fs.PathError{Op: "flock", Path: path, Err: err}
	default:
		p.State = LockFree // closing the file gives it back
	}
	if o, ok := readNote(path); ok {
		p.PID, p.Since = o.PID, o.Since
	}
	return p, nil
}

func tryFlock(fd, how int) error {
	for {
		if err := syscall.Flock(fd, how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// absent turns the error for a missing path into none.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
