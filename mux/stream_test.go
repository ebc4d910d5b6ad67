package mux

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// aTurn is what the events of a short turn are.
var aTurn = []string{"turn/start", "step/start", "user/message", dsh.EventChunk, dsh.EventChunk, "assistant/message", "tool/call", "tool/result", "step/end", "turn/end"}

// Frames that come twice, out of order, with holes, or over again from an earlier seq, do no harm: what the stream
// leaves open is read from the history.
func TestStreamInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSet(t)
			s.add("child", "root")
			recorded := rapid.IntRange(0, 2).Draw(rt, "turns before")
			for range recorded {
				s.write("root", aTurn...)
			}
			task := s.start()
			current(t, task)
			if rapid.Bool().Draw(rt, "subscribed") {
				s.send(subscribedFrame("root", int64(recorded*len(aTurn))-1))
			}
			for range rapid.IntRange(1, 4).Draw(rt, "bursts") {
				for _, id := range []string{"root", "child"} {
					frames := s.write(id, aTurn...)
					for range rapid.IntRange(0, 6).Draw(rt, "mischief") {
						i := rapid.IntRange(0, len(frames)-1).Draw(rt, "at")
						j := rapid.IntRange(0, len(frames)-1).Draw(rt, "and")
						switch rapid.SampledFrom([]string{"swap", "lose", "repeat", "again"}).Draw(rt, "what") {
						case "swap":
							frames[i], frames[j] = frames[j], frames[i]
						case "lose":
							if len(frames) > 1 {
								frames = slices.Delete(frames, i, i+1)
							}
						case "repeat":
							frames = slices.Insert(frames, i, frames[j])
						case "again":
							frames = append(frames, frames[i:]...)
						}
					}
					last := s.last(id)
					for _, ev := range frames {
						s.send(eventFrame(id, ev))
					}
					s.change(id, func(row *dsh.Session) { row.LastSeq = last })
				}
				if rapid.Bool().Draw(rt, "pause") {
					synctest.Wait()
				}
			}
			fresh(t, task)
			s.check(task, "child")
		})
	})
}

// A page that is too large is asked for in smaller pieces, and what works is kept to.
func TestHistoryThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		for range 40 {
			s.write("root", aTurn...)
		}
		s.page, s.tooMany = 10, 200
		task := s.start()
		current(t, task)
		s.check(task)
		if n, most := s.count("history"), 40+6; n > most {
			t.Errorf("%d pages were asked for, %d are enough", n, most)
		}
	})
}

// What the host cannot give piece by piece either is a fault, and no loop.
func TestHistoryWhoseLastMessageIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", aTurn...)
		s.tooMany = 1
		task := s.start()
		if err := task.Current(within(t)); dsh.KindOf(err) != dsh.TooLarge {
			t.Errorf("the failure is %v", err)
		}
		if n := s.count("history"); n > 20 {
			t.Errorf("it was tried %d times", n)
		}
		s.tooMany = 0
		current(t, task)
		s.check(task)
	})
}

// Pages that do not join are no history.
func TestPagesThatDoNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", aTurn...)
		s.m.opts.Host = stuckHost{s.fake}
		task := s.start()
		if err := task.Current(within(t)); dsh.KindOf(err) != dsh.Malformed {
			t.Errorf("the failure is %v", err)
		}
		if n := count(t, task, ledger.TypeEvent); n != 0 {
			t.Errorf("%d events are recorded", n)
		}
	})
}

// stuckHost answers every request for a page with the last one.
type stuckHost struct{ *fake }

func (h stuckHost) History(ctx context.Context, req dsh.HistoryRequest) (dsh.HistoryPage, error) {
	req.BeforeSeq = 0
	page, err := h.fake.History(ctx, req)
	page.Events, page.HasMore = page.Events[5:], true
	return page, err
}

// A history that no longer reaches down to what is recorded leaves a gap, which is recorded once, and things go on.
func TestGapIsRecordedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", aTurn...)
		task := s.start()
		current(t, task)
		s.write("root", aTurn...)
		s.write("root", aTurn...)
		s.floor["root"] = 15
		s.stream().cut()
		other := s.another()
		second := other.Track(taskID, "root")
		other.Start()
		for range 3 {
			current(t, task)
			current(t, second)
			s.stream().cut()
			synctest.Wait()
			s.connected()
			if err := other.Connected(within(t)); err != nil {
				t.Fatal(err)
			}
		}
		want := []ledger.Gap{{SessionID: "root", From: 10, To: 14}}
		for _, snap := range []Snapshot{current(t, task), current(t, second)} {
			if len(snap.Gaps) == 1 {
				snap.Gaps[0].Cursor = 0
			}
			if diff := cmp.Diff(want, snap.Gaps); diff != "" {
				t.Error(diff)
			}
			if snap.Turn.Number != 3 || snap.Execution != ledger.TurnCompleted {
				t.Errorf("behind the gap the task is %s in turn %d", snap.Execution, snap.Turn.Number)
			}
		}
		s.broadcast(subscribedFrame("root", 29))
		for _, ev := range s.write("root", aTurn...) {
			s.broadcast(eventFrame("root", ev))
		}
		await(t, task, "the next turn", func(snap Snapshot) bool { return snap.Turn.Number == 4 && snap.Turn.Ended })
		if n := count(t, task, ledger.TypeGap); n != 1 {
			t.Errorf("%d gaps are recorded", n)
		}
	})
}

// A session that the host does not know is told, and is followed as soon as it is made.
func TestSessionNotFoundAndLaterMade(t *testing.T) {
	for name, tell := range map[string]func(s *set, task *Task){
		"by its frames": func(s *set, task *Task) { s.send(subscribedFrame("root", -1)); s.live("root", aTurn...) },
		"by the list":   func(s *set, task *Task) { s.write("root", aTurn...); fresh(s.tb, task) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				s.remove("root")
				task := s.start()
				for range 3 {
					if snap := current(t, task); snap.Availability != SessionNotFound {
						t.Fatalf("the session is %s", snap.Availability)
					}
				}
				if n := s.count("history"); n != 1 {
					t.Errorf("the host was asked %d times", n)
				}
				s.add("root", "")
				changed := task.Changed()
				tell(s, task)
				<-changed
				await(t, task, "the turn", func(snap Snapshot) bool { return snap.Availability == Connected && snap.Turn.Ended })
				s.check(task)
			})
		})
	}
}

// A session that goes away while it is followed is told once somebody asks.
func TestSessionIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.send(subscribedFrame("root", -1))
		s.live("root", aTurn...)
		current(t, task)
		s.remove("root")
		if snap := fresh(t, task); snap.Availability != SessionNotFound {
			t.Errorf("the session is %s", snap.Availability)
		}
	})
}

// A host that has gone back behind what is recorded is no reason for a loop, and what it writes from then on is
// followed.
func TestHistoryThatEndsBelowTheWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		for range 3 {
			s.write("root", aTurn...)
		}
		task := s.start()
		current(t, task)
		s.logs["root"] = s.logs["root"][:10:10]
		s.reconnect()
		for range 3 {
			if snap := fresh(t, task); snap.Fault != nil {
				t.Errorf("there is a fault: %v", snap.Fault)
			}
		}
		if n := s.count("history"); n > 12 {
			t.Errorf("the history was read %d times", n)
		}
		s.send(subscribedFrame("root", 9))
		for range 4 {
			s.live("root", aTurn...)
		}
		snap := await(t, task, "the last turn", func(snap Snapshot) bool { return snap.Turn.Number == 5 && snap.Turn.Ended })
		if snap.Execution != ledger.TurnCompleted {
			t.Errorf("the execution is %s", snap.Execution)
		}
	})
}

// A subagent's history that the host cannot show does not keep the rest of the task from being followed, nor is it
// asked for over and over.
func TestUnreadableSubagent(t *testing.T) {
	for name, failure := range map[string]error{
		"refused":   refused("subagent.history", "internal"),
		"malformed": &dsh.Error{Kind: dsh.Malformed, Method: "subagent.history"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				s.add("child", "root")
				s.add("sibling", "root")
				s.write("root", aTurn...)
				s.write("child", aTurn...)
				s.write("sibling", aTurn...)
				s.hook("history child", func(context.Context, int) error { return failure })
				task := s.start()
				for range 5 {
					current(t, task)
				}
				s.check(task, "sibling")
				s.send(subscribedFrame("child", 9))
				s.live("child", aTurn...)
				s.live("root", aTurn...)
				synctest.Wait() // until the frames are read
				current(t, task)
				s.check(task, "sibling")
				if n := s.count("history child"); n > 2 {
					t.Errorf("the child was asked for %d times", n)
				}
				if text := s.log.String(); s.log.lines("cannot be read") != 1 || s.log.lines("own words") > 0 {
					t.Errorf("the log does not tell of it, or too much:\n%s", text)
				}
				s.hook("history child", nil)
				fresh(t, task)
				s.check(task, "sibling", "child")
			})
		})
	}
}

// A history that fails for a while fails its session only. Everything else goes on, and the fault is told.
func TestHistoryThatFailsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.add("child", "root")
		s.write("root", aTurn...)
		s.write("child", aTurn...)
		failure := &dsh.Error{Kind: dsh.OutcomeUnknown, Method: "subagent.history", Message: "HTTP 500"}
		s.hook("history child", func(context.Context, int) error { return failure })
		task := s.start()
		if err := task.Current(within(t)); err != failure {
			t.Errorf("the failure is %v", err)
		}
		if snap := look(t, task); snap.Fault != failure || snap.Turn.Number != 1 {
			t.Errorf("the task is %+v", snap)
		}
		s.send(subscribedFrame("root", 9))
		s.live("root", aTurn...)
		await(t, task, "the next turn", func(snap Snapshot) bool { return snap.Turn.Number == 2 && snap.Turn.Ended })
		if snap := look(t, task); snap.Fault != failure {
			t.Errorf("the fault is %v", snap.Fault)
		}
		s.hook("history child", nil)
		snap := await(t, task, "the fault to pass", func(snap Snapshot) bool { return snap.Fault == nil })
		if len(snap.Subagents) != 1 {
			t.Errorf("the subagents are %+v", snap.Subagents)
		}
		s.check(task, "child")
	})
}

// Odd ids of a host's are left out; they must not keep the rest from being recorded.
func TestIDsThatCannotBeRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.add("-odd", "root")
		s.write("-odd", aTurn...)
		s.send(subscribedFrame("-odd", 9))
		s.send(subscribedFrame("root", -1), questionFrame("root", ".odd", "Which?"), approvalFrame("root", "a-1", "@odd"), questionFrame("root", "q-1", "Which?"))
		s.live("root", "turn/start")
		snap := await(t, task, "the question", func(snap Snapshot) bool { return len(snap.Requests) > 0 && snap.Turn.Number == 1 })
		if len(snap.Requests) != 1 || snap.Requests[0].ID != "q-1" || snap.Fault != nil {
			t.Errorf("the task is %+v", snap)
		}
		fresh(t, task)
		s.checkEvents(task)
	})
}

// A process whose disk was slow is behind another one, which has recorded more than it has seen.
func TestOtherProcessIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		first := s.stream()
		other := s.another()
		second := other.Track(taskID, "root")
		other.Start()
		if err := other.Connected(within(t)); err != nil {
			t.Fatal(err)
		}
		events := s.write("root", slices.Repeat(aTurn, 3)...)
		for _, ev := range events {
			s.send(eventFrame("root", ev)) // the second one's stream
		}
		current(t, second)
		for _, ev := range events[:12] {
			first.send(eventFrame("root", ev))
		}
		time.Sleep(time.Second)
		for _, ev := range events[12:] {
			first.send(eventFrame("root", ev))
		}
		current(t, task)
		s.check(task)
		s.check(second)
	})
}
