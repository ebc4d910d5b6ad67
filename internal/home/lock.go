package home

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// retryDelay is the time between two attempts at a lock that somebody else holds. What is done under one takes less than
// that, so waiting longer would be most of the wait; an attempt takes some ten microseconds.
const retryDelay = time.Millisecond

// maxNoteBytes bounds what is read of an owner note; a note of ours has under 100.
const maxNoteBytes = 4096

// Lock is a lock between processes, and between the goroutines of one, tied to a file. The kernel frees it when its
// holder dies. The file is made when the lock is first taken and must never be removed: whoever opened it before and
// whoever makes it again would each hold a lock of their own.
//
// While the lock is held the file names the holder, for those who wait in vain. The note is a courtesy: that it
// cannot be written is no failure, and one that a killed process left behind is overwritten by the next holder.
//
// One Lock may be used by many goroutines, and several Locks on one path exclude each other.
type Lock struct {
	path string
	home *Home
	// turn holds a token while a goroutine has the lock or is trying for it. The file's own lock cannot tell the
	// goroutines of one Lock apart.
	turn chan struct{}
	file *flock.Flock
	note *os.File // nil when not held or when the note cannot be written
}

// owner is the note in a lock file.
type owner struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// LockTimeoutError says that a lock did not become free in time, and who had it.
type LockTimeoutError struct {
	Path string
	// PID is the process id of the holder; 0 when the holder left no note.
	PID int
	// Since is when the holder took the lock, and Age how long ago that was; both are zero without a note.
	Since time.Time
	Age   time.Duration
}

func (e *LockTimeoutError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("lock %s is held by a process that left no note of itself", e.Path)
	}
	return fmt.Sprintf("lock %s is held by process %d since %s (%s); if that process hangs, end it: the lock goes with it",
		e.Path, e.PID, e.Since.UTC().Format(time.RFC3339), e.Age.Round(time.Millisecond))
}

// LockFolderError says that there is a folder where a lock file belongs: the lock of a TypeScript bridge that shares
// the home or once did. Whether it is held cannot be told from outside, so it is treated as held.
type LockFolderError struct {
	Path string
}

func (e *LockFolderError) Error() string {
	return fmt.Sprintf("%s is a folder, the lock of a TypeScript bridge; make sure that no such bridge uses this home, then move the folder away", e.Path)
}

// Lock returns the lock of the file at path, which is below the home. Nothing is touched before [Lock.Acquire].
func (h *Home) Lock(path string) *Lock {
	return &Lock{
		path: path,
		home: h,
		turn: make(chan struct{}, 1),
		// Read-write, since some file systems refuse an exclusive lock on a file opened for reading.
		file: flock.New(path,
			flock.SetFlag(os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK),
			flock.SetPermissions(filePerm)),
	}
}

// Path is the path of the lock file.
func (l *Lock) Path() string { return l.path }

// Acquire takes the lock, waiting for it until timeout has passed or ctx is done; a free lock is taken also with no
// time to wait. After a nil error the caller has to call [Lock.Release] once. The error is a *[LockTimeoutError] when
// somebody else kept the lock, a *[LockFolderError] when it is a TypeScript bridge's, and wraps ctx.Err() when ctx
// ended first.
func (l *Lock) Acquire(ctx context.Context, timeout time.Duration) error {
	if ctx.Err() != nil {
		return l.waitError(ctx)
	}
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
	default:
		select {
		case l.turn <- struct{}{}:
		case <-wait.Done():
			return l.waitError(ctx)
		}
	}
	err := l.take(wait)
	if err != nil {
		<-l.turn
		if wait.Err() != nil && errors.Is(err, wait.Err()) {
			return l.waitError(ctx)
		}
		return err
	}
	l.note = l.writeNote()
	return nil
}

// Release gives the lock back. It returns an error when the lock is not held or the system refuses.
func (l *Lock) Release() error {
	if !l.file.Locked() {
		return fmt.Errorf("lock %s is not held", l.path)
	}
	if l.note != nil {
		_, _ = l.note.WriteAt(noNote, 0)
		_ = l.note.Close()
		l.note = nil
	}
	err := l.file.Unlock()
	<-l.turn
	return err
}

// take locks the file. An error of wait means that it was held all the time.
func (l *Lock) take(wait context.Context) error {
	if err := l.home.parent(l.path, true); err != nil {
		return err
	}
	info, err := l.home.disk.lstat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.IsDir():
		return &LockFolderError{Path: l.path}
	default:
		if err := checkFile(l.path, info); err != nil {
			return err
		}
	}
	if err := l.home.disk.fault(OpLock, l.path); err != nil {
		return err
	}
	ok, err := l.file.TryLock()
	if err == nil && !ok {
		_, err = l.file.TryLockContext(wait, retryDelay)
	}
	switch {
	case errors.Is(err, syscall.EISDIR):
		return &LockFolderError{Path: l.path}
	case errors.Is(err, syscall.ELOOP):
		return symlinkError(l.path)
	}
	return about(OpLock, l.path, err)
}

// waitError explains why the wait for the lock ended.
func (l *Lock) waitError(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("waiting for lock %s: %w", l.path, err)
	}
	e := &LockTimeoutError{Path: l.path}
	if o, ok := readNote(l.path); ok {
		e.PID, e.Since, e.Age = o.PID, o.Since, time.Since(o.Since)
	}
	return e
}

// noteWidth is the length of every owner note. Writing over what is there costs a tenth of emptying the file and
// filling it again, which the file system has to note down each time.
const noteWidth = 80

// noNote is what a free lock's file holds.
var noNote = padded(nil)

// padded fills a note up to its width.
func padded(note []byte) []byte {
	for len(note) < noteWidth-1 {
		note = append(note, ' ')
	}
	return append(note, '\n')
}

// writeNote names this process in the lock file. It returns the file, whose note is to be blanked before the lock is
// released, or nil. Opening and closing a second handle does not touch the lock: a flock belongs to the handle it was
// taken with.
func (l *Lock) writeNote() *os.File {
	note, err := json.Marshal(owner{PID: os.Getpid(), Since: time.Now().UTC()})
	if err != nil {
		return nil
	}
	f, err := l.home.disk.open(l.path, os.O_RDWR)
	if err != nil {
		return nil
	}
	if info, err := f.Stat(); err == nil && info.Size() > noteWidth {
		_ = f.Truncate(0) // no note of this bridge
	}
	_, _ = l.home.disk.write(l.path, padded(note), func(data []byte) (int, error) { return f.WriteAt(data, 0) })
	return f
}

func readNote(path string) (owner, bool) {
	f, err := openPlain(path, os.O_RDONLY)
	if err != nil {
		return owner{}, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxNoteBytes))
	if err != nil {
		return owner{}, false
	}
	return parseNote(data)
}

// parseNote reads a note; ok is false for anything that is not a whole one.
func parseNote(data []byte) (o owner, ok bool) {
	if json.Unmarshal(data, &o) != nil || o.PID <= 0 || o.Since.IsZero() {
		return owner{}, false
	}
	return o, true
}
