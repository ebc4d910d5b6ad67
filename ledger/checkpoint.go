package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxCheckpoint bounds what is read as a checkpoint: a state is a few hundred bytes for each subagent of the task.
const maxCheckpoint = 64 << 20

// keepPart is the part of MaxBytes that stays in the file when it is compacted, so that callers with a recent cursor
// can go on.
const keepPart = 4

// keepMarks is how many marks' worth of records, of markEvery each, stays at least.
const keepMarks = 2

type checkpointFile struct {
	Format int    `json:"format"`
	TaskID string `json:"taskId"`
	State  *State `json:"state"`
}

func (l *Ledger) checkpointPath() string { return filepath.Join(l.opts.Dir, CheckpointFile) }

func osSameFile(a, b fs.FileInfo) bool { return os.SameFile(a, b) }

// load reads the ledger anew: the checkpoint, if there is one, and the file's records behind it.
func (l *Ledger) load() error {
	l.stale = true // until everything below has worked
	if err := l.closeFile(); err != nil {
		return fmt.Errorf("close ledger %s: %w", l.path, err)
	}
	state, err := l.openPair()
	if err != nil {
		return err
	}
	l.offset, l.line, l.after, l.marks = 0, 0, 0, nil
	l.state, l.checkpoint = state, state.Cursor
	if err := l.readHeader(l.info.Size()); err != nil {
		return err
	}
	if l.after > l.checkpoint {
		return &DamagedError{Path: l.path, Reason: fmt.Sprintf("its records begin behind %d, but the checkpoint ends at %d", l.after, l.checkpoint)}
	}
	if err := l.fold(l.info.Size()); err != nil {
		return err
	}
	last := l.after + l.line - 1
	if last < l.checkpoint {
		return &DamagedError{Path: l.path, Reason: fmt.Sprintf("its records end at %d, before the checkpoint at %d", last, l.checkpoint)}
	}
	if last < l.seen {
		return &DamagedError{Path: l.path, Reason: fmt.Sprintf("an older file stands in its place: it ends at %d, and there was a record %d", last, l.seen)}
	}
	l.seen, l.stale = last, false
	return nil
}

// pairTries bounds how often a reader is outrun by compactions, of which there is one in some ten thousand records.
const pairTries = 10

// openPair opens the file and reads the checkpoint that belongs to it. A reader holds no lock, so the file can be
// replaced at any moment: they belong together when the file still stands in its place after the checkpoint was read.
func (l *Ledger) openPair() (*State, error) {
	for range pairTries {
		file, err := l.opts.Disk.OpenFile(l.path)
		if err != nil {
			return nil, fmt.Errorf("open ledger %s: %w", l.path, err)
		}
		info, err := file.Stat()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("look at ledger %s: %w", l.path, err), file.Close())
		}
		state, err := l.readCheckpoint()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		// The size counts from here: a checkpoint covers no record that was not in the file before.
		now, err := l.opts.Disk.Stat(l.path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("look at ledger %s: %w", l.path, err), file.Close())
		}
		if sameFile(now, info) {
			l.file, l.info = file, now
			return state, nil
		}
		if err := file.Close(); err != nil {
			return nil, fmt.Errorf("close ledger %s: %w", l.path, err)
		}
	}
	return nil, fmt.Errorf("open ledger %s: it was replaced %d times meanwhile", l.path, pairTries)
}

func newer(path string, line int64, found int) error {
	return &DamagedError{Path: path, Line: line, Newer: true,
		Reason: fmt.Sprintf("format %d is newer than %d, the one this program writes", found, format)}
}

func (l *Ledger) readHeader(size int64) error {
	found := false
	err := l.scan(0, min(size, 4096), func(raw []byte, end int64) error {
		found = true
		var h header
		if err := json.Unmarshal(raw, &h); err != nil || h.Format <= 0 || h.After < 0 {
			return &DamagedError{Path: l.path, Line: 1, Reason: "this is not the first line of a ledger"}
		}
		if h.Format > format {
			return newer(l.path, 1, h.Format)
		}
		if h.TaskID != l.opts.TaskID || h.Root != l.opts.Root {
			return &DamagedError{Path: l.path, Line: 1, Reason: fmt.Sprintf("it belongs to task %q with session %q", h.TaskID, h.Root)}
		}
		l.after, l.offset, l.line = h.After, end, 1
		return errStop
	})
	if err != nil && !errors.Is(err, errStop) {
		return err
	}
	if !found {
		return &DamagedError{Path: l.path, Line: 1, Reason: "the first line is missing"}
	}
	return nil
}

func (l *Ledger) readCheckpoint() (*State, error) {
	path := l.checkpointPath()
	data, err := l.opts.Disk.ReadFile(path, maxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return newState(l.opts.Root), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read checkpoint %s: %w", path, err)
	}
	file := checkpointFile{State: newState(l.opts.Root)}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, &DamagedError{Path: path, Reason: err.Error()}
	}
	switch {
	case file.Format > format:
		return nil, newer(path, 0, file.Format)
	case file.Format != format || file.State == nil || file.State.Cursor <= 0:
		return nil, &DamagedError{Path: path, Reason: "this is not a checkpoint"}
	case file.TaskID != l.opts.TaskID || file.State.Root != l.opts.Root:
		return nil, &DamagedError{Path: path, Reason: fmt.Sprintf("it belongs to task %q with session %q", file.TaskID, file.State.Root)}
	}
	if err := file.State.complete(); err != nil {
		return nil, &DamagedError{Path: path, Reason: err.Error()}
	}
	return file.State, nil
}

// UnmarshalJSON tells fields that are missing from those that are 0, the first seq of a session.
func (s *Session) UnmarshalJSON(data []byte) error {
	type plain Session
	const missing = -2
	decoded := plain{Watermark: missing, Final: missing, Candidate: missing}
	if err := json.Unmarshal(data, &decoded); err != nil {
		return err
	}
	*s = Session(decoded)
	return nil
}

// complete reports whether a decoded session has all that a session always has.
func (s *Session) complete() bool { return s.Watermark >= -1 && s.Final >= -1 && s.Candidate >= -1 }

// complete makes the maps of a decoded state usable and refuses holes in it.
func (s *State) complete() error {
	fresh := newState(s.Root)
	if s.Sessions == nil {
		s.Sessions = fresh.Sessions
	}
	if s.Pending == nil {
		s.Pending = fresh.Pending
	}
	if s.Prompts == nil {
		s.Prompts = fresh.Prompts
	}
	for id, v := range s.Sessions {
		if v == nil {
			return fmt.Errorf("session %q is null", id)
		}
		if !v.complete() {
			return fmt.Errorf("session %q is incomplete", id)
		}
	}
	for id, v := range s.Pending {
		if v == nil {
			return fmt.Errorf("pending request %q is null", id)
		}
	}
	for id, v := range s.Prompts {
		if v == nil {
			return fmt.Errorf("prompt %q is null", id)
		}
	}
	return nil
}

// create makes the file of an empty ledger. The lock is held.
func (l *Ledger) create() error {
	if err := l.replace(0, nil); err != nil {
		return err
	}
	return l.load()
}

// replace puts a new file in the ledger's place: a header and whole lines of records after the cursor after.
func (l *Ledger) replace(after int64, records []byte) error {
	first, err := json.Marshal(header{Format: format, TaskID: l.opts.TaskID, Root: l.opts.Root, After: after})
	if err != nil {
		return fmt.Errorf("encode the header of %s: %w", l.path, err)
	}
	data := append(append(first, '\n'), records...)
	if err := l.opts.Disk.WriteFile(l.path, data); err != nil {
		return fmt.Errorf("make ledger %s: %w", l.path, err)
	}
	return nil
}

// compact writes a checkpoint and drops the older records. The lock is held.
//
// The order is what makes it safe to die anywhere: the records reach the disk before the checkpoint that covers them,
// and the checkpoint before the file that no longer holds them.
func (l *Ledger) compact() error {
	if err := l.file.Sync(); err != nil {
		l.suspect = true
		return fmt.Errorf("sync ledger %s: %w", l.path, err)
	}
	data, err := json.Marshal(checkpointFile{Format: format, TaskID: l.opts.TaskID, State: l.state})
	if err != nil {
		return fmt.Errorf("encode the checkpoint of %s: %w", l.path, err)
	}
	path := l.checkpointPath()
	if err := l.opts.Disk.WriteFile(path, data); err != nil {
		return fmt.Errorf("write checkpoint %s: %w", path, err)
	}
	keep := l.marks[len(l.marks)-1]
	for i := len(l.marks) - 1; i >= 0; i-- {
		// However small the ledger may be, a caller's last cursors stay good.
		if l.offset-l.marks[i].offset > l.opts.MaxBytes/keepPart && len(l.marks)-i > keepMarks {
			break
		}
		keep = l.marks[i]
	}
	records := make([]byte, l.offset-keep.offset)
	if _, err := l.file.ReadAt(records, keep.offset); err != nil {
		return fmt.Errorf("read ledger %s: %w", l.path, err)
	}
	if err := l.replace(keep.cursor-1, records); err != nil {
		return err
	}
	if err := l.load(); err != nil {
		return err
	}
	l.compactAt = max(l.opts.MaxBytes, l.offset+l.opts.MaxBytes/keepPart)
	return nil
}
