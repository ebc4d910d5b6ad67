package sim

import (
	"fmt"
	"io"
	"path"
	"sync"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// World is one home with everything around it.
type World struct {
	Seed uint64
	*journal
	profile profile
	faults  *faults
	dice    *dice // of the schedule
	host    *Host
	disk    *Disk
	locks   *locks
	books   *books
	tasks   []taskID
	slots   []*slot
	sent    *sent
	// finally is done when the callers have fallen silent; nil for nothing.
	finally func()
	// tamper changes what the bridges have before the model sees it; nil in earnest.
	tamper func(*evidence)

	calm chan struct{} // closed when the schedule is over and the callers fall silent
	over chan struct{} // closed when the world ends
	wait sync.WaitGroup

	mu       sync.Mutex
	failures []string
}

// taskID names a task and its session.
type taskID struct{ id, root string }

// dir is the folder of the task's ledger.
func (t taskID) dir() string { return path.Join("/home/dev/.dsh/agentlink/ledgers", t.id) }

func (t taskID) events() string { return path.Join(t.dir(), ledger.EventsFile) }

// Options changes what a world has beside its seed.
type Options struct {
	// Trace gets what happens in the world, line by line; nil for nothing.
	Trace io.Writer
}

// maxFailures bounds what is kept of a world that has gone wrong.
const maxFailures = 20

// newWorld makes a world in which nothing happens yet.
func newWorld(seed uint64, p profile, opts Options) *World {
	w := &World{
		Seed: seed, journal: newJournal(opts.Trace), profile: p, dice: newDice(seed, "schedule"), sent: newSent(),
		calm: make(chan struct{}), over: make(chan struct{}),
	}
	w.faults = newFaults(p, w.journal)
	w.books = newBooks(w.fail)
	w.disk = newDisk(seed, w.journal, w.books)
	w.locks = newLocks(w.journal)
	w.host = newHost(seed, w.journal)
	w.host.deaf, w.host.maxPage, w.host.skew = w.faults.deaf, p.page, p.skew
	for i := range p.tasks {
		w.tasks = append(w.tasks, taskID{fmt.Sprintf("dsh_%012d", i+1), fmt.Sprintf("root-%d", i+1)})
	}
	for i := range p.bridges {
		w.slots = append(w.slots, newSlot(w, i))
	}
	return w
}

// fail notes that something is not as it has to be.
func (w *World) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failures) < maxFailures {
		w.failures = append(w.failures, fmt.Sprintf(format, args...))
		w.note("WRONG "+format, args...)
	}
}

// run lets the world live through its schedule, and come to rest.
func (w *World) run() {
	for _, s := range w.slots {
		w.wait.Go(s.keep)
	}
	end := time.Now().Add(w.profile.lasts)
	for time.Now().Before(end) {
		time.Sleep(w.dice.between(0, w.profile.pace))
		if len(w.profile.strokes) > 0 {
			s := one(w.dice, w.profile.strokes)
			w.count(s.name)
			s.do(w)
		}
	}
	w.rest()
}

// Bounds of the time that a world takes to come to rest once nothing goes wrong any more: scripts of turns are finite,
// and the longest pause of the product is half a minute.
const (
	maxRest = 15 * time.Minute
	settled = 2 * time.Minute
	// idleCalls bounds the calls that a bridge makes in a minute in which nothing happens, for each turn that is open and
	// may have ended in silence.
	idleCalls = 2
)

// rest ends the faults and waits until nothing happens any more.
func (w *World) rest() {
	w.faults.set(func(f *faults) { f.calm = true })
	w.disk.mend()
	w.host.start()
	close(w.calm)
	for _, s := range w.slots {
		s.spare()
	}
	if w.finally != nil {
		w.finally()
	}
	end := time.Now().Add(maxRest)
	for {
		for ; !w.host.quiet(); time.Sleep(time.Second) {
			if time.Now().After(end) {
				w.fail("the simulated host does not come to rest")
				return
			}
		}
		time.Sleep(settled)
		before, said := w.faults.calls(), w.host.said()
		time.Sleep(time.Minute)
		if w.host.said() != said && time.Now().Before(end) {
			continue // it had asked, and was answered late
		}
		if n := w.faults.calls() - before; n > idleCalls*len(w.slots)*w.host.openTurns() {
			w.fail("%d calls in a minute in which nothing happens", n)
		}
		return
	}
}

// end ends the world and everything in it.
func (w *World) end() {
	close(w.over)
	for _, s := range w.slots {
		s.kill()
	}
	w.wait.Wait()
	w.host.kill(false)
}

// slot is a place where a bridge runs: when its process dies, another takes its place.
type slot struct {
	w       *World
	index   int
	dice    *dice
	callers []*caller

	mu     sync.Mutex
	bridge *bridge // nil while none runs
	made   int
}

// bridge is one process of a bridge.
type bridge struct {
	p    *process
	link *link
	mux  *mux.Mux

	mu      sync.Mutex
	watched map[taskID]watched
}

// watched is what somebody knows who waits for a task to change.
type watched struct {
	seen mux.Snapshot
	err  error
}

// watch looks at a task whenever it says that it has changed, and at no other time.
func (b *bridge) watch(task taskID) {
	t := b.track(task)
	for {
		changed := t.Changed()
		seen, err := t.Snapshot()
		b.mu.Lock()
		b.watched[task] = watched{seen, err}
		b.mu.Unlock()
		select {
		case <-changed:
		case <-b.p.ctx.Done():
			return
		}
	}
}

// lastSeen is what the watcher of a task knows.
func (b *bridge) lastSeen(task taskID) watched {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.watched[task]
}

func newSlot(w *World, index int) *slot {
	s := &slot{w: w, index: index, dice: newDice(w.Seed, "slot", index)}
	for i := range 2 {
		s.callers = append(s.callers, newCaller(w, index, i))
	}
	return s
}

// keep runs one bridge after the other.
func (s *slot) keep() {
	for {
		b := s.begin()
		var using sync.WaitGroup
		for _, c := range s.callers {
			using.Go(func() { c.use(b) })
		}
		for _, t := range s.w.tasks {
			using.Go(func() { b.watch(t) })
		}
		<-b.p.ctx.Done()
		s.w.note("%s: dies", b.p.name)
		b.mux.Close()
		using.Wait()
		s.mu.Lock()
		s.bridge = nil
		s.mu.Unlock()
		select {
		case <-s.w.over:
			return
		case <-s.w.calm:
		case <-time.After(s.dice.between(time.Millisecond, 8*time.Second)):
		}
	}
}

// begin starts a process.
func (s *slot) begin() *bridge {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	w := s.w
	p := newProcess(fmt.Sprintf("bridge %d.%d", s.index, s.made), w.Seed)
	w.note("%s: starts", p.name)
	b := &bridge{p: p, link: &link{host: w.host, p: p, faults: w.faults}, watched: map[taskID]watched{}}
	b.mux = mux.New(mux.Options{
		Host: b.link, Linger: mux.DefaultLinger, ApprovalTimeout: w.profile.expire,
		Ledger: func(id, root string) *ledger.Ledger {
			t := taskID{id, root}
			slow := w.profile.locks
			return ledger.Open(ledger.Options{
				Dir: t.dir(), TaskID: id, Root: root, MaxBytes: w.profile.compact, Disk: mount{w.disk, p},
				Lock: &lock{locks: w.locks, path: path.Join(t.dir(), ledger.LockFile), p: p, slow: func() bool {
					calm, _ := w.faults.state()
					return !calm && p.dice.chance(slow)
				}},
			})
		},
	})
	if s.dice.chance(0.8) {
		for _, t := range w.tasks {
			b.track(t)
		}
	}
	b.mux.Start()
	s.bridge = b
	select {
	case <-w.over:
		p.kill()
	default:
	}
	return b
}

func (b *bridge) track(t taskID) *mux.Task { return b.mux.Track(t.id, t.root) }

// running returns the bridge of the slot; nil while there is none.
func (s *slot) running() *bridge {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bridge
}

// kill ends the slot's process, if one runs.
func (s *slot) kill() {
	if b := s.running(); b != nil {
		b.p.kill()
	}
}

// spare makes sure that the slot's process dies no more.
func (s *slot) spare() {
	if b := s.running(); b != nil {
		b.p.light(0)
	}
}

// streams are the open streams of the host, of one bridge or of all.
func (w *World) streams() []*stream { return w.host.streamsOf(nil) }

// requestsShown reports whether no open stream has lost a frame that tells of requests, or of which turn they belong to. A
// loss that a bridge noticed has made it open another stream.
func (w *World) requestsShown() bool {
	for _, s := range w.streams() {
		if !s.complete(dsh.FrameQuestionRequested, dsh.FrameQuestionResolved, dsh.FrameApprovalRequested, dsh.FrameApprovalResolved, dsh.FrameSubscribed, dsh.FrameEvent, dsh.FrameQueue, dsh.FrameJobs) {
			return false
		}
	}
	return true
}
