package sim

import (
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"dsh-agentlink/internal/dsh"
)

// profile is what kinds of faults a seed has, and how often. Many seeds have few kinds: what one kind alone does wrong
// is found and understood sooner than what ten do together.
type profile struct {
	bridges, tasks int
	lasts          time.Duration // of the schedule
	pace           time.Duration // most time between two strokes

	calls   float64       // chance of a fault in a call
	slow    float64       // chance of a call to be slow
	lose    float64       // chance of a frame to get lost while frames do
	events  bool          // only event frames get lost
	locks   float64       // chance of a lock's holder to stop for a while
	compact int64         // bytes past which ledgers are compacted; 0 for the default
	page    int           // most events in a history page; 0 for no bound
	quick   bool          // the opening burst of a stream is never late
	expire  time.Duration // after which a bridge rejects an approval; 0 for never
	skew    time.Duration // of the host's clock
	strokes []stroke
}

// stroke is one thing that the schedule does to the world.
type stroke struct {
	name string
	do   func(*World)
}

// Strokes that come with many profiles, by the kind of fault.
var (
	streamStrokes = []stroke{
		{"stream: cut", (*World).cutStream}, {"stream: stalled", (*World).holdStream}, {"stream: half-open", (*World).halfOpenStream},
	}
	lossStrokes   = []stroke{{"stream: loses frames for a while", (*World).loseFrames}}
	hostStrokes   = []stroke{{"host: killed", (*World).killHost}}
	forgetStrokes = []stroke{{"host: killed with events unwritten", (*World).killForgetfulHost}}
	bridgeStrokes = []stroke{{"bridge: killed", (*World).killBridge}, {"bridge: killed inside an operation", (*World).lightFuse}}
	powerStrokes  = []stroke{{"machine: power lost", (*World).losePower}}
	diskStrokes   = []stroke{{"disk: worn for a while", (*World).wearDisk}}
	personStrokes = []stroke{{"person: did something", (*World).beAPerson}}
)

func newProfile(seed uint64) profile {
	d := newDice(seed, "profile")
	p := profile{
		bridges: 1 + d.upTo(2), tasks: 1 + d.upTo(1),
		lasts: d.between(20*time.Second, 90*time.Second), pace: d.between(time.Second, 8*time.Second),
		quick: d.chance(0.7),
	}
	sometimes := func(rates ...float64) float64 {
		if d.chance(0.5) {
			return 0
		}
		return one(d, rates)
	}
	p.calls = sometimes(0.02, 0.1, 0.3)
	p.slow = sometimes(0.05, 0.5)
	p.locks = sometimes(0.005, 0.05)
	if d.chance(0.5) {
		p.compact = int64(2000 + d.upTo(20000))
	}
	if d.chance(0.15) {
		p.expire = d.between(2*time.Second, 30*time.Second)
	}
	if d.chance(0.3) {
		p.page = 5 + d.upTo(60)
	}
	kinds := [][]stroke{streamStrokes, hostStrokes, bridgeStrokes, diskStrokes, personStrokes}
	for _, kind := range kinds {
		if d.chance(0.5) {
			p.strokes = append(p.strokes, kind...)
		}
	}
	if d.chance(0.25) {
		p.strokes = append(p.strokes, powerStrokes...)
	}
	if d.chance(0.35) {
		p.strokes = append(p.strokes, lossStrokes...)
		p.lose, p.events = one(d, []float64{0.02, 0.2, 1}), d.chance(0.5)
	}
	if d.chance(0.2) {
		p.strokes = append(p.strokes, forgetStrokes...)
	}
	if d.chance(0.2) {
		p.skew = d.between(-2*time.Hour, 2*time.Hour)
	}
	return p
}

// callFault is what goes wrong with a call.
type callFault int

const (
	callNotSent     callFault = iota + 1 // it never leaves
	callFails                            // the host's handler crashes before it did anything
	callRefused                          // the host refuses it
	callHangsBefore                      // no answer ever comes, and the host did nothing
	callHangs                            // no answer ever comes, and the host did it
	callLost                             // the connection breaks before the answer
	callGarbled                          // the answer makes no sense
)

var callFaults = []string{
	callNotSent: "never sent", callFails: "answered with 500", callRefused: "refused", callHangsBefore: "hanging, not done",
	callHangs: "hanging, done", callLost: "answer lost", callGarbled: "answer garbled",
}

// faults draws the faults of calls and frames while the schedule lasts.
type faults struct {
	*journal
	profile profile

	mu     sync.Mutex
	calm   bool
	losing bool
	made   int // calls
}

func newFaults(p profile, j *journal) *faults { return &faults{journal: j, profile: p} }

func (f *faults) state() (calm, losing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calm, f.losing
}

// set changes what is going on.
func (f *faults) set(change func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// calls is how many calls were made.
func (f *faults) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.made
}

// call draws what becomes of a call, and how long it is on its way.
func (f *faults) call(d *dice, method string) (fault callFault, delay time.Duration) {
	f.set(func(f *faults) { f.made++ })
	if calm, _ := f.state(); calm {
		return 0, 0
	}
	if d.chance(f.profile.slow) {
		f.count("call: slow")
		delay = d.between(0, one(d, []time.Duration{100 * time.Millisecond, 2 * time.Second, 20 * time.Second}))
	}
	if !d.chance(f.profile.calls) {
		return 0, delay
	}
	fault = callFault(1 + d.upTo(len(callFaults)-2))
	if method == dsh.MethodEvents && fault == callGarbled {
		fault = callLost
	}
	f.count("call: " + callFaults[fault])
	return fault, delay
}

// answerDelay draws how long an answer is on its way.
func (f *faults) answerDelay(d *dice, request time.Duration) time.Duration {
	if calm, _ := f.state(); calm || request == 0 {
		return 0
	}
	return d.between(0, request)
}

// burstDelay draws how long the opening burst of a stream is on its way.
func (f *faults) burstDelay(d *dice) time.Duration {
	if calm, _ := f.state(); calm || f.profile.quick || !d.chance(0.3) {
		return 0
	}
	f.count("stream: opening burst late")
	return d.between(0, 5*time.Second)
}

// deaf draws whether a stream loses a frame.
func (f *faults) deaf(s *stream, frame dsh.Frame) bool {
	calm, losing := f.state()
	if calm || !losing || (f.profile.events && frame.Kind != dsh.FrameEvent) || !s.p.dice.chance(f.profile.lose) {
		return false
	}
	f.count("frame lost: " + string(frame.Kind))
	return true
}

// diskErrors are the errors that a disk can have for each operation.
var diskErrors = map[string][]syscall.Errno{
	opRead:    {syscall.EIO},
	opOpen:    {syscall.EMFILE, syscall.EACCES, syscall.EIO},
	opWrite:   {syscall.ENOSPC, syscall.EIO},
	opSync:    {syscall.EIO, syscall.ENOSPC},
	opReplace: {syscall.ENOSPC, syscall.EROFS, syscall.EIO, syscall.EMFILE},
	opFolder:  {syscall.EIO},
}

// Table is the counts of several worlds.
type Table map[string]int

// Add adds the counts of one.
func (t Table) Add(counts map[string]int) {
	for kind, n := range counts {
		t[kind] += n
	}
}

// Kinds are the kinds in the table, in order.
func (t Table) Kinds() []string { return slices.Sorted(maps.Keys(t)) }
