package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// format is the version of the file format, in the first line of a ledger and in its checkpoint.
const format = 1

// Names of the files in a ledger's folder.
const (
	EventsFile     = "events.jsonl"
	CheckpointFile = "checkpoint.json"
	LockFile       = "events.lock"
)

// DefaultMaxBytes is the size past which a ledger is compacted: about 20,000 records, which a new process folds in a
// tenth of a second.
const DefaultMaxBytes = 4 << 20

// Options says where a ledger is and what it belongs to.
type Options struct {
	Dir    string // the ledger's folder; it has to exist before the first append
	TaskID string
	Root   string // the task's session
	Lock   Locker
	Disk   Disk
	// MaxBytes is the size past which the file is compacted; 0 means DefaultMaxBytes.
	MaxBytes int64
	// Now is the clock of ObservedAt; nil means time.Now.
	Now func() time.Time
}

// Ledger is one process's view of a task's ledger. Its methods may be called by many goroutines.
//
// Reading takes no lock: a reader consumes whole lines only, and whole lines never change. A writer holds the flock,
// reads what others appended, and writes its batch in one write.
type Ledger struct {
	opts Options
	path string

	appending chan struct{} // held by the goroutine that appends, so that waiting for the flock blocks no reader

	mu         sync.Mutex
	file       File
	info       fs.FileInfo // of file, to notice that another process replaced it
	offset     int64       // bytes of file that are folded into state
	line       int64       // lines of file that are folded
	after      int64       // cursor before the file's first record
	checkpoint int64       // cursor of the checkpoint, 0 for none
	compactAt  int64       // size at which to compact
	marks      []mark
	decoder    decoder
	state      *State
	seen       int64 // the highest cursor that this process has read or written
	stale      bool  // state is not what the file says: a write or a load has failed
	suspect    bool  // a sync has failed: what was written before may never reach the disk, whatever the next one says

	syncing chan struct{} // held by the goroutine that syncs; it may wait for the flock
	synced  fsyncPoint    // guarded by mu
}

// fsyncPoint is how much of which file is known to be on the disk.
type fsyncPoint struct {
	file   File
	offset int64
}

// mark is the place of every markEvery-th record, so that reading from a cursor does not start at the file's
// beginning.
type mark struct{ cursor, offset int64 }

const markEvery = 64

const (
	// readBlock is how much is read of the file at a time.
	readBlock = 64 << 10
	// maxLine bounds a record: the longest is a queue of some ten thousand messages. It keeps a file that is not a
	// ledger from being read into memory whole.
	maxLine = 16 << 20
)

// header is the first line of a ledger file.
type header struct {
	Format int    `json:"format"`
	TaskID string `json:"taskId"`
	Root   string `json:"root"`
	// After is the cursor before the first record of the file.
	After int64 `json:"after"`
}

// Open returns the ledger in opts.Dir without touching the disk: the first operation reads what is there. A ledger
// that does not exist yet is empty; the first append makes it.
func Open(opts Options) *Ledger {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Ledger{
		opts:      opts,
		path:      filepath.Join(opts.Dir, EventsFile),
		appending: make(chan struct{}, 1),
		syncing:   make(chan struct{}, 1),
		state:     newState(opts.Root),
		compactAt: opts.MaxBytes,
	}
}

// Close lets go of the file. The ledger must not be used afterwards.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closeFile()
}

func (l *Ledger) closeFile() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file, l.info = nil, nil
	return err
}

// Refresh folds what other processes have appended since the last look.
func (l *Ledger) Refresh() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.refresh()
	return err
}

// View calls f with the state as of the last operation, which f must neither change nor keep. It reads the ledger only
// when there is no state to vouch for: before the first operation, and after one that failed.
func (l *Ledger) View(f func(*State)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.vouch(); err != nil {
		return err
	}
	f(l.state)
	return nil
}

// vouch makes sure that the state was read from the file.
func (l *Ledger) vouch() error {
	if l.file != nil && !l.stale {
		return nil
	}
	_, err := l.refresh()
	return err
}

// Earliest is the cursor of the first record that can still be read, as of the last operation.
func (l *Ledger) Earliest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.vouch() // whoever wants a record or the state gets the error
	return l.after + 1
}

// refresh folds the whole lines behind l.offset and returns the file's size; bytes between l.offset and the size are
// a torn line, or one that is being written.
func (l *Ledger) refresh() (size int64, err error) {
	size, err = l.readOn()
	if damaged, ok := errors.AsType[*DamagedError](err); ok {
		damaged.Seen = l.seen
	}
	return size, err
}

func (l *Ledger) readOn() (size int64, err error) {
	info, err := l.look()
	if info == nil {
		return 0, err
	}
	if l.file == nil || l.stale || !sameFile(info, l.info) {
		if err := l.load(); err != nil {
			return 0, err
		}
		if info, err = l.file.Stat(); err != nil {
			return 0, fmt.Errorf("look at ledger %s: %w", l.path, err)
		}
	}
	if info.Size() < l.offset {
		return 0, &DamagedError{Path: l.path, Reason: fmt.Sprintf("the file shrank from %d to %d bytes", l.offset, info.Size())}
	}
	return info.Size(), l.fold(info.Size())
}

// look describes the ledger's file, or returns nil when there is no ledger yet.
func (l *Ledger) look() (fs.FileInfo, error) {
	info, err := l.opts.Disk.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) && l.file == nil && l.seen == 0 {
		switch _, err := l.opts.Disk.Stat(l.checkpointPath()); {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("look at checkpoint %s: %w", l.checkpointPath(), err)
		}
		info, err = l.opts.Disk.Stat(l.path) // another process may have made both since
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason := "the file is gone, and its checkpoint is there"
		if l.seen > 0 {
			reason = fmt.Sprintf("the file is gone; this process had read up to record %d", l.seen)
		}
		return nil, &DamagedError{Path: l.path, Reason: reason}
	case err != nil:
		return nil, fmt.Errorf("look at ledger %s: %w", l.path, err)
	}
	return info, nil
}

// fold folds the whole lines between l.offset and size.
func (l *Ledger) fold(size int64) error {
	var r Record
	return l.scan(l.offset, size, func(raw []byte, end int64) error {
		cursor := l.after + l.line // the header is line 1, so the first record comes with line == 1
		r = Record{}
		if err := l.decoder.decode(raw, &r); err != nil {
			return &DamagedError{Path: l.path, Line: l.line + 1, Reason: err.Error()}
		}
		if r.Cursor != cursor {
			return &DamagedError{Path: l.path, Line: l.line + 1, Reason: fmt.Sprintf("the cursor is %d, it has to be %d", r.Cursor, cursor)}
		}
		if cursor > l.checkpoint {
			if mark := l.state.Watermark(r.SourceSessionID); r.SourceSeq != nil && *r.SourceSeq <= mark {
				return &DamagedError{Path: l.path, Line: l.line + 1, Reason: fmt.Sprintf("seq %d of its session comes after seq %d", *r.SourceSeq, mark)}
			}
			l.state.apply(&r)
			l.seen = max(l.seen, cursor)
		}
		l.place(cursor, l.offset)
		l.offset, l.line = end, l.line+1
		return nil
	})
}

// place notes where a record lies, for every markEvery-th.
func (l *Ledger) place(cursor, offset int64) {
	if len(l.marks) == 0 || cursor-l.marks[len(l.marks)-1].cursor >= markEvery {
		l.marks = append(l.marks, mark{cursor, offset})
	}
}

// decodeRecord is decode for a record that is read alone.
func decodeRecord(raw []byte, r *Record) error { return new(decoder).decode(raw, r) }

// Sync makes every record this process has read or written durable. It has to be called before a cursor is given
// away: a cursor that a caller knows must survive a power cut.
func (l *Ledger) Sync() error {
	l.syncing <- struct{}{}
	defer func() { <-l.syncing }()
	if err := l.rewriteSuspect(); err != nil {
		return err
	}
	for {
		l.mu.Lock()
		if l.stale {
			// The records that the state has must not pass for durable because there is no file to sync.
			if _, err := l.refresh(); err != nil {
				l.mu.Unlock()
				return err
			}
		}
		point := fsyncPoint{l.file, l.offset}
		done := point.file == nil || (l.synced.file == point.file && l.synced.offset >= point.offset)
		l.mu.Unlock()
		if done {
			return nil
		}
		err := point.file.Sync()
		l.mu.Lock()
		if l.file != point.file {
			l.mu.Unlock()
			continue // the file was opened anew in between
		}
		if err == nil {
			l.synced = point
		} else {
			l.suspect = true
		}
		l.mu.Unlock()
		if err != nil {
			return fmt.Errorf("sync ledger %s: %w", l.path, err)
		}
	}
}

// rewriteSuspect writes the file anew after a failed sync. A system may count the bytes of a failed sync as written, so
// that the next one succeeds without them; only bytes that are written once more can be relied on.
func (l *Ledger) rewriteSuspect() error {
	l.mu.Lock()
	suspect := l.suspect
	l.mu.Unlock()
	if !suspect {
		return nil
	}
	return l.alone(context.Background(), l.rewrite)
}

// rewrite puts the same file anew in its place, unless nothing is suspect. The lock is held.
func (l *Ledger) rewrite() error {
	if !l.suspect {
		return nil
	}
	if _, err := l.refresh(); err != nil {
		return err
	}
	data := make([]byte, l.offset)
	if _, err := l.file.ReadAt(data, 0); err != nil {
		return fmt.Errorf("read ledger %s: %w", l.path, err)
	}
	if err := l.opts.Disk.WriteFile(l.path, data); err != nil {
		return fmt.Errorf("write ledger %s anew: %w", l.path, err)
	}
	l.suspect = false
	return l.load()
}

// lock takes the right to append, in this process and then among all processes.
func (l *Ledger) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case l.appending <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := l.opts.Lock.Acquire(ctx); err != nil {
		<-l.appending
		return nil, err
	}
	return func() {
		l.opts.Lock.Release()
		<-l.appending
	}, nil
}

func sameFile(a, b fs.FileInfo) bool { return a != nil && b != nil && osSameFile(a, b) }
