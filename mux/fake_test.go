package mux

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"dsh-agentlink/internal/dsh"
)

// fake is a host whose every answer and frame a test decides. It needs no network, so that it can be played with in a
// bubble of package synctest.
type fake struct {
	dsh.Host // what no test uses

	mu      sync.Mutex
	logs    map[string][]dsh.Event
	rows    map[string]dsh.Session
	order   []string
	streams []*fakeStream
	calls   map[string]int
	hooks   map[string]func(ctx context.Context, n int) error // by method; n counts its calls from 1
	page    int                                               // events on a history page; 0 for all
	tooMany int                                               // messages from which on a page is too large; 0 for none
	floor   map[string]int64                                  // the first seq that a history still has
	prompts []dsh.PromptRequest
}

func newFake() *fake {
	return &fake{logs: map[string][]dsh.Event{}, rows: map[string]dsh.Session{}, calls: map[string]int{},
		hooks: map[string]func(context.Context, int) error{}, floor: map[string]int64{}}
}

// hook is called before a method does anything. It may wait, and what it returns is the method's failure.
func (f *fake) hook(method string, h func(ctx context.Context, n int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks[method] = h
}

func (f *fake) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

func (f *fake) enter(ctx context.Context, method string) error {
	f.mu.Lock()
	f.calls[method]++
	n, hook := f.calls[method], f.hooks[method]
	f.mu.Unlock()
	if hook != nil {
		return hook(ctx, n)
	}
	return nil
}

// add makes a session known. A subagent has a parent.
func (f *fake) add(id, parent string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := dsh.Session{ID: id, ParentSessionID: parent, LastSeq: -1}
	if parent != "" {
		s.Origin = dsh.OriginSubagent
	}
	f.rows[id] = s
	f.order = append(f.order, id)
}

func (f *fake) remove(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.rows, id)
	delete(f.logs, id)
	f.order = slices.DeleteFunc(f.order, func(s string) bool { return s == id })
}

// change changes what the list says of a session.
func (f *fake) change(id string, change func(*dsh.Session)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	row := f.rows[id]
	change(&row)
	f.rows[id] = row
}

// write appends events of the types to a session's log, without a frame, and returns them.
func (f *fake) write(id string, types ...string) []dsh.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	var events []dsh.Event
	for _, kind := range types {
		log := f.logs[id]
		ev := dsh.Event{Type: kind, Seq: int64(len(log)), Time: longAgo + int64(len(log)), Data: json.RawMessage(`{"turn":1,"step":1}`)}
		switch kind {
		case "turn/start", "turn/end":
			turn := 1
			for _, e := range log {
				if e.Type == "turn/end" {
					turn++
				}
			}
			ev.Data = fmt.Appendf(nil, `{"turn":%d,"reason":{"kind":"completed"}}`, turn)
		}
		f.logs[id] = append(log, ev)
		events = append(events, ev)
	}
	return events
}

// live writes events, streams them, and lets the list know.
func (f *fake) live(id string, types ...string) {
	for _, ev := range f.write(id, types...) {
		f.send(eventFrame(id, ev))
		f.listed(id, ev)
	}
}

// listed lets the list know of an event.
func (f *fake) listed(id string, ev dsh.Event) {
	f.change(id, func(s *dsh.Session) {
		s.LastSeq = ev.Seq
		s.Running = ev.Type == "turn/start" || (s.Running && ev.Type != "turn/end")
	})
}

func (f *fake) log(id, parent string) log {
	f.mu.Lock()
	defer f.mu.Unlock()
	return log{session: id, parent: parent, events: slices.Clone(f.logs[id])}
}

// last is the seq of a session's last event, -1 for none.
func (f *fake) last(id string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(len(f.logs[id])) - 1
}

// stream is the newest stream.
func (f *fake) stream() *fakeStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams[len(f.streams)-1]
}

// broadcast puts frames on every open stream, as a host does.
func (f *fake) broadcast(frames ...dsh.Frame) {
	f.mu.Lock()
	streams := slices.Clone(f.streams)
	f.mu.Unlock()
	for _, s := range streams {
		s.send(frames...)
	}
}

// send puts frames on the newest stream.
func (f *fake) send(frames ...dsh.Frame) { f.stream().send(frames...) }

func (f *fake) Subscribe(ctx context.Context) (dsh.Stream, error) {
	if err := f.enter(ctx, "subscribe"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &fakeStream{wake: make(chan struct{}, 1), broken: make(chan struct{})}
	f.streams = append(f.streams, s)
	return s, nil
}

func (f *fake) Sessions(ctx context.Context) ([]dsh.Session, error) {
	if err := f.enter(ctx, "list"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []dsh.Session
	for _, id := range f.order {
		list = append(list, f.rows[id])
	}
	return list, nil
}

// History has two more hooks: one for each session, and "history answer", which is called when the answer is made and
// has yet to arrive.
func (f *fake) History(ctx context.Context, req dsh.HistoryRequest) (dsh.HistoryPage, error) {
	page, err := f.history(ctx, req)
	if err := f.enter(ctx, "history answer"); err != nil {
		return dsh.HistoryPage{}, err
	}
	return page, err
}

func (f *fake) history(ctx context.Context, req dsh.HistoryRequest) (dsh.HistoryPage, error) {
	if err := f.enter(ctx, "history "+req.SessionID); err != nil {
		return dsh.HistoryPage{}, err
	}
	if err := f.enter(ctx, "history"); err != nil {
		return dsh.HistoryPage{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.rows[req.SessionID]; !known {
		return dsh.HistoryPage{}, refused("session.history", dsh.CodeSessionNotFound)
	}
	if f.tooMany > 0 && req.MaxMessages >= f.tooMany {
		return dsh.HistoryPage{}, &dsh.Error{Kind: dsh.TooLarge, Method: "session.history"}
	}
	events := f.logs[req.SessionID]
	if req.BeforeSeq > 0 {
		events = events[:min(int64(len(events)), req.BeforeSeq)]
	}
	from := int(f.floor[req.SessionID])
	if f.page > 0 {
		from = max(from, len(events)-f.page)
	}
	from = min(from, len(events))
	return dsh.HistoryPage{Events: slices.Clone(events[from:]), HasMore: int64(from) > f.floor[req.SessionID]}, nil
}

func (f *fake) Subagents(ctx context.Context, parent string) ([]dsh.Subagent, error) {
	if err := f.enter(ctx, "subagents"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []dsh.Subagent
	for _, id := range f.order {
		if f.rows[id].ParentSessionID == parent {
			list = append(list, dsh.Subagent{SessionID: id, Mode: "continuable"})
		}
	}
	return list, nil
}

func (f *fake) Prompt(ctx context.Context, req dsh.PromptRequest) error {
	f.mu.Lock()
	f.prompts = append(f.prompts, req)
	f.mu.Unlock()
	return f.enter(ctx, "prompt")
}

func refused(method, code string) error {
	return &dsh.Error{Kind: dsh.Refused, Method: method, Code: code, Message: "the host's own words"}
}

// away is the failure of a host that does not run.
func away() error {
	return &dsh.Error{Kind: dsh.NotSent, Method: dsh.MethodEvents, Message: "cannot reach it"}
}

// fakeStream is a stream that a test fills.
type fakeStream struct {
	mu     sync.Mutex
	queue  []dsh.Frame
	last   bool // the stream ends behind its frames
	wake   chan struct{}
	once   sync.Once
	broken chan struct{}
}

func (s *fakeStream) send(frames ...dsh.Frame) {
	s.mu.Lock()
	s.queue = append(s.queue, frames...)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// cut breaks the stream.
func (s *fakeStream) cut() { s.once.Do(func() { close(s.broken) }) }

func (s *fakeStream) Next(ctx context.Context) (dsh.Frame, error) {
	for {
		select {
		case <-s.broken:
			return dsh.Frame{}, &dsh.Error{Kind: dsh.OutcomeUnknown, Method: dsh.MethodEvents, Message: "broken", Err: net.ErrClosed}
		default:
		}
		s.mu.Lock()
		if len(s.queue) > 0 {
			frame := s.queue[0]
			s.queue = s.queue[1:]
			s.mu.Unlock()
			return frame, nil
		}
		s.mu.Unlock()
		if s.last {
			s.cut()
		}
		select {
		case <-s.wake:
		case <-s.broken:
		case <-ctx.Done():
			return dsh.Frame{}, &dsh.Error{Kind: dsh.OutcomeUnknown, Method: dsh.MethodEvents, Err: ctx.Err()}
		}
	}
}

func (s *fakeStream) Close() error {
	s.cut()
	return nil
}

// set is a Mux on a fake host.
type set struct {
	*fake
	tb   testing.TB
	m    *Mux
	disk *diskFault
	home string
	log  syncBuffer

	deferred []dsh.Frame
}

// later keeps frames for a stream that is not open yet.
func (s *set) later(frames ...dsh.Frame) { s.deferred = append(s.deferred, frames...) }

// longAgo is when the events of a fake host happened: no host can have lost them since.
const longAgo = 900_000_000_000

// fakeQuiet is the quiet time on a fake host. In a bubble it costs nothing.
const fakeQuiet = 50 * time.Millisecond

// newSet returns a Mux that is not started, on a fake host with one session, "root".
func newSet(tb testing.TB) *set {
	tb.Helper()
	s := &set{fake: newFake(), tb: tb, disk: &diskFault{}, home: filepath.Join(tb.TempDir(), "home")}
	s.add("root", "")
	s.m = s.another()
	return s
}

// another is a second Mux on the same host and home.
func (s *set) another(change ...func(*Options)) *Mux {
	s.tb.Helper()
	opts := Options{Host: s.fake, Ledger: ledgers(s.tb, s.home, s.disk), Quiet: fakeQuiet, Linger: DefaultLinger, Log: slog.New(slog.NewTextHandler(&s.log, nil))}
	for _, c := range change {
		c(&opts)
	}
	m := New(opts)
	s.tb.Cleanup(m.Close)
	return m
}

// start connects, and returns the task of the session "root".
func (s *set) start() *Task {
	s.tb.Helper()
	t := s.m.Track(taskID, "root")
	s.m.Start()
	s.connected()
	return t
}

func (s *set) connected() {
	s.tb.Helper()
	if err := s.m.Connected(within(s.tb)); err != nil {
		s.tb.Fatal(err)
	}
}

// reconnect breaks the stream and waits for the next connection.
// reconnect breaks the stream and waits for the next connection.
func (s *set) reconnect() {
	s.tb.Helper()
	old, _ := s.m.up()
	s.stream().cut()
	for {
		s.m.mu.Lock()
		changed, epoch, ready := s.m.changed, s.m.conn.epoch, s.m.conn.ready
		s.m.mu.Unlock()
		if ready && epoch > old {
			return
		}
		select {
		case <-changed:
		case <-within(s.tb).Done():
			s.tb.Fatal("there is no new connection")
		}
	}
}

// check compares the task with the logs of the sessions: the root's, and those of the subagents that are named.
func (s *set) check(t *Task, subagents ...string) {
	s.tb.Helper()
	checkLedger(s.tb, t, s.taskLogs(subagents))
}

// checkEvents is check without the state, which requests and open ends make differ from that of the history.
func (s *set) checkEvents(t *Task, subagents ...string) {
	s.tb.Helper()
	checkEvents(s.tb, t, s.taskLogs(subagents))
}

func (s *set) taskLogs(subagents []string) []log {
	logs := []log{s.fake.log("root", "")}
	for _, id := range subagents {
		logs = append(logs, s.fake.log(id, "root"))
	}
	return logs
}
