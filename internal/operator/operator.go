// Package operator is what a person runs to see how a bridge's home and its host stand.
//
// It changes nothing: not a byte in the home, not a lock file, not a thing on the host. Where a task has to be brought
// up to the host's present state, that happens in a copy of the task's files, see replica.go. What it returns is made
// for both of a command's forms: the json tags are the names that scripts rely on.
package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
)

// Options is what an Operator looks at.
type Options struct {
	Home    *home.Home
	Host    dsh.Host
	HostURL string // as shown
	// LedgerMaxBytes is the size past which a ledger is compacted; 0 for the default.
	LedgerMaxBytes int64
	// Now is the clock of ages; nil means time.Now.
	Now func() time.Time
}

// Operator looks at one home and one host. It keeps nothing between two looks.
type Operator struct {
	opts   Options
	home   *home.Home
	host   dsh.Host
	tasks  *tasks.Store
	claims *claims.Registry
	now    func() time.Time
	log    *slog.Logger
}

// New returns an Operator that has touched neither disk nor network.
func New(opts Options) *Operator {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Operator{
		opts: opts, home: opts.Home, host: opts.Host, now: opts.Now, log: slog.New(slog.DiscardHandler),
		tasks: tasks.Open(opts.Home), claims: claims.Open(opts.Home, 0), // nothing here takes a lock
	}
}

// TaskError says that a word names no task, or more than one.
type TaskError struct {
	Word    string
	Matches []string // the tasks that it could mean
	Home    string
}

func (e *TaskError) Error() string {
	if len(e.Matches) > 1 {
		return fmt.Sprintf("task %q could be any of %s; give more of its id", e.Word, strings.Join(e.Matches, ", "))
	}
	return fmt.Sprintf("there is no task %q in %s; dsh-agentlink tasks lists them", e.Word, e.Home)
}

// Resolve finds the task id that word is, or is the beginning of, with or without the "dsh_" in front. The error is a
// *[TaskError].
func (o *Operator) Resolve(word string) (string, error) {
	ids, err := o.taskIDs()
	if err != nil {
		return "", err
	}
	var matches []string
	for _, id := range ids {
		if id == word {
			return id, nil
		}
		if word != "" && (strings.HasPrefix(id, word) || strings.HasPrefix(id, "dsh_"+word)) {
			matches = append(matches, id)
		}
	}
	if len(matches) != 1 {
		return "", &TaskError{Word: word, Matches: matches, Home: o.home.Dir()}
	}
	return matches[0], nil
}

// taskIDs lists the tasks that have a file, whether it can be read or not.
func (o *Operator) taskIDs() ([]string, error) {
	names, err := o.home.Names(o.home.TasksDir())
	if err != nil {
		return nil, fmt.Errorf("the tasks cannot be listed: %w", err)
	}
	var ids []string
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, ".json"); ok && tasks.ValidID(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// ledger opens a task's ledger for reading only. Without a root it takes the ledger's own word for it.
func (o *Operator) ledgerOptions(taskID, root string) ledger.Options {
	return ledger.Options{Dir: o.home.LedgerDir(taskID), TaskID: taskID, Root: root, Disk: readOnlyDisk{o.home}, MaxBytes: o.opts.LedgerMaxBytes}
}

// hostView is the host's sessions, or why they cannot be had.
type hostView struct {
	sessions map[string]dsh.Session
	err      error
}

func (v hostView) up() bool { return v.err == nil }

func (o *Operator) lookAtHost(ctx context.Context) hostView {
	list, err := o.host.Sessions(ctx)
	view := hostView{sessions: make(map[string]dsh.Session, len(list)), err: err}
	for _, s := range list {
		view.sessions[s.ID] = s
	}
	return view
}

// describe says in one line why the host cannot be asked.
func (v hostView) describe(url string) string {
	switch {
	case v.err == nil:
		return ""
	case dsh.KindOf(v.err) == dsh.NotSent, broken(v.err):
		return "no DSH host answers at " + url
	case dsh.KindOf(v.err) == dsh.Incompatible:
		return "what answers at " + url + " is no host of DSH " + dsh.SpokenVersions
	}
	return v.err.Error()
}

// broken reports whether the connection broke: a host that dies resets it.
func broken(err error) bool {
	failed, ok := errors.AsType[*dsh.Error](err)
	return ok && failed.Kind == dsh.OutcomeUnknown && failed.Err != nil
}

// stamp writes a time as scripts get it; empty for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func stampMillis(ms int64) string {
	if ms == 0 {
		return ""
	}
	return stamp(time.UnixMilli(ms))
}

// exists reports whether there is something at a path, whatever it is.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
