package mux

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dsh-agentlink/ledger"
)

// recorded is the last seq of the root that is in the ledger, seen from another process, which asks nobody for it.
func (s *set) recorded(t *Task) (seq int64) {
	s.tb.Helper()
	l := s.m.opts.Ledger(t.ID, t.Root)
	defer l.Close()
	if err := l.Refresh(); err != nil {
		s.tb.Fatal(err)
	}
	if err := l.View(func(state *ledger.State) { seq = state.At(t.Root).Seq }); err != nil {
		s.tb.Fatal(err)
	}
	return seq
}

// inTurn plays in the midst of a turn. Everything before is recorded and the worker is over, so that the next event has to
// begin another.
func inTurn(t *testing.T, play func(t *testing.T, s *set, task *Task)) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.live("root", "turn/start")
		synctest.Wait()
		current(t, task)
		synctest.Wait()
		play(t, s, task)
	})
}

// Events that decide nothing wait a while for others to be recorded with; what a caller may wait for does not, and takes
// them along.
func TestLinger(t *testing.T) {
	steps := strings.Fields("step/start assistant/message tool/call tool/result step/end")
	for _, tt := range []struct {
		name   string
		happen func(s *set, task *Task)
		atOnce bool
	}{
		{"nothing else", func(*set, *Task) {}, false},
		{"the turn ends", func(s *set, _ *Task) { s.live("root", "turn/end") }, true},
		{"a turn begins", func(s *set, _ *Task) { s.live("root", "turn/end", "turn/start") }, true},
		{"a person writes", func(s *set, _ *Task) { s.live("root", "user/message") }, true},
		{"the goal changes", func(s *set, _ *Task) { s.live("root", "goal/change") }, true},
		{"a question is asked", func(s *set, _ *Task) { s.send(questionFrame("root", "q-1", "Which?")) }, true},
		{"there are many", func(s *set, _ *Task) {
			for range maxLingering / len(steps) {
				s.live("root", steps...)
			}
		}, true},
		{"somebody looks at the task", func(s *set, task *Task) { current(s.tb, task) }, true},
		{"somebody asks the host", func(s *set, task *Task) {
			if _, _, err := task.Fresh(within(s.tb)); err != nil {
				s.tb.Fatal(err)
			}
		}, true},
		{"somebody waits for any change", func(_ *set, task *Task) { task.Hurry() }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inTurn(t, func(t *testing.T, s *set, task *Task) {
				s.live("root", steps...)
				synctest.Wait()
				if seq := s.recorded(task); seq != 0 {
					t.Fatalf("before, %d are recorded", seq)
				}
				tt.happen(s, task)
				synctest.Wait()
				last := s.last("root")
				// Of many, those that come behind a full inbox wait in their turn.
				if seq := s.recorded(task); (seq >= min(last, maxLingering)) != tt.atOnce {
					t.Errorf("at once, %d of %d are recorded", seq, last)
				}
				time.Sleep(DefaultLinger)
				synctest.Wait()
				if seq := s.recorded(task); seq != last {
					t.Errorf("after a while, %d of %d are recorded", seq, last)
				}
				s.checkEvents(task)
			})
		})
	}
}

// The steps of a while are one batch: one lock, one write, and one wake-up of those who wait for something else.
func TestLingeringIsOneBatch(t *testing.T) {
	inTurn(t, func(t *testing.T, s *set, task *Task) {
		changed := task.Changed()
		changes := 0
		for range 100 {
			s.live("root", "step/start", "tool/call", "tool/result", "step/end")
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			select {
			case <-changed:
				changed = task.Changed()
				changes++
			default:
			}
		}
		if most := int(100*10*time.Millisecond/DefaultLinger) + 1; changes > most {
			t.Errorf("100 steps changed the task %d times, want at most %d", changes, most)
		}
		s.check(task)
	})
}

// A connection that ends, and a process that does, leave what waits to the history.
func TestLingeringThatIsCutOff(t *testing.T) {
	inTurn(t, func(t *testing.T, s *set, task *Task) {
		s.live("root", "step/start", "tool/call")
		s.reconnect()
		current(t, task)
		s.check(task)
		s.live("root", "tool/result", "step/end")
		s.m.Close()
		again := s.another()
		task = again.Track(taskID, "root")
		again.Start()
		if err := again.Connected(within(t)); err != nil {
			t.Fatal(err)
		}
		current(t, task)
		s.check(task)
	})
}

// Who waits for any change is told of every event for as long as that goes on, and no longer.
func TestHurry(t *testing.T) {
	inTurn(t, func(t *testing.T, s *set, task *Task) {
		first, second := task.Hurry(), task.Hurry()
		for _, step := range []struct {
			then func()
			want bool
		}{{func() {}, true}, {first, true}, {second, false}} {
			step.then()
			s.live("root", "tool/call")
			synctest.Wait()
			if hurried := s.recorded(task) == s.last("root"); hurried != step.want {
				t.Errorf("recorded at once: %v, want %v", hurried, step.want)
			}
		}
		time.Sleep(DefaultLinger)
		synctest.Wait()
		s.check(task)
	})
}
