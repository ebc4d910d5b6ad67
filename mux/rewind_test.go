package mux

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// takeBack lets the host forget the last n events of a session, as one does that is killed before it wrote them down.
func (f *fake) takeBack(id string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs[id] = f.logs[id][:len(f.logs[id])-n]
}

// The host lost the end of a turn, closed the turn when it came back, and ends by chance at the seq that is recorded.
// Neither the seq nor the age of the recorded event tells: the history does.
func TestRewindToTheSameSeq(t *testing.T) {
	for _, tt := range []struct {
		name string
		look func(s *set) *Task // how the events come to be recorded
	}{
		{"this process saw them", func(s *set) *Task {
			task := s.start()
			current(s.tb, task)
			return task
		}},
		{"this process saw them twice, at once", func(s *set) *Task {
			task := s.start()
			current(s.tb, task)
			s.reconnect()
			current(s.tb, task)
			return task
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				s.write("root", aTurn...)
				s.change("root", func(row *dsh.Session) { row.LastSeq = 9 })
				task := tt.look(s)
				s.takeBack("root", 3)
				s.write("root", "step/end", "turn/end", "session/end-seed")
				time.Sleep(time.Hour)
				s.hook("list", s.burst(9))
				s.reconnect()
				current(t, task)
				if n := count(t, task, ledger.TypeRewind); n != 1 {
					t.Errorf("%d rewinds are recorded", n)
				}
				marks, err := task.Ledger().Marks("root")
				if err != nil {
					t.Fatal(err)
				}
				if last := marks[len(marks)-1]; last.Seq != 9 || last.Event != "session/end-seed" {
					t.Errorf("the last recorded event is %+v", last)
				}
			})
		})
	}
}

// A seq counts as written down when two readings showed it, the second begun long enough after the first was done.
func TestProof(t *testing.T) {
	began := time.Now()
	after := func(d time.Duration) time.Time { return began.Add(d) }
	type reading struct {
		asked, done time.Time
		end         int64
	}
	for _, tt := range []struct {
		name     string
		readings []reading
		want     int64
	}{
		{"none", nil, 0},
		{"one", []reading{{after(0), after(1), 10}}, 0},
		{"two, one right behind the other", []reading{{after(0), after(1), 10}, {after(2), after(3), 10}}, 0},
		{"two, the first of which took long", []reading{{after(0), after(writeDelay), 10}, {after(writeDelay + 1), after(2 * writeDelay), 10}}, 0},
		{"two", []reading{{after(0), after(1), 10}, {after(writeDelay + 2), after(writeDelay + 3), 15}}, 10},
		{"many, close to each other", []reading{{after(0), after(1), 10}, {after(writeDelay - 1), after(writeDelay), 12}, {after(writeDelay + 2), after(writeDelay + 3), 15}}, 10},
		{"three", []reading{{after(0), after(1), 10}, {after(writeDelay + 2), after(writeDelay + 3), 15}, {after(3 * writeDelay), after(3 * writeDelay), 20}}, 15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p proof
			for _, r := range tt.readings {
				p.read(r.asked, r.done, r.end)
			}
			if diff := cmp.Diff(tt.want, p.written); diff != "" {
				t.Error(diff)
			}
		})
	}
}
