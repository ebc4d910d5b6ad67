package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
)

// Event is one event of a task as dsh_tail digests it.
type Event struct {
	// Cursor is the event's place in the home's ledger; 0 while no bridge has recorded it.
	Cursor      int64             `json:"cursor,omitempty"`
	At          string            `json:"at"`
	Type        string            `json:"type"`
	SessionID   string            `json:"sessionId,omitempty"` // left out when it is the task's own session
	Seq         *int64            `json:"seq,omitempty"`
	Turn        int               `json:"turn,omitempty"`
	From        string            `json:"from,omitempty"`
	Text        string            `json:"text,omitempty"`
	Chars       int               `json:"chars,omitempty"` // the full length of a text that was cut
	Interrupted bool              `json:"interrupted,omitempty"`
	CallID      string            `json:"callId,omitempty"`
	Tool        string            `json:"tool,omitempty"`
	Args        string            `json:"args,omitempty"`
	IsError     bool              `json:"isError,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Failure     *Failure          `json:"failure,omitempty"`
	RequestID   string            `json:"requestId,omitempty"`
	ApprovalID  string            `json:"approvalId,omitempty"`
	Outcome     string            `json:"outcome,omitempty"`
	Mode        string            `json:"mode,omitempty"`
	Label       string            `json:"label,omitempty"`
	Goal        *Goal             `json:"goal,omitempty"`
	Jobs        []ledger.JobState `json:"jobs,omitempty"`
	FromSeq     *int64            `json:"fromSeq,omitempty"`
	ToSeq       *int64            `json:"toSeq,omitempty"`
}

// Failure says why a turn failed.
type Failure struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
	Status  int    `json:"status,omitempty"`
}

// Goal is a change of the goal that a session pursues.
type Goal struct {
	Operation string `json:"operation"`
	Phase     string `json:"phase,omitempty"`
	Revision  int    `json:"revision,omitempty"`
	Objective string `json:"objective,omitempty"`
	Blocked   string `json:"blocked,omitempty"`
}

// Pending is a question or an approval that waits for an answer.
type Pending struct {
	RequestID   string         `json:"requestId"`
	Type        string         `json:"type"` // question or approval
	SessionID   string         `json:"sessionId,omitempty"`
	AgeSec      int64          `json:"ageSec"`
	Questions   []dsh.Question `json:"questions,omitempty"`
	ToolName    string         `json:"toolName,omitempty"`
	Reason      string         `json:"reason,omitempty"`
	Command     string         `json:"command,omitempty"`
	Answer      string         `json:"answer,omitempty"`
	Unavailable string         `json:"unavailable,omitempty"`
}

// Tail is what happened in a task, up to now.
type Tail struct {
	TaskID       string           `json:"taskId"`
	Availability string           `json:"availability"`
	Execution    ledger.Execution `json:"execution"`
	Status       string           `json:"status"`
	Events       []Event          `json:"events"`
	Pending      []Pending        `json:"pending,omitempty"`
	// NextCursor is where to go on from, as far as a bridge has recorded it; what came later is shown again.
	NextCursor int64 `json:"nextCursor"`
	HasMore    bool  `json:"hasMore"`
	// ContentUnavailable says why the events have no content.
	ContentUnavailable string `json:"contentUnavailable,omitempty"`
	Fault              string `json:"fault,omitempty"`
}

// Feed reads a task's events from a cursor on, over the host's live history.
type Feed struct {
	task     tasks.Task
	replica  *replica
	recorded int64          // the last cursor that the home's ledger had when it was copied
	original *ledger.Ledger // the home's, for reading
	next     int64          // the copy's cursor to go on from
}

// pageEvents and pageBytes are what one look at the copy brings at most.
const (
	pageEvents = 500
	pageBytes  = 1_000_000
)

// Feed opens a task's events behind the cursor since; without one, from the last `last` events on. Close has to be
// called.
func (o *Operator) Feed(ctx context.Context, taskID string, since *int64, last int) (*Feed, error) {
	task, err := o.tasks.Load(taskID)
	if err != nil {
		return nil, err
	}
	r, err := o.replicate(task)
	if err != nil {
		return nil, err
	}
	f := &Feed{task: task, replica: r, recorded: r.recorded[taskID], original: ledger.Open(o.ledgerOptions(taskID, task.SessionID))}
	if since != nil {
		f.next = *since
	} else if f.next, err = r.TailStart(ctx, taskID, last); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close ends the feed.
func (f *Feed) Close() error {
	err := f.replica.close()
	if e := f.original.Close(); err == nil {
		err = e
	}
	return err
}

// More reads up to limit further events (0 for all there are) and says how the task stands.
func (f *Feed) More(ctx context.Context, limit int) (Tail, error) {
	all := Tail{Events: []Event{}}
	for {
		page, err := f.page(ctx, limit-len(all.Events), limit > 0)
		if err != nil {
			return all, err
		}
		page.Events = append(all.Events, page.Events...)
		all = page
		if !page.HasMore || (limit > 0 && len(all.Events) >= limit) {
			break
		}
	}
	for i := range all.Events {
		f.place(&all.Events[i])
	}
	all.NextCursor = min(f.next, f.recorded)
	return all, nil
}

func (f *Feed) page(ctx context.Context, left int, limited bool) (Tail, error) {
	want := pageEvents
	if limited {
		want = min(left, pageEvents)
	}
	raw, err := f.replica.Look(ctx, "dsh_tail", map[string]any{"taskId": f.task.TaskID, "sinceCursor": f.next, "maxEvents": want, "maxBytes": pageBytes})
	if err != nil {
		return Tail{}, err
	}
	var page Tail
	if err := json.Unmarshal(raw, &page); err != nil {
		return Tail{}, fmt.Errorf("read the events: %w", err)
	}
	f.next = page.NextCursor
	return page, nil
}

// place takes from an event what only the copy knows of it, and gives it what only the original knows.
func (f *Feed) place(e *Event) {
	if e.Cursor <= f.recorded {
		return
	}
	e.Cursor = 0
	if e.Type == "user/message" && e.From == "person" && e.Seq != nil && f.ours(e.SessionID, *e.Seq) {
		e.From = "bridge"
	}
}

// ours reports whether a message that the copy took for a person's was sent by a bridge of this home. Such a bridge
// records a prompt before it sends it, so the original knows of every one that has become a message.
func (f *Feed) ours(session string, seq int64) bool {
	if session != "" || f.original.Refresh() != nil {
		return false // prompts go to the task's own session
	}
	const batch = 512
	for next := f.recorded; ; {
		records, err := f.original.Read(next, batch)
		if err != nil {
			return false
		}
		for _, r := range records {
			if next = r.Cursor; r.SourceSessionID == f.task.SessionID && r.SourceSeq != nil && *r.SourceSeq == seq {
				return r.Coordination.Bridge
			}
		}
		if len(records) < batch {
			break
		}
	}
	waits := false
	err := f.original.View(func(state *ledger.State) {
		for _, p := range state.Prompts {
			waits = waits || p.Outcome != ledger.PromptRefused
		}
	})
	return err == nil && waits
}

// Follow hands over what More brings, now and at every change, until ctx ends, which is no error. It goes on through
// losses of the host.
func (f *Feed) Follow(ctx context.Context, show func(Tail) error) error {
	for {
		changed, err := f.replica.Changed(f.task.TaskID)
		if err != nil {
			return err
		}
		tail, err := f.More(ctx, 0)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := show(tail); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
		// A busy turn has many events a second; together they cost one look.
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// followPause is shorter than anybody notices.
const followPause = 100 * time.Millisecond

// New returns the pending requests that are not in seen, by request id.
func (t Tail) New(seen []string) []Pending {
	return slices.DeleteFunc(slices.Clone(t.Pending), func(p Pending) bool { return slices.Contains(seen, p.RequestID) })
}
