package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// Values of state.
const (
	stateActive = "active"
	stateAll    = "all"
)

const (
	defaultList = 20
	maxList     = 200
)

type listArgs struct {
	State string `json:"state"`
	Limit int    `json:"limit"`
}

type listRow struct {
	TaskID    string           `json:"taskId"`
	SessionID string           `json:"sessionId"`
	Title     string           `json:"title,omitempty"`
	Status    string           `json:"status"`
	Execution ledger.Execution `json:"execution,omitempty"` // left out when it is the status
	Workspace *workspace       `json:"workspace,omitempty"`
	Pending   int              `json:"pending,omitempty"`
	UpdatedAt string           `json:"updatedAt"`
	// Behind is set when the host has moved on and this bridge has not read it yet; dsh_status does.
	Behind bool `json:"behind,omitempty"`
}

type listAnswer struct {
	Tasks []listRow `json:"tasks"`
	// More counts the tasks that the limit left out.
	More int `json:"more,omitempty"`
	// Semantics is there as soon as a claim is shown.
	WorkspaceClaimSemantic *claimSemantics `json:"workspaceClaimSemantics,omitempty"`
	HostUnreachable        string          `json:"hostUnreachable,omitempty"`
	// Unreadable names the tasks whose files cannot be used.
	Unreadable []string `json:"unreadable,omitempty"`
}

// list shows the tasks of the home, latest first, for the price of one session.list.
func (b *Bridge) list(ctx context.Context, raw json.RawMessage) (any, error) {
	args := listArgs{State: stateActive, Limit: defaultList}
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := checkChoice("state", args.State, stateActive, stateAll); err != nil {
		return nil, err
	}
	if err := checkRange("limit", args.Limit, 1, maxList); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The host is asked while the tasks' files are looked at: with many tasks each takes about as long as the other.
	var rows sessionRows
	var hostErr error
	var asked sync.WaitGroup
	asked.Go(func() { rows, hostErr = b.rows(ctx) })
	all, bad, err := b.tasks.Show()
	if err != nil {
		cancel()
	}
	asked.Wait()
	if err != nil {
		return nil, err
	}
	answer := listAnswer{Tasks: []listRow{}}
	for _, e := range bad {
		answer.Unreadable = append(answer.Unreadable, e.TaskID)
	}
	if hostErr != nil {
		answer.HostUnreachable = b.unavailable(hostErr)
	}
	holders, unknown := b.claims.Holders()
	for _, dated := range latestFirst(all, rows) {
		task := all[dated.at]
		t := b.follow(task)
		if args.State == stateActive && !b.mayBeActive(t, rows, hostErr != nil) {
			continue
		}
		if len(answer.Tasks) == args.Limit {
			answer.More++
			continue
		}
		row, active, err := b.listRow(task, t, rows.of(task.SessionID), unknown != nil || holders[task.TaskID])
		if err != nil {
			answer.Unreadable = append(answer.Unreadable, task.TaskID)
			continue
		}
		if args.State == stateActive && !active {
			continue
		}
		row.UpdatedAt = time.UnixMilli(dated.updated).UTC().Format(time.RFC3339)
		if row.Workspace != nil {
			answer.WorkspaceClaimSemantic = &claimSemantics{}
		}
		answer.Tasks = append(answer.Tasks, row)
	}
	return answer, nil
}

// datedTask is a task, by its place in a list, and when the host has last heard of its session, in milliseconds since
// the epoch.
type datedTask struct {
	at      int
	updated int64
}

// latestFirst puts the tasks in the order of what the host says of their sessions.
func latestFirst(all []tasks.Task, rows sessionRows) []datedTask {
	dated := make([]datedTask, len(all))
	for i := range all {
		dated[i] = datedTask{i, max(rows.of(all[i].SessionID).UpdatedAt, all[i].CreatedAt.UnixMilli())}
	}
	slices.SortStableFunc(dated, func(a, b datedTask) int { return cmp.Compare(b.updated, a.updated) })
	return dated
}

// sessionRows are the host's sessions by id.
type sessionRows map[string]*dsh.Session

// of returns the row of a session; an empty one when the host does not list it.
func (r sessionRows) of(sessionID string) dsh.Session {
	if row := r[sessionID]; row != nil {
		return *row
	}
	return dsh.Session{}
}

// rows lists the host's sessions.
func (b *Bridge) rows(ctx context.Context) (sessionRows, error) {
	if err := b.mux.Connected(ctx); err != nil {
		return nil, err
	}
	sessions, err := b.mux.List(ctx)
	rows := make(sessionRows, len(sessions))
	for i := range sessions {
		rows[sessions[i].ID] = &sessions[i]
	}
	return rows, err
}

// mayBeActive sorts out, without reading its ledger, a task in which nothing goes on: the host runs nothing in it and
// nothing has come of it on the stream.
func (b *Bridge) mayBeActive(t *mux.Task, rows sessionRows, away bool) bool {
	return away || t.Watched() || rows.of(t.Root).Running
}

// listRow shows a task, and reports whether anything goes on in it. claimed is whether it may have a claim.
func (b *Bridge) listRow(task tasks.Task, t *mux.Task, row dsh.Session, claimed bool) (listRow, bool, error) {
	if err := t.Ledger().Refresh(); err != nil {
		return listRow{}, false, err
	}
	snap, err := t.Snapshot()
	if err != nil {
		return listRow{}, false, err
	}
	c := conditionOf(snap)
	view := listRow{TaskID: task.TaskID, SessionID: task.SessionID, Title: row.Title, Status: c.Status, Pending: len(snap.Requests)}
	if c.Status != string(c.Execution) {
		view.Execution = c.Execution
	}
	active := !snap.Execution.Terminal() || row.Running || roundDue(snap, b.now())
	if snap.Availability == mux.Connected && row.Running == snap.Execution.Terminal() {
		view.Behind = true
	}
	if !claimed {
		return view, active, nil
	}
	claim, held, err := b.claims.Get(task.TaskID)
	if err == nil && held {
		view.Workspace = &workspace{Cwd: claim.Cwd, Mode: claim.Mode}
	}
	return view, active, err
}
