package operator

import (
	"errors"

	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
)

// The states of a ledger.
const (
	LedgerGood    = "good"
	LedgerEmpty   = "empty" // nothing was recorded yet
	LedgerDamaged = "damaged"
	LedgerFailed  = "failed" // the files could not be looked at
)

// Ledger is one task's ledger.
type Ledger struct {
	TaskID string `json:"taskId"`
	Path   string `json:"path"`
	State  string `json:"state"`
	Bytes  int64  `json:"bytes"`
	// First and Last are the cursors of its first and its last record; both are 0 when it has none.
	First int64 `json:"first,omitempty"`
	Last  int64 `json:"last,omitempty"`
	// Checkpoint is the cursor up to which the checkpoint stands for the records.
	Checkpoint int64  `json:"checkpoint,omitempty"`
	UpdatedAt  string `json:"updatedAt,omitempty"`
	// Torn counts the bytes behind the last whole line, which the next record takes the place of.
	Torn int64 `json:"torn,omitempty"`
	// Orphan is set when no task of the home has this ledger.
	Orphan  bool   `json:"orphan,omitempty"`
	Problem string `json:"problem,omitempty"`
	Help    string `json:"help,omitempty"`
}

// LedgersAnswer is what `ledgers` shows.
type LedgersAnswer struct {
	Ledgers  []Ledger `json:"ledgers"`
	Problems int      `json:"problems"`
}

// Ledgers reads every ledger of the home from its beginning.
func (o *Operator) Ledgers() (LedgersAnswer, error) {
	answer := LedgersAnswer{Ledgers: []Ledger{}}
	ids, err := o.ledgerIDs()
	if err != nil {
		return answer, err
	}
	for _, id := range ids {
		l := o.inspect(id)
		if l.Problem != "" {
			answer.Problems++
		}
		answer.Ledgers = append(answer.Ledgers, l)
	}
	return answer, nil
}

// inspect looks at one task's ledger.
func (o *Operator) inspect(taskID string) Ledger {
	view := Ledger{TaskID: taskID, Path: o.home.LedgerDir(taskID) + "/" + ledger.EventsFile, State: LedgerGood}
	root := ""
	task, err := o.tasks.Load(taskID)
	switch {
	case err == nil:
		root = task.SessionID
	case errors.Is(err, tasks.ErrNotFound):
		view.Orphan = true
	}
	found, err := ledger.Inspect(o.ledgerOptions(taskID, root))
	view.Bytes = found.Size
	if damaged, ok := errors.AsType[*ledger.DamagedError](err); ok {
		view.State, view.Problem, view.Help = LedgerDamaged, damaged.Error(), mending(taskID, damaged)
		return view
	}
	if err != nil {
		view.State, view.Problem, view.Help = LedgerFailed, err.Error(), "ls -la "+quote(o.home.LedgerDir(taskID))
		return view
	}
	view.Checkpoint, view.UpdatedAt, view.Torn = found.Checkpoint, stampMillis(found.UpdatedAt), found.Torn
	if found.Last == 0 {
		view.State = LedgerEmpty
	} else {
		view.First, view.Last = found.First, found.Last
	}
	return view
}

// mending is what helps a ledger that cannot be read. One of a newer bridge needs no mending.
func mending(taskID string, err error) string {
	if damaged, ok := errors.AsType[*ledger.DamagedError](err); ok && damaged.Newer {
		return "use the newer bridge that wrote it; " + Program + " doctor tells which run"
	}
	return Program + " ledgers recover " + taskID
}
