package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/tasks"
)

// maxFileBytes bounds what is read of a claim file. Most of one is the path of the folder, and a system's longest
// path has 4 KiB.
const maxFileBytes = 64 << 10

// ConflictError says that a claim cannot be had because of another task's.
type ConflictError struct {
	Requested Claim
	Holder    Claim // the oldest of the claims in the way
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s claim on %s conflicts with the %s claim of task %s on %s, held since %s",
		e.Requested.Mode, e.Requested.Cwd, e.Holder.Mode, e.Holder.TaskID, e.Holder.Cwd, e.Holder.CreatedAt.UTC().Format(time.RFC3339))
}

// HeldError says that the task has a claim already, on another folder, in another mode or for another session.
type HeldError struct {
	Requested Claim
	Held      Claim
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("task %s already has a %s claim on %s; release it before claiming %s as %s",
		e.Held.TaskID, e.Held.Mode, e.Held.Cwd, e.Requested.Cwd, e.Requested.Mode)
}

// FileError says that the claim file of one task cannot be used.
type FileError struct {
	TaskID string
	Path   string
	Err    error
}

func (e *FileError) Error() string {
	return fmt.Sprintf("claim of task %s cannot be read from %s: %v", e.TaskID, e.Path, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// Registry is the claims of one home, shared with every bridge process that uses it. It keeps nothing in memory. Its
// methods may be called by many goroutines at once.
type Registry struct {
	home        *home.Home
	lock        *home.Lock
	lockTimeout time.Duration
}

// Open returns the claims of h; changes wait up to lockTimeout for another process's. Nothing is read before it is
// asked for.
func Open(h *home.Home, lockTimeout time.Duration) *Registry {
	return &Registry{home: h, lock: h.Lock(h.RegistryLock()), lockTimeout: lockTimeout}
}

// Acquire makes the claim c, whose Cwd has to come from [Canonical]. A CreatedAt of zero becomes now. Asking again
// for what the task has already is no error and changes nothing.
//
// The error is a *[ConflictError] when another task's claim is in the way, a *[HeldError] when the task has a
// different one, and a *[FileError] when a claim cannot be read, since that one could be in the way. Errors of
// [home.Lock.Acquire] come as they are.
func (r *Registry) Acquire(ctx context.Context, c Claim) error {
	if c.CreatedAt.IsZero() {
		c.CreatedAt = time.Now()
	}
	data, err := encode(c)
	if err != nil {
		return fmt.Errorf("no claim: %w", err)
	}
	return r.locked(ctx, func() error {
		all, err := r.List()
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(all, func(o Claim) bool { return o.TaskID == c.TaskID }); i >= 0 {
			if held := all[i]; held.SessionID != c.SessionID || held.Cwd != c.Cwd || held.Mode != c.Mode {
				return &HeldError{Requested: c, Held: held}
			}
			return nil
		}
		for _, o := range all {
			if conflicts(c, o) {
				return &ConflictError{Requested: c, Holder: o}
			}
		}
		return r.home.WriteFile(r.home.ClaimFile(c.TaskID), data)
	})
}

// Adopt makes the claim c, another bridge's until now, in place of whatever its file holds. Claims that cannot be read
// are passed over; the error is a *[ConflictError] when one that can be read is in the way.
func (r *Registry) Adopt(ctx context.Context, c Claim) error {
	data, err := encode(c)
	if err != nil {
		return fmt.Errorf("no claim: %w", err)
	}
	return r.locked(ctx, func() error {
		all, err := r.List()
		if _, unreadable := errors.AsType[*FileError](err); err != nil && !unreadable {
			return err
		}
		for _, o := range all {
			if conflicts(c, o) {
				return &ConflictError{Requested: c, Holder: o}
			}
		}
		return r.home.WriteFile(r.home.ClaimFile(c.TaskID), data)
	})
}

// Release ends the task's claim and returns it; the bool is false when it had none. A claim that cannot be read is a
// *[FileError] and stays.
func (r *Registry) Release(ctx context.Context, taskID string) (Claim, bool, error) {
	// A release of nothing shall not make the folder and the lock file.
	if c, found, err := r.Get(taskID); err != nil || !found {
		return c, found, err
	}
	var released Claim
	var found bool
	err := r.locked(ctx, func() error {
		var err error
		released, found, err = r.Get(taskID)
		if err != nil || !found {
			return err
		}
		return r.home.Remove(r.home.ClaimFile(taskID))
	})
	if err != nil {
		return Claim{}, false, err
	}
	return released, found, nil
}

// Discard moves the task's claim file aside when it cannot be read, and returns where to. A claim that can be read, or
// none, is an error: it is to be released.
func (r *Registry) Discard(ctx context.Context, taskID string, now time.Time) (kept string, err error) {
	err = r.locked(ctx, func() error {
		_, _, err := r.Get(taskID)
		if _, unreadable := errors.AsType[*FileError](err); !unreadable {
			return cmp.Or(err, fmt.Errorf("the claim of task %s can be read: release it", taskID))
		}
		kept, err = r.home.MoveAside(r.home.ClaimFile(taskID), "unreadable", now)
		return err
	})
	return kept, err
}

// Get returns the task's claim; the bool is false when it has none. A claim that cannot be read is a *[FileError].
func (r *Registry) Get(taskID string) (Claim, bool, error) {
	if !tasks.ValidID(taskID) {
		return Claim{}, false, nil
	}
	path := r.home.ClaimFile(taskID)
	data, err := r.home.ReadFile(path, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Claim{}, false, nil
	}
	var c Claim
	if err == nil {
		c, err = decode(data)
	}
	if err == nil && c.TaskID != taskID {
		err = fmt.Errorf("it holds the claim of task %s", c.TaskID)
	}
	if err != nil {
		return Claim{}, false, &FileError{TaskID: taskID, Path: path, Err: err}
	}
	return c, true, nil
}

// Holders returns the ids of the tasks that have a claim file, without reading any: who looks at many tasks need not ask
// for the claim of each.
func (r *Registry) Holders() (map[string]bool, error) {
	names, err := r.home.Names(r.home.ClaimsDir())
	if err != nil {
		return nil, fmt.Errorf("claims cannot be listed: %w", err)
	}
	holders := map[string]bool{}
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, ".json"); ok {
			holders[id] = true
		}
	}
	return holders, nil
}

// List returns all claims, oldest first. When some cannot be read, the error joins a *[FileError] for each, and the
// others are returned all the same.
func (r *Registry) List() ([]Claim, error) {
	names, err := r.home.Names(r.home.ClaimsDir())
	if err != nil {
		return nil, fmt.Errorf("claims cannot be listed: %w", err)
	}
	var all []Claim
	var bad []error
	for _, name := range names {
		id, ok := strings.CutSuffix(name, ".json")
		if !ok {
			continue
		}
		c, found, err := r.Get(id)
		if err != nil {
			bad = append(bad, err)
		} else if found {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b Claim) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.TaskID, b.TaskID)
	})
	return all, errors.Join(bad...)
}

// locked runs f while this process alone may change claims.
func (r *Registry) locked(ctx context.Context, f func() error) (err error) {
	if err := r.lock.Acquire(ctx, r.lockTimeout); err != nil {
		return err
	}
	defer func() {
		if e := r.lock.Release(); err == nil {
			err = e
		}
	}()
	return f()
}
