package mux

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// A fault is told to everybody who asks while it lasts, each after an attempt of its own, and to nobody afterwards.
func TestFaultIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", aTurn...)
		var attempts atomic.Int64
		s.disk.set(func(context.Context) error { attempts.Add(1); return errDisk }, nil)
		task := s.start()
		for range 5 {
			before := attempts.Load()
			if err := task.Current(within(t)); !errors.Is(err, errDisk) {
				t.Errorf("current: %v", err)
			}
			if _, _, err := task.Fresh(within(t)); !errors.Is(err, errDisk) {
				t.Errorf("fresh: %v", err)
			}
			if attempts.Load() == before {
				t.Error("nothing was tried")
			}
		}
		if snap := look(t, task); !errors.Is(snap.Fault, errDisk) || snap.Availability != Connected {
			t.Errorf("the snapshot tells %v", snap.Fault)
		}
		before := attempts.Load()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := attempts.Load() - before; n < 10 || n > 600 {
			t.Errorf("in ten minutes there were %d attempts", n)
		}
		s.disk.set(nil, nil)
		if snap := current(t, task); snap.Fault != nil {
			t.Errorf("the fault stays: %v", snap.Fault)
		}
		s.check(task)
	})
}

// A fault passes by itself, without anybody asking.
func TestFaultPasses(t *testing.T) {
	for name, brk := range map[string]func(s *set, broken bool){
		"the lock":    func(s *set, broken bool) { s.disk.set(failing(broken), nil) },
		"the disk":    func(s *set, broken bool) { s.disk.set(nil, failing(broken)) },
		"the history": func(s *set, broken bool) { s.hook("history", onCall(broken)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				task := s.start()
				s.send(subscribedFrame("root", -1))
				s.live("root", "turn/start")
				synctest.Wait()
				brk(s, true)
				lost := name == "the history" // which nobody reads otherwise
				s.live("root", "step/start", "step/end")
				if lost {
					s.write("root", "step/start")
				} else {
					s.live("root", "step/start")
				}
				s.live("root", "step/end", "turn/end")
				s.send(questionFrame("root", "q-1", "Which?"), queueFrame("root", "i-1"), queueFrame("root", "i-1", "i-2"), answeredFrame("root", "q-1"))
				await(t, task, "the fault", func(snap Snapshot) bool { return snap.Fault != nil })
				brk(s, false)
				await(t, task, "the fault to pass", func(snap Snapshot) bool { return snap.Fault == nil && snap.Turn.Ended })
				synctest.Wait()
				s.check(task)
				// For a lost frame the stream is opened anew, and what it brings is another matter.
				if n := count(t, task, ledger.TypeQueue); (n == 0 && !lost) || len(look(t, task).Requests) > 0 {
					t.Errorf("%d queues are recorded", n)
				}
			})
		})
	}
}

// Events that a broken disk refused are read from the history; what comes behind them on the stream must not be taken for
// all there is, although the session was seen from its first event on.
func TestEventsOfAFailedWriteAreNotSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.send(subscribedFrame("root", -1))
		s.disk.set(nil, failing(true))
		s.live("root", "turn/start", "step/start")
		await(t, task, "the fault", func(snap Snapshot) bool { return snap.Fault != nil })
		s.hook("history", onCall(true))
		s.disk.set(nil, nil)
		s.live("root", "step/end")
		time.Sleep(time.Minute)
		if n := count(t, task, ledger.TypeEvent); n != 0 {
			t.Errorf("%d events are recorded, and the first two are not", n)
		}
		s.hook("history", nil)
		current(t, task)
		s.check(task)
	})
}

// A failure behind which nothing is left to do is tried again all the same, and does not stay for ever.
func TestFaultWithoutWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.add("child", "root")
		task := s.start()
		current(t, task)
		time.Sleep(time.Minute)
		// Another process has seen the root's turn begin; here the stream has told only of the child.
		second := s.another().Track(taskID, "root")
		begin := scrub(s.write("root", "turn/start")[0], 0, source{id: "root", origin: ledger.OriginRoot})
		if err := second.append(t.Context(), 0, []ledger.Entry{begin}); err != nil {
			t.Fatal(err)
		}
		s.change("root", func(row *dsh.Session) { row.Running = true })
		s.hook("list", func(context.Context, int) error { return &dsh.Error{Kind: dsh.OutcomeUnknown, Method: "session.list"} })
		s.live("child", "turn/start")
		await(t, task, "the fault", func(snap Snapshot) bool { return snap.Fault != nil })
		s.hook("list", nil)
		if snap := current(t, task); snap.Fault != nil || snap.Execution != ledger.Running {
			t.Errorf("the task is %s, the fault is %v", snap.Execution, snap.Fault)
		}
	})
}

func failing(broken bool) func(context.Context) error {
	if !broken {
		return nil
	}
	return func(context.Context) error { return errDisk }
}

func onCall(broken bool) func(context.Context, int) error {
	if !broken {
		return nil
	}
	return func(context.Context, int) error {
		return &dsh.Error{Kind: dsh.OutcomeUnknown, Method: "session.history"}
	}
}

// A fault of the last connection is none of the next: its pause is over at once.
func TestFaultEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", aTurn...)
		s.hook("history", onCall(true))
		task := s.start()
		task.wake()
		time.Sleep(10 * time.Minute) // the pauses are long by now
		s.hook("history", nil)
		began := time.Now()
		s.reconnect()
		await(t, task, "the turn", func(snap Snapshot) bool { return snap.Turn.Ended && snap.Fault == nil })
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("it took %s", waited)
		}
	})
}

// What a connection brought and could not be written down is no more than that connection: it is not written down once
// the connection is gone, when others may know better. What this process did itself is.
func TestWhatAConnectionBroughtEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", aTurn...)
		task := s.start()
		current(t, task)
		before := len(records(t, task))
		s.disk.set(failing(true), nil)
		s.send(subscribedFrame("root", s.last("root")), questionFrame("root", "q-1", "Which?"))
		time.Sleep(time.Minute)
		issued := record(ledger.TypePromptIssued, source{id: "root", origin: ledger.OriginRoot}, ledger.Coordination{RequestID: "p-1", Outcome: ledger.PromptAccepted})
		if err := task.append(t.Context(), 0, []ledger.Entry{issued}); !errors.Is(err, errDisk) {
			t.Fatalf("the append: %v", err)
		}
		s.hook("subscribe", onCall(true))
		s.stream().cut()
		synctest.Wait()
		s.disk.set(nil, nil)
		time.Sleep(10 * time.Minute)
		var types []ledger.Type
		for _, r := range records(t, task)[before:] {
			types = append(types, r.Type)
		}
		if diff := cmp.Diff([]ledger.Type{ledger.TypePromptIssued}, types); diff != "" {
			t.Error(diff)
		}
	})
}
