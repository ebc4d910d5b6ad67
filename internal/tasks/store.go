package tasks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"dsh-agentlink/internal/home"
)

// maxFileBytes bounds what is read of a task file; one of ours has under 2 KiB.
const maxFileBytes = 64 << 10

// ErrNotFound is what [Store.Load] returns for an id without a task.
var ErrNotFound = errors.New("there is no such task")

// FileError says that the file of one task cannot be used. The other tasks are not concerned.
type FileError struct {
	TaskID string
	Path   string
	Err    error
}

func (e *FileError) Error() string {
	return fmt.Sprintf("task %s cannot be read from %s: %v", e.TaskID, e.Path, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// Store is the task mappings of one home. Another bridge process may change a task at any time, so a file is read again
// whenever it is another one than before.
type Store struct {
	home *home.Home

	mu    sync.Mutex
	known map[string]knownTask // by id
	// What [Store.Show] has read, and the folder as it was then; nil before.
	folder fs.FileInfo
	all    []Task
}

// knownTask is a task as it was read from a file that is known to be the same as long as it is not replaced: task files
// are never changed in place.
type knownTask struct {
	file fs.FileInfo
	task Task
}

// Open returns the tasks of h. Nothing is read before it is asked for.
func Open(h *home.Home) *Store { return &Store{home: h, known: map[string]knownTask{}} }

// Save writes t, replacing what was known of the task. When it returns nil, t survives a crash.
func (s *Store) Save(t Task) error {
	data, err := encode(t)
	if err != nil {
		return fmt.Errorf("task is not saved: %w", err)
	}
	if err := s.home.WriteFile(s.home.TaskFile(t.TaskID), data); err != nil {
		return fmt.Errorf("task %s is not saved: %w", t.TaskID, err)
	}
	return nil
}

// Load returns one task. The error wraps [ErrNotFound] when there is none (an id of the wrong shape included), and is a
// *[FileError] when its file cannot be used, wrapping [ErrNewerFormat] when a newer bridge wrote it.
func (s *Store) Load(id string) (Task, error) {
	if !ValidID(id) {
		return Task{}, fmt.Errorf("%q: %w", id, ErrNotFound)
	}
	looked := time.Now()
	info, err := s.home.Stat(s.home.TaskFile(id))
	if err != nil {
		return s.read(id) // it says what is wrong
	}
	s.mu.Lock()
	before, found := s.known[id]
	s.mu.Unlock()
	if found && same(before.file, info) {
		return before.task.clone(), nil
	}
	t, err := s.read(id)
	if err != nil {
		return Task{}, err
	}
	if looked.Sub(info.ModTime()) > settled {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.known[id] = knownTask{file: info, task: t.clone()}
	}
	return t, nil
}

// settled is how old a file has to be to be remembered. Of two that replace it within one tick of the file system's clock
// the second can have the number, the time and the size of the first.
const settled = time.Second

// read is Load from the disk.
func (s *Store) read(id string) (Task, error) {
	path := s.home.TaskFile(id)
	data, err := s.home.ReadFile(path, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Task{}, fmt.Errorf("%q: %w", id, ErrNotFound)
	}
	var t Task
	if err == nil {
		t, err = decode(data)
	}
	if err == nil && t.TaskID != id {
		err = fmt.Errorf("it holds task %s", t.TaskID)
	}
	if err != nil {
		return Task{}, &FileError{TaskID: id, Path: path, Err: err}
	}
	return t, nil
}

// Delete forgets a task; one that is not there is no error. It is for a launch of which the host is known to have
// nothing: with the mapping of any other task its session would be lost to the bridge.
func (s *Store) Delete(id string) error {
	if !ValidID(id) {
		return nil
	}
	if err := s.home.Remove(s.home.TaskFile(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("task %s is not deleted: %w", id, err)
	}
	return nil
}

// List reads all tasks, oldest first, and beside them says which files cannot be used. The error is for the folder as
// a whole.
func (s *Store) List() ([]Task, []*FileError, error) {
	names, err := s.home.Names(s.home.TasksDir())
	if err != nil {
		return nil, nil, fmt.Errorf("tasks cannot be listed: %w", err)
	}
	var good []Task
	var bad []*FileError
	for _, name := range names {
		id, ok := strings.CutSuffix(name, ".json")
		if !ok || !ValidID(id) {
			continue // a temporary file, or nothing of ours
		}
		t, err := s.Load(id)
		if err == nil {
			good = append(good, t)
		} else if unusable, ok := errors.AsType[*FileError](err); ok {
			bad = append(bad, unusable)
		}
	}
	slices.SortFunc(good, func(a, b Task) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.TaskID, b.TaskID)
	})
	return good, bad, nil
}

// Show is List for who only shows the tasks. A bridge replaces files and changes none, so that the folder tells whether
// one was; a thousand files need not be looked at for that. What somebody writes into a file by hand is shown at the next
// change of any.
func (s *Store) Show() ([]Task, []*FileError, error) {
	looked := time.Now()
	folder, err := s.home.Stat(s.home.TasksDir())
	if err != nil {
		return s.List() // it says what is wrong
	}
	s.mu.Lock()
	before, all := s.folder, s.all
	s.mu.Unlock()
	if before == nil || !same(before, folder) {
		good, bad, err := s.List()
		if err != nil || len(bad) > 0 || looked.Sub(folder.ModTime()) <= settled {
			return good, bad, err
		}
		all = good
		s.mu.Lock()
		s.folder, s.all = folder, good
		s.mu.Unlock()
	}
	list := make([]Task, len(all))
	for i, t := range all {
		list[i] = t.clone()
	}
	return list, nil, nil
}

// same reports whether two looks at a name met the same file, or the same folder, in the same state.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}

// clone copies a task, so that what a caller does with one reaches no other.
func (t Task) clone() Task {
	if t.Request != nil {
		request := *t.Request
		t.Request = &request
	}
	return t
}

// FindRequest returns the oldest task that was made since that moment by the call with that request id. Files that cannot
// be used are passed over. It does not keep two calls with one id from running side by side: that is for the caller to
// do.
func (s *Store) FindRequest(requestID string, since time.Time) (Task, bool, error) {
	all, _, err := s.List()
	if err != nil {
		return Task{}, false, err
	}
	id := digest([]byte(requestID))
	for _, t := range all {
		if t.Request != nil && t.Request.ID == id && !t.CreatedAt.Before(since) {
			return t, true, nil
		}
	}
	return Task{}, false, nil
}
