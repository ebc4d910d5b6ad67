package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"dsh-agentlink/internal/dsh"
)

// Host is a host in memory: what the bridges talk to, and the truth that they are measured by. Its sessions, turns,
// inboxes, requests, jobs and subagents behave as docs/architecture.md and the captures of real hosts have it; what is
// said in them means nothing, and how they go on is drawn from the seed.
type Host struct {
	*journal
	seed uint64
	dice *dice

	mu       sync.Mutex
	life     *life // nil while the host is down
	sessions map[string]*session
	order    []*session // by creation
	numbers  map[string]int
	budget   int // jobs and subagents that may still be started: each brings another turn about
	script   func(d *dice, depth int) []act
	// maxPage bounds the events of a history page; more are too large an answer. 0 for no bound.
	maxPage int
	skew    time.Duration // of its clock
	busy    chan struct{} // closed and renewed at every event
	// deaf drops a frame on its way into one stream.
	deaf func(*stream, dsh.Frame) bool
	// twisted changes an event on its way to the bridges, for the tests of the model; nil in earnest.
	twisted func(event) event
	// echo takes every prompt twice, for the tests of the model.
	echo bool
}

// life is one run of the host's process; what it holds is gone with it.
type life struct {
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	attached []*session // in the order in which they were attached
	pending  []*request // in the order in which they were asked
	streams  []*stream
}

func newHost(seed uint64, j *journal) *Host {
	h := &Host{
		journal: j, seed: seed, dice: newDice(seed, "host"),
		sessions: map[string]*session{}, numbers: map[string]int{}, budget: 8, script: script, busy: make(chan struct{}),
		deaf: func(*stream, dsh.Frame) bool { return false },
	}
	h.start()
	return h
}

// start brings a host up that is down, with every session it had, all of them cold.
func (h *Host) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		h.life = &life{}
		h.life.ctx, h.life.cancel = context.WithCancel(context.Background())
		h.note("host: starts")
	}
}

// kill ends the host's process: turns stop in the middle without an event, requests, jobs and streams are gone. With
// forget it had not written down the last events of its logs yet; how many sessions lost some is returned.
func (h *Host) kill(forget bool) (forgot int) {
	h.mu.Lock()
	l := h.life
	if l == nil {
		h.mu.Unlock()
		return 0
	}
	h.life = nil
	h.note("host: dies")
	for _, s := range h.order {
		s.goCold()
		if forget && s.forget(h.dice) {
			forgot++
		}
	}
	streams := l.streams
	h.mu.Unlock()
	l.cancel()
	for _, s := range streams {
		s.cut(h.dice.chance(0.5))
	}
	l.wait.Wait()
	return forgot
}

// number counts things of a kind, from 1.
func (h *Host) number(kind string) int {
	h.numbers[kind]++
	return h.numbers[kind]
}

// quiet reports whether nothing goes on by itself: no turn runs that waits for nobody, and no job.
func (h *Host) quiet() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		return false
	}
	for _, s := range h.order {
		if s.turn != nil && !h.waits(s) || slices.ContainsFunc(s.jobs, func(j *job) bool { return j.FinishedAt == 0 }) {
			return false
		}
	}
	return true
}

// said is how many events there are.
func (h *Host) said() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.order {
		n += len(s.log)
	}
	return n
}

// event waits for the next event of any session, but not long.
func (h *Host) event() {
	h.mu.Lock()
	busy := h.busy
	h.mu.Unlock()
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-busy:
	case <-timer.C:
	}
}

// openTurns counts the turns that run.
func (h *Host) openTurns() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.order {
		if s.turn != nil {
			n++
		}
	}
	return n
}

// waits reports whether a session, or one of its subagents that it waits for, has asked a person.
func (h *Host) waits(s *session) bool {
	for _, r := range h.life.pending {
		for at := r.session; at != nil; at = h.sessions[at.parent] {
			if at == s {
				return true
			}
			if at.mode != oneShot {
				break
			}
		}
	}
	return false
}

// event is one durable event.
type event struct {
	kind  string
	seq   int64
	time  int64
	data  string // JSON
	first int64  // the oldest event of the message that this one completes
}

func (e event) wire() dsh.Event {
	return dsh.Event{Type: e.kind, Seq: e.seq, Time: e.time, Data: json.RawMessage(e.data)}
}

// session is one session: its log, and what a running host holds of it beside that.
type session struct {
	id, parent, origin, mode string
	created, prompted        int64
	turns                    int
	log                      []event
	written                  int   // events that are surely on the host's disk
	saved                    int64 // the seq that session.list knows while the session is cold; -1 for none
	greeted                  bool  // the host's own context message is in the log
	titled                   bool
	outcome                  string // how the last turn ended
	skew                     int64  // of the host's clock, in milliseconds
	cold                     bool   // let go of by a process that ended, or by the end of a subagent's work

	attached bool
	turn     *turn // nil when none runs
	inbox    inbox
	jobs     []*job
	titling  bool // a title is being made
}

// Modes of a subagent's session.
const (
	oneShot     = "one-shot"
	continuable = "continuable"
)

func (h *Host) newSession(id string) *session {
	s := &session{id: id, created: now(), saved: -1, skew: h.skew.Milliseconds()}
	h.sessions[id] = s
	h.order = append(h.order, s)
	return s
}

func now() int64 { return time.Now().UnixMilli() }

func (s *session) last() int64 { return int64(len(s.log)) - 1 }

func (s *session) subagent() bool { return s.origin == dsh.OriginSubagent }

// goCold forgets what only a running process holds.
func (s *session) goCold() {
	s.attached, s.turn, s.jobs, s.titling = false, nil, nil, false
	s.inbox = inbox{}
	s.cold = true
}

// writeDelay is how long the host keeps events back to write them in batches.
const writeDelay = 200

// forget loses what a host that died had not written down, and reports whether that was anything.
func (s *session) forget(d *dice) bool {
	keep := s.written
	for keep < len(s.log) && s.log[keep].time+writeDelay < now()+s.skew {
		keep++
	}
	if keep += d.upTo(len(s.log) - keep); keep == len(s.log) {
		return false
	}
	s.log = s.log[:keep]
	s.turns, s.greeted, s.titled = 0, false, false
	for _, e := range s.log {
		switch e.kind {
		case "turn/start":
			s.turns++
		case "session/title":
			s.titled = true
		case "user/message":
			s.greeted = s.greeted || strings.Contains(e.data, `"kind":"plugin"`)
		}
	}
	s.saved = min(s.saved, s.last())
	return true
}

// add appends an event to the log without telling anybody.
func (s *session) add(kind, data string) *event {
	e := event{kind: kind, seq: int64(len(s.log)), time: now() + s.skew, data: data}
	e.first = e.seq
	if n := len(s.log); n > 0 {
		e.time = max(e.time, s.log[n-1].time)
	}
	s.log = append(s.log, e)
	return &s.log[e.seq]
}

// emit appends an event to the log and streams it.
func (h *Host) emit(s *session, kind, format string, args ...any) *event {
	e := s.add(kind, fmt.Sprintf(format, args...))
	h.publish(s, *e)
	return e
}

func (h *Host) publish(s *session, e event) {
	close(h.busy)
	h.busy = make(chan struct{})
	h.note("host: %s %d %s %s", s.id, e.seq, e.kind, e.data)
	if h.twisted != nil {
		e = h.twisted(e)
	}
	f := dsh.Frame{Kind: dsh.FrameEvent, RPCID: "event", SessionID: s.id, EventType: e.kind, Seq: e.seq}
	if e.kind != dsh.EventChunk {
		f.Payload = json.RawMessage(fmt.Sprintf(`{"type":"session/event","sessionId":%q,"event":{"type":%q,"seq":%d,"time":%d,"data":%s}}`,
			s.id, e.kind, e.seq, e.time, e.data))
	}
	h.send(f)
}

// flush writes a session's log down, as the host does before it asks the model and before it runs a tool.
func (s *session) flush() { s.written = len(s.log) }

// attach makes a session live: a turn that a dead host left open is closed, and what waited in the inbox waits again.
func (h *Host) attach(s *session) {
	if s.attached {
		return
	}
	if s.cold {
		s.repair()
		s.recall()
	}
	s.attached, s.cold = true, false
	h.life.attached = append(h.life.attached, s)
	h.send(subscribed(s))
}

func subscribed(s *session) dsh.Frame {
	return dsh.Frame{Kind: dsh.FrameSubscribed, RPCID: "subscribed", SessionID: s.id, Seq: s.last(),
		Payload: json.RawMessage(fmt.Sprintf(`{"type":"session/subscribed","sessionId":%q,"lastSeq":%d}`, s.id, s.last()))}
}

// repair closes what a dead host left open, when the log is read next.
func (s *session) repair() {
	if s.attached {
		return
	}
	turn, step := 0, 0
	var open []string // tool calls without a result
	for _, e := range s.log {
		switch e.kind {
		case "tool/call":
			open = append(open, dsh.ToolCallOf(e.wire()).ID)
		case "tool/result":
			id := dsh.ToolResultOf(e.wire()).CallID
			open = slices.DeleteFunc(open, func(call string) bool { return call == id })
		case "turn/start":
			turn, step = dsh.TurnOf(e.wire()).Turn, 0
		case "turn/end":
			turn = 0
		case "step/start":
			step = dsh.TurnOf(e.wire()).Step
		case "step/end":
			step = 0
		}
	}
	if turn == 0 {
		return
	}
	died := s.log[len(s.log)-1].time
	for _, id := range open {
		s.add("tool/result", fmt.Sprintf(`{"turn":%d,"step":%d,"message":{"source":{"kind":"tool","callId":%q},"content":[]}}`, turn, step, id)).time = died
	}
	if step != 0 {
		s.add("step/end", fmt.Sprintf(`{"turn":%d,"step":%d}`, turn, step)).time = died
	}
	s.add("turn/end", fmt.Sprintf(`{"turn":%d,"reason":{"kind":"interrupted"}}`, turn)).time = died
	s.outcome = dsh.TurnInterrupted
	s.flush()
}

// recall rebuilds the inbox from the log.
func (s *session) recall() {
	s.add("session/end-seed", "{}")
	s.inbox = inbox{}
	for _, e := range s.log {
		if e.kind == "agent/inbox/spliced" {
			var c splice
			if json.Unmarshal([]byte(e.data), &c) == nil {
				s.inbox.apply(c)
			}
		}
	}
}

// job is a command that runs in the background, as session/jobs shows it.
type job struct {
	ID         string `json:"id"`
	Kind       string `json:"kind"`
	Label      string `json:"label"`
	Status     string `json:"status"`
	StartedAt  int64  `json:"startedAt"`
	FinishedAt int64  `json:"finishedAt,omitempty"`
}

func (h *Host) jobsFrame(s *session) dsh.Frame {
	return dsh.Frame{Kind: dsh.FrameJobs, RPCID: "jobs", SessionID: s.id,
		Payload: json.RawMessage(fmt.Sprintf(`{"type":"session/jobs","sessionId":%q,"jobs":%s}`, s.id, encode(s.jobs)))}
}

// encode is for values that always encode.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
