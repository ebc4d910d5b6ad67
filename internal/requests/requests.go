// Package requests remembers what a caller's calls with a requestId came to, so that a repeated one gets the first
// outcome and does nothing again, also after a crash and also in another process of the same home.
//
// An entry is on disk before its call does anything. It holds digests, ids, numbers and words; the arguments of a call
// are conversation, and only their digest is kept. Entries are forgotten after [Lifetime].
package requests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/tasks"
)

// Lifetime is how long an entry is kept. A caller that repeats a call does so within minutes; one that uses an old id
// anew after a month means something new.
const Lifetime = 30 * 24 * time.Hour

// format is the version of an entry's file.
const format = 1

// maxFileBytes bounds what is read of an entry.
const maxFileBytes = 256 << 10

// maxWord bounds a string of an outcome.
const maxWord = 4096

// ErrConflict says that a requestId was used for another call.
var ErrConflict = errors.New("this requestId was used for another call")

// Call identifies one call of a caller.
type Call struct {
	Tool      string
	TaskID    string // empty for a call that makes a task
	RequestID string
	Arguments any // what the call asks for; its JSON is digested
}

// Entry is what is known of a call.
type Entry struct {
	Format  int           `json:"format"`
	Request tasks.Request `json:"request"`
	Tool    string        `json:"tool"`
	TaskID  string        `json:"taskId,omitempty"`
	Began   time.Time     `json:"began"`
	// Done is set once the call came to its end; until then it may or may not have done what it was to do.
	Done bool `json:"done,omitempty"`
	// Outcome is what the call answered, without any content.
	Outcome json.RawMessage `json:"outcome,omitempty"`
}

// Store is the entries of one home.
type Store struct {
	home    *home.Home
	timeout time.Duration
	now     func() time.Time
	sweep   sync.Once
}

// Open returns the entries of h; a call waits up to lockTimeout for another process that is at the same one. Nothing is
// read before it is asked for.
func Open(h *home.Home, lockTimeout time.Duration) *Store {
	return &Store{home: h, timeout: lockTimeout, now: time.Now}
}

// Running is a call that this process alone works on.
type Running struct {
	store *Store
	lock  *home.Lock
	entry Entry
	path  string
}

// Begin takes a call. known is set when it was begun before, and then the entry tells how far it got; otherwise the new
// entry is on disk when Begin returns. The error wraps [ErrConflict] when the id was used for another call, and is that
// of [home.Lock.Acquire] when another process is at it. The caller has to [Running.Close] what it gets.
func (s *Store) Begin(ctx context.Context, c Call) (r *Running, known bool, err error) {
	arguments, err := json.Marshal(c.Arguments)
	if err != nil {
		return nil, false, fmt.Errorf("encode the arguments: %w", err)
	}
	request := tasks.NewRequest(c.TaskID+"\x00"+c.RequestID, arguments)
	lock := s.home.Lock(s.home.RequestLock(request.ID))
	if err := lock.Acquire(ctx, s.timeout); err != nil {
		return nil, false, err
	}
	r = &Running{store: s, lock: lock, path: s.home.RequestFile(request.ID)}
	entry, found, err := s.read(r.path)
	switch {
	case err != nil:
	case found && (entry.Request != request || entry.Tool != c.Tool):
		err = fmt.Errorf("%w (%s)", ErrConflict, entry.Tool)
	case found:
		r.entry = entry
		return r, true, nil
	default:
		r.entry = Entry{Format: format, Request: request, Tool: c.Tool, TaskID: c.TaskID, Began: s.now().UTC()}
		s.sweep.Do(s.forgetOld)
		err = r.save()
	}
	if err != nil {
		return nil, false, errors.Join(err, lock.Release())
	}
	return r, false, nil
}

// read returns an entry; an old one counts as none.
func (s *Store) read(path string) (e Entry, found bool, err error) {
	data, err := s.home.ReadFile(path, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, err
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return Entry{}, false, fmt.Errorf("%s is no entry of a requestId: %w", path, err)
	}
	if e.Format > format {
		return Entry{}, false, fmt.Errorf("%s: %w", path, tasks.ErrNewerFormat)
	}
	if s.now().Sub(e.Began) > Lifetime {
		return Entry{}, false, nil
	}
	return e, true, nil
}

// forgetOld removes the entries that are past their time. It is best effort: an old entry counts as none anyway.
func (s *Store) forgetOld() {
	names, err := s.home.Names(s.home.RequestsDir())
	if err != nil {
		return
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		path := s.home.RequestsDir() + "/" + name
		if _, found, err := s.read(path); err == nil && !found {
			_ = s.home.Remove(path)
		}
	}
}

// Entry is what is known of the call.
func (r *Running) Entry() Entry { return r.entry }

// Done notes that the call came to its end, with what it answers. outcome must hold no content: it is refused when one
// of its strings is neither an id, nor a word, nor an absolute path.
func (r *Running) Done(outcome any) error {
	data, err := json.Marshal(outcome)
	if err != nil {
		return fmt.Errorf("encode the outcome: %w", err)
	}
	if err := checkWords(data); err != nil {
		return err
	}
	r.entry.Done, r.entry.Outcome = true, data
	return r.save()
}

// Forget removes the entry of a call that is known to have done nothing, so that it may be made again.
func (r *Running) Forget() error {
	err := r.store.home.Remove(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Close gives the call back.
func (r *Running) Close() error { return r.lock.Release() }

func (r *Running) save() error {
	data, err := json.Marshal(r.entry)
	if err != nil {
		return err
	}
	return r.store.home.WriteFile(r.path, append(data, '\n'))
}

// checkWords refuses strings that could be content.
func checkWords(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		token, err := dec.Token()
		if err != nil {
			return nil // the end: the data come from an encoder
		}
		text, ok := token.(string)
		if !ok || strings.HasPrefix(text, "/") {
			continue
		}
		if len(text) > maxWord || strings.ContainsAny(text, " \t\r\n") {
			return errors.New("the outcome of a call holds a text, which must not be kept")
		}
	}
}
