package mux

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// Limits of what waits in memory for a task's worker. Past them the events are dropped and read from the history
// later: a slow disk must not become a growing process.
const (
	maxInboxItems = 4096
	maxInboxBytes = 8 << 20
)

// Task is one watched task. The stream's reader pushes frames into it; a worker, which lives only while there is
// something to do, takes them to the ledger.
type Task struct {
	ID   string
	Root string // the task's session

	m      *Mux
	log    logger
	ledger *ledger.Ledger

	mu      sync.Mutex
	changed chan struct{} // closed and renewed whenever something that a caller can see has changed

	// What the reader fills.
	inbox      []item
	inboxBytes int
	runs       map[string]*run // contiguous runs of seqs on this connection, by session

	// What the worker keeps.
	epoch     int  // the connection the fields below are valid for; 0 while disconnected
	active    bool // on this connection, the sessions' needs have been worked out
	listedOn  int  // the epoch whose list of sessions is known
	working   bool
	paused    bool // after a fault, until the retry
	retry     *backoff.ExponentialBackOff
	fault     error // why the last work failed; nil when all is well
	sessions  map[string]*source
	unsent    []ledger.Entry   // entries whose append failed, other than events
	settle    bool             // the opening burst is over and has to be compared with the ledger
	settledOn int              // the epoch for which that was done
	missing   bool             // the host does not know the root session
	silent    map[string]int64 // sessions that are watched for a silent end, and their watermark
	watched   bool             // somebody of this process asked for the task or something happened in it

	// What callers see.
	requests map[string]*Request
	queues   map[string]Queue
	jobs     map[string]Jobs
}

// source is one session of a task: where it stands in the lineage and how much of it is in the ledger.
type source struct {
	id, parent, origin string
	mode               string // of a subagent, learned when its history is read

	covered  bool  // lo and next are valid on this connection
	lo, next int64 // every seq in [lo, next) was seen by this process; lo follows the ledger's watermark
	need     bool  // its history has to be read
	attached bool  // the host holds it in memory: frames of it came on this connection
	gone     bool  // the host does not know it
	checked  bool  // whether its turn died with the host was looked into
}

// run is a contiguous run [lo, next) of seqs that the reader saw of a session on this connection, chunks included.
type run struct{ lo, next int64 }

// item is a frame on its way to the ledger.
type item struct {
	kind    dsh.FrameKind
	session string
	seq     int64
	from    int64 // first seq of the contiguous run that the event ends
	entry   ledger.Entry
	size    int
}

func newTask(m *Mux, id, root string) *Task {
	return &Task{
		ID: id, Root: root, m: m, log: m.log.With("task", id),
		ledger:   m.opts.Ledger(id, root),
		changed:  make(chan struct{}),
		runs:     map[string]*run{},
		retry:    newBackoff(),
		sessions: map[string]*source{root: {id: root, origin: ledger.OriginRoot}},
		requests: map[string]*Request{},
		queues:   map[string]Queue{},
		jobs:     map[string]Jobs{},
	}
}

// notify wakes everybody who waits for a change. t.mu is held.
func (t *Task) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// connected begins a new connection: nothing of the last one says what was missed in between.
func (t *Task) connected(epoch int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch, t.active, t.settle, t.missing = epoch, false, false, false
	t.inbox, t.inboxBytes, t.silent = nil, 0, nil
	clear(t.runs)
	for _, s := range t.sessions {
		s.covered, s.attached, s.need, s.gone, s.checked = false, false, false, false, false
	}
	for _, r := range t.requests {
		r.confirmed = false
	}
	t.stale()
}

// disconnected ends a connection.
func (t *Task) disconnected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch = 0
	t.stale()
	t.notify()
}

// listed tells that the sessions of this connection are known. A task that nobody has asked for and that is idle is
// left alone: a home full of finished tasks must cost nothing.
func (t *Task) listed(epoch int) {
	row, known := t.m.row(t.Root)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch != epoch {
		return
	}
	t.listedOn = epoch
	if t.watched || len(t.inbox) > 0 || (known && row.Running) {
		t.start()
	}
	t.notify()
}

// settleBurst tells that the opening burst of this connection is over.
func (t *Task) settleBurst(epoch int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch != epoch {
		return
	}
	t.settle = true
	if t.watched {
		t.start()
	}
}

// addSession makes a subagent's session known. m.mu is held; t.mu is taken.
func (t *Task) addSession(s source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions[s.id] == nil {
		s.need = true
		t.sessions[s.id] = &s
	}
}

// push takes a frame from the stream. It never waits for anything.
func (t *Task) push(epoch int, frame dsh.Frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[frame.SessionID]
	if t.epoch != epoch || s == nil {
		return
	}
	s.attached = true
	if s.gone {
		s.gone = false // it was created since the host was asked
		t.missing = t.missing && s.id != t.Root
	}
	it := item{kind: frame.Kind, session: frame.SessionID, seq: frame.Seq, size: 256}
	switch frame.Kind {
	case dsh.FrameEvent:
		it.from = t.extend(frame.SessionID, frame.Seq)
		if frame.EventType == dsh.EventChunk {
			return
		}
		ev, err := frame.Event()
		if err != nil {
			t.log.Warn("an event frame makes no sense", "session", s.id, "seq", frame.Seq)
			delete(t.runs, frame.SessionID) // the next event finds a hole, and the history is read
			return
		}
		it.entry = scrub(ev, it.from, *s)
	case dsh.FrameSubscribed:
		t.runs[frame.SessionID] = &run{lo: frame.Seq + 1, next: frame.Seq + 1}
		if !t.watched {
			return // what was missed is read when somebody asks
		}
	case dsh.FrameQueue, dsh.FrameJobs, dsh.FrameQuestionRequested, dsh.FrameQuestionResolved,
		dsh.FrameApprovalRequested, dsh.FrameApprovalResolved:
		entry, ok := t.take(frame, *s)
		if !ok {
			return
		}
		it.entry = entry
	default:
		return
	}
	t.inbox = append(t.inbox, it)
	t.inboxBytes += it.size
	if len(t.inbox) > maxInboxItems || t.inboxBytes > maxInboxBytes {
		t.overflow()
	}
	t.start()
}

// extend follows the seqs of a session on the stream and returns the beginning of the run that ends with seq.
func (t *Task) extend(session string, seq int64) (from int64) {
	r := t.runs[session]
	if r == nil || seq != r.next {
		r = &run{lo: seq}
		t.runs[session] = r
	}
	r.next = seq + 1
	return r.lo
}

// overflow drops the waiting events: the history has them. Requests, queues and jobs stay, for they are nowhere else.
func (t *Task) overflow() {
	kept := t.inbox[:0]
	for _, it := range t.inbox {
		if it.kind == dsh.FrameEvent {
			if s := t.sessions[it.session]; s != nil {
				s.need, s.covered = true, false
			}
			continue
		}
		kept = append(kept, it)
	}
	t.inbox, t.inboxBytes = kept, len(kept)*256
}

// wake lets the worker look for work, at once even after a fault.
func (t *Task) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watched = true
	t.paused = false
	t.start()
}

// start begins a worker if there is none. t.mu is held.
func (t *Task) start() {
	t.watched = true
	if t.working || t.paused {
		return
	}
	t.working = t.m.spawn(t.work)
}

// work runs until there is nothing left to do, or until a fault; after a fault it comes back by itself.
func (t *Task) work() {
	for {
		t.mu.Lock()
		if !t.due() || t.m.ctx.Err() != nil {
			t.working = false
			t.notify()
			t.mu.Unlock()
			return
		}
		epoch := t.epoch
		t.mu.Unlock()

		err := t.step(t.m.ctx, epoch)

		t.mu.Lock()
		if err == nil || t.epoch != epoch {
			t.fault = nil
			t.retry.Reset()
			t.mu.Unlock()
			continue
		}
		t.fault = err
		t.working, t.paused = false, true
		pause := t.retry.NextBackOff()
		t.notify()
		t.mu.Unlock()
		t.log.Warn("the task's ledger could not be brought up to date", "err", err, "retryIn", pause)
		t.m.spawn(func() { t.resume(pause) })
		return
	}
}

// resume starts the worker again after a pause.
func (t *Task) resume(pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.m.ctx.Done():
		return
	}
	t.wake()
}

// due reports whether the worker has something to do. t.mu is held.
func (t *Task) due() bool {
	if len(t.unsent) > 0 {
		return true
	}
	if t.epoch == 0 || t.listedOn != t.epoch {
		return false // without a connection, or before its list, nothing can be worked out
	}
	if !t.active || len(t.inbox) > 0 || (t.settle && t.settledOn != t.epoch) {
		return true
	}
	for _, s := range t.sessions {
		if s.need && !s.gone {
			return true
		}
	}
	return false
}

// idle waits until the worker has done what there was to do, or failed at it.
func (t *Task) idle(ctx context.Context) error {
	for {
		t.mu.Lock()
		if !t.working && (t.fault != nil || !t.due()) {
			err := t.fault
			t.mu.Unlock()
			return err
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.m.ctx.Done():
			return ErrClosed
		}
	}
}
