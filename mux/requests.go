package mux

import (
	"cmp"
	"context"
	"errors"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// Request is a question or an approval that waits for an answer. Its content is the host's, verbatim, and lives in
// memory only.
type Request struct {
	ID        string // the rpcId that an answer echoes
	SessionID string
	// Since is when this home first saw it.
	Since time.Time
	// Cursor is that of the record that opened it.
	Cursor int64
	// Questions is set for a question, Approval for an approval. Both are nil when the host has not brought the
	// request on the current connection: it is known, but what it says is not.
	Questions []dsh.Question
	Approval  *dsh.Approval
	// IsApproval tells the type even where the content is not known.
	IsApproval bool
	// Unsure is set when an answer went out and no receipt came back.
	Unsure bool

	confirmed bool // the host brought it on the current connection
}

// Queue is the last queue snapshot of a session.
type Queue struct {
	Items []dsh.QueueItem
	// Stale is set once the connection that brought it is lost.
	Stale bool
}

// Jobs is the last job snapshot of a session.
type Jobs struct {
	Items []dsh.Job
	Stale bool
}

// take keeps what a frame says of requests, queue or jobs, and makes its entry. t.mu is held.
func (t *Task) take(frame dsh.Frame, s source) (ledger.Entry, bool) {
	entry, err := t.takeFrame(frame, s)
	if err != nil {
		t.log.Warn("a frame makes no sense", "kind", frame.Kind, "session", s.id)
		return ledger.Entry{}, false
	}
	t.notify()
	return entry, true
}

func (t *Task) takeFrame(frame dsh.Frame, s source) (ledger.Entry, error) {
	switch frame.Kind {
	case dsh.FrameQuestionRequested:
		questions, err := frame.Questions()
		if err != nil || id(frame.RPCID) == "" {
			return ledger.Entry{}, cmp.Or(err, errNoID)
		}
		t.requests[frame.RPCID] = &Request{ID: frame.RPCID, SessionID: s.id, Since: time.Now(), Questions: questions, confirmed: true}
		return record(ledger.TypeQuestionRequested, s, ledger.Coordination{RequestID: frame.RPCID}), nil
	case dsh.FrameApprovalRequested:
		approval, err := frame.Approval()
		if err != nil || id(frame.RPCID) == "" || id(approval.ApprovalID) == "" {
			return ledger.Entry{}, cmp.Or(err, errNoID)
		}
		t.requests[frame.RPCID] = &Request{ID: frame.RPCID, SessionID: s.id, Since: time.Now(), Approval: &approval, IsApproval: true, confirmed: true}
		if t.m.opts.ApprovalTimeout > 0 {
			epoch, answer := t.epoch, dsh.Answer{RPCID: frame.RPCID, SessionID: s.id, Approval: &dsh.ApprovalAnswer{ApprovalID: approval.ApprovalID}}
			t.m.spawn(func() { t.expire(epoch, answer) })
		}
		return record(ledger.TypeApprovalRequested, s, ledger.Coordination{RequestID: frame.RPCID, ApprovalID: approval.ApprovalID}), nil
	case dsh.FrameQuestionResolved:
		r, err := frame.Resolution()
		if err != nil {
			return ledger.Entry{}, err
		}
		delete(t.requests, r.RequestRPCID)
		return record(ledger.TypeQuestionResolved, s, ledger.Coordination{RequestID: id(r.RequestRPCID), Outcome: outcome(r.Outcome)}), nil
	case dsh.FrameApprovalResolved:
		r, err := frame.Resolution()
		if err != nil {
			return ledger.Entry{}, err
		}
		for rpcID, req := range t.requests {
			if req.Approval != nil && req.Approval.ApprovalID == r.ApprovalID {
				delete(t.requests, rpcID)
			}
		}
		return record(ledger.TypeApprovalResolved, s, ledger.Coordination{ApprovalID: id(r.ApprovalID), Outcome: outcome(r.Outcome)}), nil
	case dsh.FrameQueue:
		items, err := frame.Queue()
		if err != nil {
			return ledger.Entry{}, err
		}
		t.queues[s.id] = Queue{Items: items}
		entry := record(ledger.TypeQueue, s, ledger.Coordination{})
		for _, item := range items {
			entry.Coordination.Queue = append(entry.Coordination.Queue, ledger.QueueItem{ID: id(item.ID),
				Placement: vocabulary(item.Placement, dsh.PlacementQueued, dsh.PlacementSteering, dsh.PlacementContext)})
		}
		return entry, nil
	default: // dsh.FrameJobs
		jobs, err := frame.Jobs()
		if err != nil {
			return ledger.Entry{}, err
		}
		t.jobs[s.id] = Jobs{Items: jobs}
		entry := record(ledger.TypeJobs, s, ledger.Coordination{})
		for _, job := range jobs {
			entry.Coordination.Jobs = append(entry.Coordination.Jobs, ledger.JobState{ID: id(job.ID),
				Status: vocabulary(job.Status, "running", "stopping", "completed", "failed", "killed")})
		}
		return entry, nil
	}
}

// errNoID is what is wrong with a request whose id no record can name.
var errNoID = errors.New("the request has no usable id")

// stale marks what only the lost connection could vouch for. t.mu is held.
func (t *Task) stale() {
	for id, q := range t.queues {
		q.Stale = true
		t.queues[id] = q
	}
	for id, j := range t.jobs {
		j.Stale = true
		t.jobs[id] = j
	}
}

// withdraw compares, once the opening burst is over, the requests that the ledger holds as pending with those that the
// host brought: what it did not bring is no longer pending. What another process recorded after this connection was
// opened is on its way here too, and no matter of the burst.
func (t *Task) withdraw(ctx context.Context, epoch int) error {
	t.mu.Lock()
	due := t.epoch == epoch && t.settle && t.settledOn != epoch && len(t.inbox) == 0
	t.mu.Unlock()
	if !due {
		return nil
	}
	if err := t.refresh(); err != nil {
		return err
	}
	since := t.m.since().UnixMilli()
	pending := map[string]ledger.Pending{}
	if err := t.ledger.View(func(state *ledger.State) {
		for id, p := range state.Pending {
			if p.Since < since {
				pending[id] = *p
			}
		}
	}); err != nil {
		return err
	}
	held := t.m.heldRequests()
	t.mu.Lock()
	if t.epoch != epoch || len(t.inbox) > 0 {
		t.mu.Unlock()
		return nil // more came; the next round decides
	}
	var batch []ledger.Entry
	for id, p := range pending {
		if r := t.requests[id]; held[id] || (r != nil && r.confirmed) {
			continue
		}
		s := source{id: p.SessionID, origin: ledger.OriginRoot}
		if known := t.sessions[p.SessionID]; known != nil {
			s = *known
		}
		batch = append(batch, record(ledger.TypeWithdrawn, s, ledger.Coordination{RequestID: id, ApprovalID: p.ApprovalID}))
	}
	for id, r := range t.requests {
		if !r.confirmed {
			delete(t.requests, id)
		}
	}
	for id, j := range t.jobs {
		if j.Stale {
			delete(t.jobs, id) // the burst tells of every session that has jobs: these died with their host
			t.notify()
		}
	}
	t.settledOn = epoch
	t.mu.Unlock()
	return t.append(ctx, epoch, batch)
}
