package operator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"dsh-agentlink/bridge"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
)

// replica is a bridge of its own over a copy of some tasks' files, in a temporary folder.
//
// What a bridge tells of a task, it tells by recording first what the host did since. Over the copy it can do so as it
// always does, and the home stays as it is; the cursors that it gives to what no bridge has recorded yet are its own
// and mean nothing elsewhere. The copy holds ids and states only, like the home.
type replica struct {
	*bridge.Bridge
	dir string
	// recorded is the last cursor that the home's ledger of a task has.
	recorded map[string]int64
}

// replicate copies tasks and opens a bridge on them. close has to be called.
func (o *Operator) replicate(list ...tasks.Task) (*replica, error) {
	dir, err := os.MkdirTemp("", Program+"-look-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for a copy of the task: %w; TMPDIR says where", err)
	}
	r := &replica{dir: dir, recorded: map[string]int64{}}
	if err := o.fill(r, list); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	r.Start()
	return r, nil
}

// close ends the bridge and removes the copy.
func (r *replica) close() error {
	r.Close()
	return os.RemoveAll(r.dir)
}

func (o *Operator) fill(r *replica, list []tasks.Task) error {
	copied, err := home.Open(filepath.Join(r.dir, "home"))
	if err != nil {
		return err
	}
	for _, t := range list {
		if r.recorded[t.TaskID], err = o.copyTask(t, copied); err != nil {
			return err
		}
	}
	r.Bridge = bridge.New(bridge.Options{Host: o.host, HostURL: o.opts.HostURL, Home: copied, LockTimeout: copyLockTimeout, LedgerMaxBytes: ledgerNeverCompacts, Log: o.log})
	return nil
}

// copyTask copies what the home has of a task, and returns the last cursor of its ledger.
func (o *Operator) copyTask(t tasks.Task, to *home.Home) (last int64, err error) {
	if err := copyFile(o.home, o.home.TaskFile(t.TaskID), to, to.TaskFile(t.TaskID)); err != nil {
		return 0, err
	}
	if err := copyFile(o.home, o.home.ClaimFile(t.TaskID), to, to.ClaimFile(t.TaskID)); err != nil {
		return 0, err
	}
	if err := o.copyLedger(t.TaskID, to); err != nil {
		return 0, err
	}
	found, err := ledger.Inspect(ledger.Options{Dir: to.LedgerDir(t.TaskID), TaskID: t.TaskID, Root: t.SessionID, Disk: readOnlyDisk{to}})
	return found.Last, o.atHome(err, to)
}

const (
	// copyLockTimeout is for a lock that nobody else knows of.
	copyLockTimeout = time.Second
	// ledgerNeverCompacts keeps every cursor of the copy readable for as long as it lives.
	ledgerNeverCompacts = 1 << 40
	// maxCopied bounds what is read of one file; a ledger is compacted long before.
	maxCopied = 2 << 30
	// copyTries bounds how often a copy is outrun by compactions of the original.
	copyTries = 10
)

// atHome makes an error about the copy one about the original.
func (o *Operator) atHome(err error, copied *home.Home) error {
	if damaged, ok := errors.AsType[*ledger.DamagedError](err); ok {
		if rel, e := filepath.Rel(copied.Dir(), damaged.Path); e == nil {
			return &ledger.DamagedError{Path: filepath.Join(o.home.Dir(), rel), Line: damaged.Line, Reason: damaged.Reason}
		}
	}
	return err
}

// copyLedger copies a checkpoint and the records that belong to it. The original can be compacted at any moment: they
// belong together when the file still stands in its place after both were read.
func (o *Operator) copyLedger(id string, to *home.Home) error {
	from, dest := o.home.LedgerDir(id)+"/", to.LedgerDir(id)+"/"
	for range copyTries {
		before, err := os.Lstat(from + ledger.EventsFile)
		if errors.Is(err, fs.ErrNotExist) {
			return copyFile(o.home, from+ledger.CheckpointFile, to, dest+ledger.CheckpointFile) // which alone is damage
		}
		if err != nil {
			return err
		}
		if err := copyFile(o.home, from+ledger.CheckpointFile, to, dest+ledger.CheckpointFile); err != nil {
			return err
		}
		if err := copyFile(o.home, from+ledger.EventsFile, to, dest+ledger.EventsFile); err != nil {
			return err
		}
		if after, err := os.Lstat(from + ledger.EventsFile); err == nil && os.SameFile(before, after) {
			return nil
		}
	}
	return fmt.Errorf("%s was replaced %d times while it was copied", from+ledger.EventsFile, copyTries)
}

// copyFile copies one file; a missing one is no error.
func copyFile(from *home.Home, path string, to *home.Home, dest string) error {
	data, err := from.ReadFile(path, maxCopied)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return to.WriteFile(dest, data)
}
