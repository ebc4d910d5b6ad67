package mux

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// shown is the part of a snapshot that can be compared.
func shown(tb testing.TB, t *Task) string {
	tb.Helper()
	snap := look(tb, t)
	return fmt.Sprintf("%s %s %+v %d %+v %+v %+v %d", snap.Availability, snap.Execution, snap.Turn, snap.Final, snap.Requests, snap.Queue, snap.Jobs, snap.Cursor)
}

// Whatever changes a snapshot closes the channel that was fetched before it: who waits sees every state that lasts.
func TestNoChangeIsMissed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSet(t)
			task := s.start()
			var mu sync.Mutex
			seen, stop := "", make(chan struct{})
			go func() {
				for {
					changed := task.Changed()
					now := shown(t, task)
					mu.Lock()
					seen = now
					mu.Unlock()
					select {
					case <-changed:
					case <-stop:
						return
					}
				}
			}()
			defer close(stop)
			// Somebody of this process has looked at what another one wrote, and told nobody.
			other := s.another()
			second := other.Track(taskID, "root")
			n := 0
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				n++
				id := fmt.Sprint("q-", n)
				switch rapid.IntRange(0, 11).Draw(rt, "what") {
				case 0:
					s.live("root", aTurn...)
				case 1:
					s.live("root", "turn/start")
				case 2:
					s.send(questionFrame("root", id, "Which?"))
				case 3:
					s.send(approvalFrame("root", id, "a-"+id), decidedFrame("root", "a-"+id))
				case 4:
					s.send(queueFrame("root", id))
				case 5:
					s.send(jobsFrame("root", "running"))
				case 6:
					s.stream().cut()
				case 7:
					time.Sleep(time.Second)
				case 8:
					fresh(t, task)
				case 9:
					s.remove("root")
					_, _, _ = task.Fresh(within(t))
					s.add("root", "")
					last := s.last("root")
					s.change("root", func(row *dsh.Session) { row.LastSeq = last })
				case 10:
					if err := second.append(t.Context(), 0, []ledger.Entry{record(ledger.TypePromptIssued, source{id: "root", origin: ledger.OriginRoot},
						ledger.Coordination{RequestID: id, Outcome: ledger.PromptAccepted})}); err != nil {
						t.Fatal(err)
					}
					if err := task.Ledger().Refresh(); err != nil {
						t.Fatal(err)
					}
					current(t, task)
				case 11:
					s.hook("history", onCall(true))
					_ = task.Current(within(t))
					s.hook("history", nil)
				}
				if rapid.Bool().Draw(rt, "pause") {
					synctest.Wait()
				}
			}
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(shown(t, task), seen); diff != "" {
				t.Errorf("who waits has seen another state (-now +seen)\n%s", diff)
			}
		})
	})
}

// The moment in which the connection is ready is a change like any other.
func TestConnectionIsAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.m.Track(taskID, "root")
		s.m.Start()
		await(t, task, "the connection", func(snap Snapshot) bool { return snap.Availability == Connected })
		s.hook("subscribe", func(context.Context, int) error { return away() })
		s.stream().cut()
		await(t, task, "its end", func(snap Snapshot) bool { return snap.Availability == HostUnreachable })
		s.hook("subscribe", nil)
		await(t, task, "the next one", func(snap Snapshot) bool { return snap.Availability == Connected })
	})
}

// It is one for each of many tasks, which hear of the list one after the other.
func TestConnectionIsAChangeForEveryTask(t *testing.T) {
	s := newSet(t)
	var tasks []*Task
	for i := range 2000 {
		tasks = append(tasks, s.m.Track(fmt.Sprintf("dsh_%012x", i), fmt.Sprint("session-", i)))
	}
	var waiters sync.WaitGroup
	for _, task := range tasks {
		waiters.Go(func() {
			await(t, task, "the connection", func(snap Snapshot) bool { return snap.Availability == Connected })
		})
	}
	s.m.Start()
	waiters.Wait()
}

// What another process has recorded is one as well, also when somebody here has looked at the ledger in between.
func TestRecordsOfOthersAreAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.send(subscribedFrame("root", -1))
		current(t, task)
		changed := task.Changed()
		ev := s.write("root", "turn/start")[0]
		second := s.another().Track(taskID, "root")
		if err := second.append(t.Context(), 0, []ledger.Entry{scrub(ev, 0, source{id: "root", origin: ledger.OriginRoot})}); err != nil {
			t.Fatal(err)
		}
		if err := task.Ledger().Refresh(); err != nil {
			t.Fatal(err)
		}
		s.send(eventFrame("root", ev)) // which adds nothing any more
		<-changed
		await(t, task, "the turn", func(snap Snapshot) bool { return snap.Turn.Number == 1 })
	})
}

// In real time, with real goroutines: a waiter that follows a counter never stops before its end.
func TestWaitersUnderStress(t *testing.T) {
	s := newSet(t)
	task := s.start()
	s.send(subscribedFrame("root", -1))
	const turns = 300
	var waiters sync.WaitGroup
	for range 4 {
		waiters.Go(func() {
			await(t, task, "the last turn", func(snap Snapshot) bool { return snap.Turn.Number == turns && snap.Turn.Ended })
		})
	}
	for range turns {
		s.live("root", "turn/start", "turn/end")
	}
	waiters.Wait()
}

// A snapshot is the caller's: what happens later does not change it.
func TestSnapshotDoesNotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.send(subscribedFrame("root", -1), questionFrame("root", "q-1", "Which?"), queueFrame("root", "i-1"), jobsFrame("root", "running"))
		s.live("root", "turn/start")
		before := await(t, task, "the question", func(snap Snapshot) bool { return len(snap.Requests) == 1 && snap.Queue != nil })
		opts := cmpopts.IgnoreUnexported(Request{})
		copied := before
		copied.Requests = append([]Request(nil), before.Requests...)
		queue := *before.Queue
		copied.Queue = &queue
		s.send(answeredFrame("root", "q-1"), queueFrame("root"), jobsFrame("root", "completed"))
		s.live("root", "turn/end")
		s.stream().cut()
		synctest.Wait()
		if diff := cmp.Diff(copied, before, opts); diff != "" {
			t.Error(diff)
		}
	})
}
