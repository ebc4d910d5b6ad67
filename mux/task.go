package mux

import (
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// maxInbox is how many frames wait in memory for a task's worker. Past it the events are dropped and read from the
// history later: a slow disk must not become a growing process.
const maxInbox = 4096

// Task is one watched task. The stream's reader pushes frames into it; a worker, which lives only while there is
// something to do, takes them to the ledger.
type Task struct {
	ID   string
	Root string // the task's session

	m      *Mux
	log    logger
	ledger *ledger.Ledger

	mu sync.Mutex
	// changed is closed whenever something that a caller can see has changed; nil while nobody has asked since the last
	// time. With a thousand tasks a connection changes all of them, several times.
	changed chan struct{}

	// What the reader fills.
	inbox []item
	runs  map[string]*run // contiguous runs of seqs on this connection, by session

	// What the worker keeps.
	epoch     int  // the connection the fields below are valid for; 0 while disconnected
	active    bool // on this connection, the sessions' needs have been worked out
	listedOn  int  // the epoch whose list of sessions is known
	working   bool
	begun     int           // rounds of the worker that have begun
	done      int           // and those that are over
	round     chan struct{} // closed and renewed at the end of each, and when there will be none
	paused    bool          // after a fault, until the retry
	retry     *backoff.ExponentialBackOff
	resume    *time.Timer // ends the pause
	lingers   bool        // events wait in the inbox for others to come
	later     *time.Timer // ends that
	hurried   int         // callers that are to be told of everything at once
	fault     error       // why the last work failed; nil when all is well
	sessions  map[string]*source
	unsent    []ledger.Entry   // entries whose append failed, other than events
	settle    bool             // the opening burst is over and has to be compared with the ledger
	settledOn int              // the epoch for which that was done
	missing   bool             // the host does not know the root session
	silent    map[silence]bool // what is watched for a silent end
	suspect   bool             // something may have died with the host, and is to be looked into
	watched   bool             // somebody of this process asked for the task or something happened in it
	cursor    int64            // of the last record that was announced by changed

	// What callers see.
	requests map[string]*Request
	queues   map[string]Queue
	jobs     map[string]Jobs
	doing    Doing
}

// source is one session of a task: where it stands in the lineage and how much of it is in the ledger.
type source struct {
	id, parent, origin string
	mode               string // of a subagent, learned when its history is read

	covered    bool  // lo and next are valid on this connection
	lo, next   int64 // every seq in [lo, next) was seen by this process; lo follows the ledger's watermark
	need       bool  // its history has to be read
	heard      int   // frames of it on this connection; with the first, the host has shown that it holds it in memory
	gone       bool  // the host does not know it
	unreadable bool  // it is a subagent's, and the host cannot show it
	checked    bool  // whether its turn died with the host was looked into

	proof proof     // of what the host cannot lose any more, on all connections
	asked time.Time // when its history was asked for
}

// run is a contiguous run [lo, next) of seqs that the reader saw of a session on this connection, chunks included.
type run struct{ lo, next int64 }

// item is a frame on its way to the ledger.
type item struct {
	kind    dsh.FrameKind
	session string
	seq     int64
	from    int64 // first seq of the contiguous run that the event ends
	at      int64 // of a request: how far its session was on the stream when it came, as its next seq; -1 if unknown
	entry   ledger.Entry
}

func newTask(m *Mux, id, root string) *Task {
	return &Task{
		ID: id, Root: root, m: m, log: m.log.With("task", id),
		ledger:   m.opts.Ledger(id, root),
		round:    make(chan struct{}),
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
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// announce is notify for those who do not hold the lock.
func (t *Task) announce() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notify()
}

// reached announces records up to a cursor, also those of other processes, whoever of this one noticed them first.
// t.mu is held.
func (t *Task) reached(cursor int64) {
	if cursor > t.cursor {
		t.cursor = cursor
		t.notify()
	}
}

// connected begins a new connection: nothing of the last one says what was missed in between.
func (t *Task) connected(epoch int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch, t.active, t.settle, t.missing = epoch, false, false, false
	t.inbox, t.silent = nil, nil
	t.unsent = slices.DeleteFunc(t.unsent, brought)
	// What failed may have failed with the last connection.
	t.paused, t.fault = false, nil
	t.retry.Reset()
	clear(t.runs)
	for _, s := range t.sessions {
		s.covered, s.need, s.heard, s.gone, s.unreadable, s.checked = false, false, 0, false, false, false
	}
	for _, r := range t.requests {
		r.confirmed = false
	}
	t.stale()
}

// brought reports whether an entry tells what a connection brought. That is told anew on the next one, or it is so no
// more.
func brought(e ledger.Entry) bool {
	switch e.Type {
	case ledger.TypePromptIssued, ledger.TypeWriteIssued, ledger.TypeRespondAccepted, ledger.TypeRespondNotPending:
		return false
	}
	return true
}

// disconnected ends a connection.
func (t *Task) disconnected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.epoch, t.doing = 0, Doing{}
	t.unsent = slices.DeleteFunc(t.unsent, brought)
	t.stale()
	t.notify()
	t.endRound()
	if len(t.unsent) > 0 {
		t.start() // what this process did itself is recorded without a connection, too
	}
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
	if t.sessions[s.id] != nil {
		return
	}
	s.need = true
	t.sessions[s.id] = &s
	if t.active {
		t.start()
	}
}

// push takes a frame from the stream, and reports whether one before it got lost. It never waits for anything.
func (t *Task) push(epoch int, frame dsh.Frame) (lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[frame.SessionID]
	if t.epoch != epoch || s == nil {
		return false
	}
	s.heard++
	if s.gone {
		s.gone = false // it was created since the host was asked
		if s.id == t.Root {
			t.missing = false
			t.notify()
		}
	}
	it := item{kind: frame.Kind, session: frame.SessionID, seq: frame.Seq}
	switch frame.Kind {
	case dsh.FrameEvent:
		it.from, lost = t.extend(frame.SessionID, frame.Seq)
		if frame.EventType == dsh.EventChunk {
			return lost
		}
		ev, err := frame.Event()
		if err != nil {
			t.log.Warn("an event frame makes no sense", "session", s.id, "seq", frame.Seq)
			delete(t.runs, frame.SessionID) // the next event finds a hole, and the history is read
			return lost
		}
		it.entry = scrub(ev, it.from, *s)
		t.see(ev, s.id)
	case dsh.FrameSubscribed:
		t.runs[frame.SessionID] = &run{lo: frame.Seq + 1, next: frame.Seq + 1}
		if !t.watched {
			return false // what was missed is read when somebody asks
		}
	case dsh.FrameQueue, dsh.FrameJobs, dsh.FrameQuestionRequested, dsh.FrameQuestionResolved,
		dsh.FrameApprovalRequested, dsh.FrameApprovalResolved:
		entry, ok := t.take(frame, *s)
		if !ok {
			return false
		}
		it.entry, it.at = entry, -1
		if r := t.runs[frame.SessionID]; r != nil {
			it.at = r.next
			if it.asks() {
				it.entry.Coordination.From = r.next
			}
		}
	default:
		return false
	}
	t.inbox = append(t.inbox, it)
	if len(t.inbox) > maxInbox {
		t.overflow()
	}
	if t.mayLinger(frame) {
		t.linger()
	} else {
		t.start()
	}
	return lost
}

// extend follows the seqs of a session on the stream. It returns the beginning of the run that ends with seq, and
// whether a frame before it got lost.
func (t *Task) extend(session string, seq int64) (from int64, lost bool) {
	r := t.runs[session]
	lost = r != nil && seq > r.next
	if r == nil || seq != r.next {
		r = &run{lo: seq}
		t.runs[session] = r
	}
	r.next = seq + 1
	return r.lo, lost
}

// overflow drops the waiting events: the history has them. Requests and the last queue and jobs of every session stay,
// for they are nowhere else.
func (t *Task) overflow() {
	type snapshot struct {
		kind    dsh.FrameKind
		session string
	}
	newer := map[snapshot]bool{}
	var kept []item
	for _, it := range slices.Backward(t.inbox) {
		switch it.kind {
		case dsh.FrameEvent, dsh.FrameSubscribed:
			// The run ends here: what comes next does not follow what was dropped.
			delete(t.runs, it.session)
			if s := t.sessions[it.session]; s != nil {
				s.need, s.covered = true, false
			}
			continue
		case dsh.FrameQueue, dsh.FrameJobs:
			key := snapshot{it.kind, it.session}
			if newer[key] {
				continue
			}
			newer[key] = true
		}
		kept = append(kept, it)
	}
	slices.Reverse(kept)
	t.inbox = kept
}

// close ends what would still happen by itself, and lets go of the ledger. The worker is over.
func (t *Task) close() {
	t.mu.Lock()
	if t.resume != nil {
		t.resume.Stop()
	}
	if t.later != nil {
		t.later.Stop()
	}
	t.mu.Unlock()
	if err := t.ledger.Close(); err != nil {
		t.log.Warn("close ledger", "err", err)
	}
}
