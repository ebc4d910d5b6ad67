package mux

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
)

// A home full of finished tasks costs one list, no history and not a look at any ledger, now and after the quiet time,
// and at every new connection again.
func TestThousandFinishedTasks(t *testing.T) {
	r := newRig(t, dshtest.Options{})
	m := r.open()
	const n = 1000
	for i := range n {
		id, err := r.host.AddSession(dshtest.SessionSpec{Turns: 1, Attached: i%2 == 0})
		if err != nil {
			t.Fatal(err)
		}
		m.Track(fmt.Sprintf("dsh_%012x", i), id)
	}
	m.Start()
	for connections := 1; connections <= 2; connections++ {
		settled(t, m, connections)
		for method, want := range map[string]int{"session.list": connections, "session.history": 0, "subagent.list": 0, "subagent.history": 0} {
			if got := r.host.Calls(method); got != want {
				t.Errorf("%d connections cost %d calls of %s", connections, got, method)
			}
		}
		if _, err := os.Stat(r.home); !os.IsNotExist(err) {
			t.Errorf("the home was touched: %v", err)
		}
		if connections == 1 {
			r.host.DropConnections()
		}
	}
	for i := range n {
		if m.Task(fmt.Sprintf("dsh_%012x", i)).Watched() {
			t.Fatal("a task was woken")
		}
	}
}

// settled waits until the opening burst of a connection is over.
func settled(tb testing.TB, m *Mux, epoch int) {
	tb.Helper()
	ctx := within(tb)
	for {
		m.mu.Lock()
		changed, conn := m.changed, m.conn
		m.mu.Unlock()
		if conn.epoch >= epoch && conn.settled && conn.ready {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			tb.Fatalf("the burst of connection %d is not over: %+v", epoch, conn)
		}
	}
}

// What happens in a task brings it to life without anybody asking; what does not concern it leaves it alone.
func TestTaskComesToLife(t *testing.T) {
	for _, tt := range []struct {
		name   string
		happen func(s *set)
		wakes  bool
	}{
		{"it runs", func(s *set) { s.change("root", func(row *dsh.Session) { row.Running = true }) }, true},
		{"its session is attached", func(s *set) { s.later(subscribedFrame("root", 9)) }, false},
		{"a subagent's session is attached", func(s *set) { s.add("child", "root"); s.later(subscribedFrame("child", -1)) }, false},
		{"a question waits", func(s *set) { s.later(questionFrame("root", "q-1", "Which?")) }, true},
		{"an approval waits", func(s *set) { s.later(approvalFrame("root", "q-1", "a-1")) }, true},
		{"a subagent's question waits", func(s *set) { s.add("child", "root"); s.later(questionFrame("child", "q-1", "Which?")) }, true},
		{"a message is queued", func(s *set) { s.later(queueFrame("root", "i-1")) }, true},
		{"a job runs", func(s *set) { s.later(jobsFrame("root", "running")) }, true},
		{"an event", func(s *set) { s.later(eventFrame("root", s.write("root", "turn/start")[0])) }, true},
		{"a subagent's event", func(s *set) { s.add("child", "root"); s.later(eventFrame("child", s.write("child", "turn/start")[0])) }, true},
		{"somebody else's event", func(s *set) {
			s.add("foreign", "")
			s.later(eventFrame("foreign", s.write("foreign", "turn/start")[0]))
		}, false},
		{"a fork is attached and runs", func(s *set) {
			s.add("fork", "root")
			s.change("fork", func(row *dsh.Session) { row.Origin, row.Running = "", true })
			s.later(subscribedFrame("fork", -1), questionFrame("fork", "q-1", "Which?"), eventFrame("fork", s.write("fork", "turn/start")[0]))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				s.write("root", aTurn...)
				tt.happen(s)
				task := s.start()
				s.send(s.deferred...)
				time.Sleep(time.Second)
				if task.Watched() != tt.wakes {
					t.Errorf("woken: %v", task.Watched())
				}
				if touched := s.disk.touches() > 0; touched != tt.wakes {
					t.Errorf("the ledger was touched: %v", touched)
				}
				if tt.wakes {
					snap := look(t, task)
					if snap.Turn.Number == 0 {
						t.Error("the task was not read")
					}
				}
			})
		})
	}
}

// A task that nobody has asked for yet is read when somebody does, with everything that went by.
func TestSleepingTaskIsReadWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", aTurn...)
		task := s.start()
		s.send(subscribedFrame("root", 9))
		time.Sleep(time.Second)
		s.write("root", "session/title") // the host resumes the session and marks that in its log
		s.send(subscribedFrame("root", 10), eventFrame("root", dsh.Event{Type: dsh.EventChunk, Seq: 11}))
		s.write("root", dsh.EventChunk)
		synctest.Wait()
		if task.Watched() {
			t.Fatal("the task was woken")
		}
		current(t, task)
		s.check(task)
	})
}

// A session that the host does not hold in memory is listed as it was saved, which is no proof of how its log ends: the
// log is read once on every connection.
func TestColdSessionIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", "turn/start", "step/start")
		s.change("root", func(row *dsh.Session) { row.LastSeq = 1 })
		task := s.start()
		current(t, task)
		s.write("root", "step/end", "turn/end") // written when the host reads the log of a dead process
		for connection := range 3 {
			before := s.count("history")
			s.reconnect()
			for range 3 {
				current(t, task)
			}
			if n := s.count("history") - before; n != 1 {
				t.Errorf("on connection %d the history was read %d times", connection, n)
			}
			s.check(task)
		}
	})
}

// An attached session whose last event is recorded costs no history on a new connection, once readings have proved that
// the host wrote it down.
func TestSessionAtItsWatermarkCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", aTurn...)
		s.change("root", func(row *dsh.Session) { row.LastSeq = 9 })
		task := s.start()
		current(t, task)
		for i, want := range []int{1, 0, 0, 0} {
			time.Sleep(time.Minute)
			before := s.count("history")
			s.hook("list", s.burst(9))
			s.reconnect()
			s.hook("list", nil)
			fresh(t, task)
			current(t, task)
			if n := s.count("history") - before; n != want {
				t.Errorf("connection %d cost %d histories", i, n)
			}
		}
		s.check(task)
	})
}

// burst opens a connection's burst with the root at that seq: it is sent at once, and the list takes a moment.
func (s *set) burst(last int64) func(context.Context, int) error {
	return func(context.Context, int) error {
		s.send(subscribedFrame("root", last))
		time.Sleep(time.Millisecond)
		return nil
	}
}
