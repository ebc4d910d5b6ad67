package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"dsh-agentlink/bridge"
	"dsh-agentlink/claims"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
)

// StatusUnknown is the status of a task whose host cannot be asked, or has gone on in a way that is not recorded yet.
const StatusUnknown = "unknown"

// StatusNoSession is the status of a task whose session the host does not know.
const StatusNoSession = "session_not_found"

// Workspace is the folder that a task has claimed.
type Workspace struct {
	Cwd  string      `json:"cwd"`
	Mode claims.Mode `json:"mode"`
}

// Launch tells how far a delegation got that is not known to have got through.
type Launch struct {
	Stage      tasks.Stage `json:"stage"`
	PromptSent tasks.Sent  `json:"promptSent"`
	Complete   bool        `json:"complete,omitempty"`
}

// LastEvent is the last that is recorded of a task and says something to a person.
type LastEvent struct {
	Type string `json:"type"`
	At   string `json:"at,omitempty"`
}

// Task is one row of `tasks`.
type Task struct {
	TaskID    string `json:"taskId"`
	SessionID string `json:"sessionId,omitempty"`
	Title     string `json:"title,omitempty"` // from the host
	// Status is how the task stands now; Execution is what the ledger says, left out when it is the same.
	Status    string           `json:"status"`
	Execution ledger.Execution `json:"execution,omitempty"`
	// Behind is set when the host has moved on and no bridge has recorded it yet.
	Behind    bool       `json:"behind,omitempty"`
	CreatedAt string     `json:"createdAt,omitempty"`
	UpdatedAt string     `json:"updatedAt,omitempty"` // the latest that host or ledger tell
	LastEvent *LastEvent `json:"lastEvent,omitempty"`
	Pending   int        `json:"pending,omitempty"` // questions and approvals that wait for an answer
	Workspace *Workspace `json:"workspace,omitempty"`
	Launch    *Launch    `json:"launch,omitempty"`
	Problem   string     `json:"problem,omitempty"`
	Help      string     `json:"help,omitempty"`
}

// TasksAnswer is what `tasks` shows.
type TasksAnswer struct {
	Tasks []Task `json:"tasks"`
	// More counts the tasks that the limit left out.
	More            int    `json:"more,omitempty"`
	HostUnreachable string `json:"hostUnreachable,omitempty"`
	Problems        int    `json:"problems"`
}

// Tasks lists the tasks of the home, latest first, up to limit of them; 0 means all. It costs one call to the host, and
// the history of each task that no bridge has kept up with.
func (o *Operator) Tasks(ctx context.Context, limit int) (TasksAnswer, error) {
	host := o.lookAtHost(ctx)
	answer := TasksAnswer{Tasks: []Task{}, HostUnreachable: host.describe(o.opts.HostURL)}
	good, bad, err := o.tasks.List()
	if err != nil {
		return answer, err
	}
	for _, e := range bad {
		answer.Tasks = append(answer.Tasks, Task{TaskID: e.TaskID, Status: StatusUnknown,
			Problem: "its file " + e.Path + " cannot be used: " + e.Err.Error(), Help: "ls -l " + quote(e.Path)})
	}
	for _, t := range good {
		answer.Tasks = append(answer.Tasks, o.row(t, host))
	}
	for _, t := range answer.Tasks {
		if t.Problem != "" {
			answer.Problems++
		}
	}
	slices.SortStableFunc(answer.Tasks, func(a, b Task) int {
		return cmp.Or(cmp.Compare(b.UpdatedAt, a.UpdatedAt), cmp.Compare(a.TaskID, b.TaskID))
	})
	if limit > 0 && len(answer.Tasks) > limit {
		answer.More = len(answer.Tasks) - limit
		answer.Tasks = answer.Tasks[:limit]
	}
	return answer, o.catchUp(ctx, answer.Tasks)
}

// maxCatchUp bounds how many histories are read for one list; there are that many only after a long time without any
// bridge.
const maxCatchUp = 50

// catchUp finds out how those tasks stand that the host has gone on with and no bridge has recorded.
func (o *Operator) catchUp(ctx context.Context, rows []Task) error {
	var late []*Task
	var copies []tasks.Task
	for i := range rows {
		if !rows[i].Behind || rows[i].Problem != "" || len(late) == maxCatchUp {
			continue
		}
		if t, err := o.tasks.Load(rows[i].TaskID); err == nil {
			late, copies = append(late, &rows[i]), append(copies, t)
		}
	}
	if len(late) == 0 {
		return nil
	}
	r, err := o.replicate(copies...)
	if err != nil {
		return err
	}
	for _, row := range late {
		row.ask(ctx, r)
	}
	return r.close()
}

// ask takes over what the bridge of a copy says. A row whose question fails stays as it is, marked as behind.
func (v *Task) ask(ctx context.Context, r *replica) {
	raw, err := r.Look(ctx, "dsh_status", map[string]string{"taskId": v.TaskID})
	if err != nil {
		return
	}
	var now struct {
		Status  string
		Pending []json.RawMessage
		Cursor  int64
	}
	if json.Unmarshal(raw, &now) != nil || now.Status == StatusUnknown {
		return
	}
	if v.Execution == "" {
		v.Execution = ledger.Execution(v.Status)
	}
	// What runs is ahead of what is recorded by the pieces of a text, and not behind for that.
	v.Status, v.Pending, v.Behind = now.Status, len(now.Pending), now.Cursor > r.recorded[v.TaskID]
	if v.Status == string(v.Execution) {
		v.Execution = ""
	}
}

// row tells what ledger, claim and host know of a task.
func (o *Operator) row(t tasks.Task, host hostView) Task {
	session, listed := host.sessions[t.SessionID]
	view := Task{TaskID: t.TaskID, SessionID: t.SessionID, Title: session.Title, Status: StatusUnknown, CreatedAt: stamp(t.CreatedAt)}
	updated := t.CreatedAt
	if claim, held, err := o.claims.Get(t.TaskID); err == nil && held {
		view.Workspace = &Workspace{Cwd: claim.Cwd, Mode: claim.Mode}
	}
	l := ledger.Open(o.ledgerOptions(t.TaskID, t.SessionID))
	defer l.Close()
	err := l.View(func(state *ledger.State) {
		view.judge(state, session, listed, host.up())
		if !t.Launched() && !state.Arrived(t.PromptID) {
			view.Launch = &Launch{Stage: t.Stage, PromptSent: t.PromptSent}
		}
		updated = later(updated, time.UnixMilli(state.UpdatedAt))
	})
	if err == nil {
		view.LastEvent, err = lastEvent(l)
	}
	if err != nil {
		view.Problem, view.Help = err.Error(), mending(t.TaskID, err)
	}
	view.UpdatedAt = stamp(later(updated, time.UnixMilli(session.UpdatedAt)))
	return view
}

// lastRecords is how many records are looked through for the last event: what says nothing comes in smaller runs.
const lastRecords = 64

func lastEvent(l *ledger.Ledger) (*LastEvent, error) {
	var cursor int64
	if err := l.View(func(state *ledger.State) { cursor = state.Cursor }); err != nil {
		return nil, err
	}
	records, err := l.Read(max(l.Earliest()-1, cursor-lastRecords), lastRecords)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(records) {
		if !bridge.Tells(r) {
			continue
		}
		kind, at := string(r.Type), r.ObservedAt
		if r.Type == ledger.TypeEvent {
			kind, at = r.Coordination.Event, cmp.Or(r.Coordination.Time, r.ObservedAt)
		}
		return &LastEvent{Type: kind, At: stampMillis(at)}, nil
	}
	return nil, nil
}

// judge holds what is recorded against what the host says of the session.
func (v *Task) judge(state *ledger.State, session dsh.Session, listed, up bool) {
	execution := state.Execution()
	v.Pending = len(state.Pending)
	goesOn := !execution.Terminal() && state.RootTurn().Open()
	v.Behind = listed && (session.LastSeq > state.Watermark(state.Root) || session.Running != goesOn)
	switch {
	case !up:
	case !listed:
		v.Status = StatusNoSession
	case v.Behind && session.Running && execution.Terminal():
		v.Status = string(ledger.Running)
	case v.Behind && !session.Running && goesOn:
	default:
		v.Status = string(execution)
	}
	if v.Status != string(execution) {
		v.Execution = execution
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
