package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// Bounds of texts in answers, in bytes. A caller pays for every one of them; the pointer beside a cut text leads to
// the rest.
const (
	maxFinal   = 6000
	maxFailure = 600
	maxLabel   = 120 // of a job or a subagent
)

type taskArgs struct {
	TaskID string `json:"taskId"`
}

type turnView struct {
	Number    int    `json:"number"`
	StartedAt string `json:"startedAt,omitempty"`
	EndedAt   string `json:"endedAt,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

type queueView struct {
	Known    bool `json:"known"`
	Stale    bool `json:"stale,omitempty"`
	NextTurn int  `json:"nextTurn,omitempty"`
	Steering int  `json:"steering,omitempty"`
	Context  int  `json:"context,omitempty"`
	NextStep int  `json:"nextStep,omitempty"` // steering and context
	Total    int  `json:"total"`
}

type job struct {
	ID     string `json:"id"`
	Label  string `json:"label,omitempty"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

type subagentView struct {
	SessionID string `json:"sessionId"`
	Parent    string `json:"parentSessionId,omitempty"` // left out when it is the task's own session
	Label     string `json:"label,omitempty"`
	Mode      string `json:"mode,omitempty"`
	State     string `json:"state"` // running, or how its last turn ended
	// LastMessageSeq points at the last words of its last finished turn.
	LastMessageSeq *int64 `json:"lastMessageSeq,omitempty"`
}

// launchView explains a delegation that did not get through.
type launchView struct {
	Stage      tasks.Stage `json:"stage"`
	PromptSent tasks.Sent  `json:"promptSent"`
	GoalSent   tasks.Sent  `json:"goalSent,omitempty"`
	Next       string      `json:"next"`
}

type statusAnswer struct {
	TaskID    string `json:"taskId"`
	SessionID string `json:"sessionId"`
	Title     string `json:"title,omitempty"`
	condition
	LastKnown              string           `json:"lastKnownExecutionStatus,omitempty"`
	Delegation             *launchView      `json:"delegation,omitempty"`
	Turn                   *turnView        `json:"turn,omitempty"`
	Failure                *failure         `json:"failure,omitempty"`
	Goal                   *goalView        `json:"goal,omitempty"`
	FinalMessage           *message         `json:"finalMessage,omitempty"`
	FinalMessageStatus     string           `json:"finalMessageStatus,omitempty"` // left out beside the message itself
	Pending                []pendingRequest `json:"pending,omitempty"`
	Queue                  queueView        `json:"queue"`
	Jobs                   []job            `json:"jobs,omitempty"`
	Subagents              []subagentView   `json:"subagents,omitempty"`
	Model                  string           `json:"model,omitempty"`
	Routable               *bool            `json:"routable,omitempty"`
	Workspace              *workspace       `json:"workspace,omitempty"`
	WorkspaceClaimSemantic *claimSemantics  `json:"workspaceClaimSemantics,omitempty"`
	Cursor                 int64            `json:"cursor"`
	EarliestCursor         int64            `json:"earliestCursor,omitempty"` // left out while nothing has left the ledger
	Revision               string           `json:"revision"`
	Recovery               string           `json:"recovery"`
	Gaps                   []gapView        `json:"gaps,omitempty"`
	Fault                  string           `json:"fault,omitempty"`
	ContentUnavailable     string           `json:"contentUnavailable,omitempty"`
}

// Values of recovery.
const (
	recoveryLive    = "live"              // the ledger equals the host's history
	recoveryOffline = "offline"           // what the host did since is not known
	recoveryGap     = "unrecoverable_gap" // and the gaps say which events
	recoveryFaulted = "faulted"           // the ledger could not be brought up to date; fault says why
)

type gapView struct {
	SessionID string `json:"sessionId,omitempty"`
	FromSeq   int64  `json:"fromSeq"`
	ToSeq     int64  `json:"toSeq"`
	Cursor    int64  `json:"cursor"`
}

// status tells everything about a task at once.
func (b *Bridge) status(ctx context.Context, raw json.RawMessage) (any, error) {
	var args taskArgs
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	task, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	// Asked beside all the rest, since nothing of it depends on the answer.
	var models dsh.Models
	var modelsErr error
	var asking sync.WaitGroup
	asking.Go(func() { models, modelsErr = b.host.Models(ctx, t.Root) })
	defer asking.Wait()
	row, snap, hostErr, err := fresh(ctx, t)
	if err != nil {
		return nil, err
	}
	answer := statusAnswer{
		TaskID: t.ID, SessionID: t.Root, Title: row.Title, condition: conditionOf(snap),
		FinalMessageStatus: finalStatus(snap), Queue: queueOf(snap.Queue), Jobs: jobsOf(snap.Jobs), Subagents: b.subagentsOf(t, snap),
		Cursor: snap.Cursor, Revision: revision(snap), Recovery: recoveryLive,
	}
	if snap.Earliest > 1 {
		answer.EarliestCursor = snap.Earliest
	}
	answer.fill(snap)
	if answer.Delegation, err = b.launchOf(task, t); err != nil {
		return nil, err
	}
	if err := b.fillClaim(&answer); err != nil {
		return nil, err
	}
	if hostErr != nil && snap.Availability == mux.Connected {
		answer.Recovery, answer.Fault = recoveryFaulted, b.unavailable(hostErr)
	}
	r := b.reader(t, snap)
	answer.Pending = b.pending(ctx, r, snap)
	answer.Goal = b.goalKnown(snap, row.Goal)
	if snap.Availability != mux.Connected {
		b.fillAway(&answer, snap, hostErr)
		return answer, b.settled(t)
	}
	if answer.FinalMessage, answer.Failure, err = r.outcome(ctx, snap, maxFinal); err == nil {
		answer.Goal, err = b.goalShown(ctx, r, snap, row.Goal)
	}
	if err == nil {
		err = b.labelSubagents(ctx, answer.Subagents, t.Root)
	}
	if answer.FinalMessage != nil {
		answer.FinalMessageStatus = ""
	}
	if err != nil {
		answer.ContentUnavailable = b.unavailable(err)
	}
	if asking.Wait(); modelsErr == nil {
		answer.Model, answer.Routable = models.Model, &models.Routable
	}
	return answer, b.settled(t)
}

// fill copies from a snapshot what needs no host.
func (a *statusAnswer) fill(snap mux.Snapshot) {
	if snap.Turn.Number > 0 {
		a.Turn = &turnView{Number: snap.Turn.Number, StartedAt: stamp(snap.Turn.StartedAt), EndedAt: stamp(snap.Turn.EndedAt), Reason: snap.Turn.Reason}
	}
	for _, g := range snap.Gaps {
		view := gapView{FromSeq: g.From, ToSeq: g.To, Cursor: g.Cursor}
		if g.SessionID != a.SessionID {
			view.SessionID = g.SessionID
		}
		a.Gaps = append(a.Gaps, view)
		a.Recovery = recoveryGap
	}
	if snap.Fault != nil {
		a.Recovery = recoveryFaulted
	}
}

// fillAway says what is known while the host cannot be asked.
func (b *Bridge) fillAway(a *statusAnswer, snap mux.Snapshot, err error) {
	a.LastKnown = string(snap.Execution)
	a.ContentUnavailable = b.away(snap, err)
	if a.Recovery == recoveryLive {
		a.Recovery = recoveryOffline
	}
}

func (b *Bridge) fillClaim(a *statusAnswer) error {
	claim, held, err := b.claims.Get(a.TaskID)
	if err == nil && held {
		a.Workspace, a.WorkspaceClaimSemantic = &workspace{Cwd: claim.Cwd, Mode: claim.Mode}, &claimSemantics{}
	}
	return err
}

// launchOf explains a delegation that did not get through; nil when it did.
func (b *Bridge) launchOf(task tasks.Task, t *mux.Task) (*launchView, error) {
	if task.Launched() {
		return nil, nil
	}
	// The launch may have broken off between the host's answer and the note of it; the history tells.
	before := task
	if task.PromptID != "" && task.PromptSent != tasks.SentYes {
		arrived, err := t.Arrived(task.PromptID)
		if err != nil {
			return nil, err
		}
		if arrived {
			task.Stage, task.PromptSent = tasks.Prompted, tasks.SentYes
		}
	}
	if task.GoalSent != "" && task.GoalSent != tasks.SentYes {
		snap, err := t.Snapshot()
		if err != nil {
			return nil, err
		}
		if snap.GoalKnown {
			task.Stage, task.GoalSent = tasks.Prompted, tasks.SentYes
			if task.PromptID == "" {
				task.PromptSent = tasks.SentYes
			}
		}
	}
	if task != before {
		if err := b.tasks.Save(task); err != nil {
			return nil, err
		}
	}
	if task.Launched() {
		return nil, nil
	}
	return &launchView{Stage: task.Stage, PromptSent: task.PromptSent, GoalSent: task.GoalSent, Next: incompleteError(task, "").Hint}, nil
}

// stateRunning is the state of a subagent whose turn is open.
const stateRunning = "running"

func (b *Bridge) subagentsOf(t *mux.Task, snap mux.Snapshot) []subagentView {
	var list []subagentView
	for _, s := range snap.Subagents {
		view := subagentView{SessionID: s.SessionID, Mode: s.Mode, State: subagentState(s)}
		if s.Parent != t.Root {
			view.Parent = s.Parent
		}
		if s.Final >= 0 {
			view.LastMessageSeq = &s.Final
		}
		list = append(list, view)
	}
	return list
}

// subagentState is running, or how the last turn of a subagent ended.
func subagentState(s mux.Subagent) string {
	switch {
	case s.Turn.Open():
		return stateRunning
	case s.Turn.Number == 0:
		return "starting"
	}
	return s.Turn.Reason
}

// labelSubagents adds the labels, which the host tells parent by parent.
func (b *Bridge) labelSubagents(ctx context.Context, views []subagentView, root string) error {
	children := map[string][]dsh.Subagent{}
	for i := range views {
		parent := cmpOr(views[i].Parent, root)
		if _, asked := children[parent]; !asked {
			list, err := b.host.Subagents(ctx, parent)
			if err != nil {
				return err
			}
			children[parent] = list
		}
		for _, c := range children[parent] {
			if c.SessionID == views[i].SessionID {
				views[i].Label, _ = shorten(c.Label, maxLabel)
			}
		}
	}
	return nil
}

func queueOf(q *mux.Queue) queueView {
	if q == nil {
		return queueView{}
	}
	view := queueView{Known: true, Stale: q.Stale, Total: len(q.Items)}
	for _, item := range q.Items {
		switch item.Placement {
		case dsh.PlacementQueued:
			view.NextTurn++
		case dsh.PlacementSteering:
			view.Steering++
		case dsh.PlacementContext:
			view.Context++
		}
	}
	view.NextStep = view.Steering + view.Context
	return view
}

// jobsOf shows the jobs that run; one that is done has told the session so itself.
func jobsOf(jobs []dsh.Job) []job {
	var list []job
	for _, j := range jobs {
		if j.FinishedAt != 0 {
			continue
		}
		label, _ := shorten(j.Label, maxLabel)
		list = append(list, job{ID: j.ID, Label: label, Status: j.Status})
	}
	return list
}

func stamp(millis int64) string {
	if millis == 0 {
		return ""
	}
	return time.UnixMilli(millis).UTC().Format(time.RFC3339)
}

// revision digests what a caller decides upon: where the turn is, what is asked, what is queued. Mere progress inside a
// turn leaves it as it is.
func revision(snap mux.Snapshot) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %v\n", snap.Execution, snap.Turn.Number, snap.Turn.Ended)
	if g := snap.Goal; g != nil {
		fmt.Fprintf(h, "goal %s %d\n", g.ID, g.Revision)
	}
	for _, r := range snap.Requests {
		fmt.Fprintf(h, "request %s\n", r.ID)
	}
	if snap.Queue != nil {
		for _, item := range snap.Queue.Items {
			fmt.Fprintf(h, "queued %s %s\n", item.ID, item.Placement)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// checkView refuses a write whose caller has not seen the present state.
func (b *Bridge) checkView(t *mux.Task, snap mux.Snapshot, since *int64, expected string) error {
	if since != nil && *since != snap.Cursor {
		records, err := t.Ledger().Read(*since, 500)
		if err != nil {
			return err
		}
		if len(records) > 0 {
			return staleView(snap, records)
		}
	}
	if expected != "" && expected != revision(snap) {
		return staleView(snap, nil)
	}
	return nil
}

func staleView(snap mux.Snapshot, records []ledger.Record) *Error {
	e := &Error{Code: CodeStaleView, Message: "the task has moved since you looked; nothing was sent",
		Hint: "Look with dsh_tail or dsh_status, decide again, and pass the new cursor or revision."}
	e.with("cursor", snap.Cursor).with("revision", revision(snap)).with("execution", snap.Execution)
	changes := map[string]int{}
	for _, r := range records {
		kind := string(r.Type)
		if r.Type == ledger.TypeEvent {
			kind = r.Coordination.Event
		}
		changes[kind]++
	}
	if len(changes) > 0 {
		e.with("changes", changes)
	}
	return e
}
