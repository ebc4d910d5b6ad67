package mux

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// What happened before the call is in the ledger afterwards, also when the stream has not brought it yet, and whatever
// the worker was doing.
func TestFreshSeesWhatHappenedBefore(t *testing.T) {
	for name, prepare := range map[string]func(s *set, task *Task){
		"nothing was read yet": func(*set, *Task) {},
		"it is followed": func(s *set, task *Task) {
			s.send(subscribedFrame("root", -1))
			s.live("root", aTurn...)
			current(s.tb, task)
		},
		"a history is being read": func(s *set, task *Task) {
			s.send(subscribedFrame("root", -1))
			s.live("root", aTurn...)
			s.write("root", "session/title") // not streamed, so that the next event finds a hole
			s.hook("history answer", func(context.Context, int) error { time.Sleep(time.Second); return nil })
			s.live("root", "session/title")
			synctest.Wait()
		},
		"a subagent is new": func(s *set, task *Task) {
			current(s.tb, task)
			s.add("child", "root")
		},
		"the task was thought to be gone": func(s *set, task *Task) {
			row := s.rows["root"]
			s.remove("root")
			current(s.tb, task)
			s.add("root", "")
			s.rows["root"] = row
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				task := s.start()
				prepare(s, task)
				// The stream is silent about what follows; the list knows it.
				s.write("root", aTurn...)
				last := s.last("root")
				s.change("root", func(row *dsh.Session) { row.LastSeq = last })
				var children []string
				if _, known := s.rows["child"]; known {
					children = append(children, "child")
					s.write("child", aTurn...)
					s.change("child", func(row *dsh.Session) { row.LastSeq = 9 })
				}
				fresh(t, task)
				s.check(task, children...)
			})
		})
	}
}

// While a task is followed, looking at it costs a list and nothing else.
func TestFreshCostsOneList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.add("child", "root")
		task := s.start()
		s.send(subscribedFrame("root", -1), subscribedFrame("child", -1))
		s.live("root", "turn/start", "step/start")
		s.live("child", aTurn...)
		synctest.Wait()
		fresh(t, task)
		lists, histories := s.count("list"), s.count("history")
		for range 10 {
			s.live("root", "tool/call", "tool/result")
			fresh(t, task)
			current(t, task)
		}
		if n := s.count("list") - lists; n != 10 {
			t.Errorf("ten looks cost %d lists", n)
		}
		if n := s.count("history") - histories; n > 10 { // the list may overtake the stream
			t.Errorf("ten looks cost %d histories", n)
		}
		synctest.Wait()
		histories = s.count("history")
		for range 10 {
			fresh(t, task)
			current(t, task)
		}
		if n := s.count("history") - histories; n > 0 {
			t.Errorf("ten looks at a task at rest cost %d histories", n)
		}
	})
}

// The session of a host that was killed and started again is as it was on the list, and its log ends otherwise.
func TestFreshBeforeTheStreamTellsOfARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.send(subscribedFrame("root", -1))
		s.live("root", "turn/start", "step/start")
		synctest.Wait()
		current(t, task)
		s.write("root", "step/end", "turn/end") // what the new process writes when it reads the log
		s.change("root", func(row *dsh.Session) { row.Running = false })
		fresh(t, task)
		s.check(task)
	})
}

// A connection that drops under a call is waited for again; one that does not come back is told.
func TestConnectionDropsUnderACall(t *testing.T) {
	for name, back := range map[string]bool{"and comes back": true, "and stays away": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				s.write("root", aTurn...)
				task := s.start()
				s.hook("history", func(ctx context.Context, n int) error {
					if n == 1 {
						s.stream().cut()
						time.Sleep(5 * time.Second)
						return &dsh.Error{Kind: dsh.OutcomeUnknown, Method: "session.history"}
					}
					return nil
				})
				if !back {
					s.hook("subscribe", func(context.Context, int) error { return away() })
				}
				err := task.Current(within(t))
				if back {
					if err != nil {
						t.Fatal(err)
					}
					s.check(task)
					return
				}
				if dsh.KindOf(err) != dsh.NotSent {
					t.Errorf("the failure is %v", err)
				}
				if snap := look(t, task); snap.Availability != HostUnreachable {
					t.Errorf("the host is %s", snap.Availability)
				}
			})
		})
	}
}

// A connection that drops again and again under one call is given up.
func TestConnectionFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", aTurn...)
		task := s.start()
		s.hook("history", func(context.Context, int) error {
			s.stream().cut()
			time.Sleep(5 * time.Second)
			return away()
		})
		if err := task.Current(within(t)); err == nil {
			t.Error("it is up to date")
		}
		if n := s.count("history"); n > 10 {
			t.Errorf("%d histories were read", n)
		}
	})
}

func TestCallEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", aTurn...)
		s.disk.set(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, nil)
		task := s.start()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := task.Current(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("current: %v", err)
		}
		if _, _, err := task.Fresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("fresh: %v", err)
		}
	})
}

// On a task in which something happens all the time a call does not wait for a moment of rest.
func TestCallOnABusyTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.send(subscribedFrame("root", -1))
		s.live("root", "turn/start")
		current(t, task)
		// Every write takes a while, and brings more to write.
		s.disk.set(func(context.Context) error {
			s.live("root", "step/start", "step/end")
			time.Sleep(10 * time.Millisecond)
			return nil
		}, nil)
		s.live("root", "step/start")
		seen := s.last("root")
		time.Sleep(time.Second)
		began := time.Now()
		current(t, task)
		fresh(t, task)
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("the calls took %s", waited)
		}
		if err := task.Ledger().View(func(state *ledger.State) {
			if state.Watermark("root") < seen {
				t.Errorf("the ledger is at %d, what happened before ended at %d", state.Watermark("root"), seen)
			}
		}); err != nil {
			t.Fatal(err)
		}
		s.disk.set(nil, nil)
	})
}

// Requests that the ledger holds as pending are shown whole as soon as the burst has brought them, and a call right
// after the start waits for it.
func TestCallWaitsForTheBurst(t *testing.T) {
	for name, brings := range map[string]bool{"which brings the request": true, "which does not": false, "behind a slow list": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				s.start()
				s.send(subscribedFrame("root", -1))
				s.live("root", "turn/start", "tool/call")
				s.send(questionFrame("root", "q-1", "Which?"))
				synctest.Wait()
				s.m.Close()
				time.Sleep(time.Second)

				s.hook("list", func(context.Context, int) error {
					s.hook("list", nil)
					if name == "behind a slow list" {
						time.Sleep(10 * fakeQuiet)
					}
					time.AfterFunc(fakeQuiet/2, func() {
						s.send(subscribedFrame("root", 1))
						if brings {
							s.send(questionFrame("root", "q-1", "Which?"))
						}
					})
					return nil
				})
				m := s.another()
				task := m.Track(taskID, "root")
				m.Start()
				snap := current(t, task)
				switch {
				case brings && (len(snap.Requests) != 1 || snap.Requests[0].Questions == nil):
					t.Errorf("the requests are %+v", snap.Requests)
				case !brings && len(snap.Requests) != 0:
					t.Errorf("the requests are %+v", snap.Requests)
				}
				if n := count(t, task, ledger.TypeWithdrawn, ledger.TypeReplayed); (n == 0) != brings {
					t.Errorf("there are %d withdrawals and replays", n)
				}
			})
		})
	}
}

// Many callers at once, while frames come and the connection drops: every call returns.
func TestManyCallers(t *testing.T) {
	s := newSet(t)
	task := s.start()
	s.send(subscribedFrame("root", -1))
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for range 30 {
				switch i % 4 {
				case 0:
					_ = task.Current(within(t))
				case 1:
					_, _, _ = task.Fresh(within(t))
				case 2:
					_, _ = task.Snapshot()
					<-time.After(time.Millisecond)
				case 3:
					_ = s.m.Connected(within(t))
					task.wake()
				}
			}
		})
	}
	for range 20 {
		s.live("root", aTurn...)
	}
	s.stream().cut()
	callers.Wait()
	fresh(t, task)
	s.check(task)
}
