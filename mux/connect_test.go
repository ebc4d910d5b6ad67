package mux

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"dsh-agentlink/internal/dsh"
)

// What Connected returns is the outcome of an attempt that began after the call, or the success of one that was under
// way.
func TestConnectedTellsOfAnAttemptOfItsOwn(t *testing.T) {
	old, fresh := errors.New("the old failure"), errors.New("the new failure")
	for _, tt := range []struct {
		name string
		// outcomes of the attempts: the one under way at the call, and the next.
		underWay, next error
		want           error
	}{
		{"the attempt under way succeeds", nil, nil, nil},
		{"it fails, the next succeeds", old, nil, nil},
		{"both fail", old, fresh, fresh},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				proceed := make(chan struct{})
				s.hook("subscribe", func(_ context.Context, n int) error {
					if n == 1 {
						<-proceed
						return tt.underWay
					}
					return tt.next
				})
				s.m.Start()
				synctest.Wait() // the attempt is under way
				got := make(chan error)
				go func() { got <- s.m.Connected(within(t)) }()
				synctest.Wait()
				began := time.Now()
				close(proceed)
				if err := <-got; !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if waited := time.Since(began); waited > 0 {
					t.Errorf("it waited %s for the next attempt", waited)
				}
			})
		})
	}
}

// When no attempt is under way one is made at once, however long the pause would be.
func TestConnectedDoesNotWaitForThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		failure := away()
		s.hook("subscribe", func(context.Context, int) error { return failure })
		s.m.Start()
		time.Sleep(5 * time.Minute) // by now the pauses are long
		for range 3 {
			n, began := s.count("subscribe"), time.Now()
			if err := s.m.Connected(within(t)); !errors.Is(err, failure) {
				t.Errorf("got %v", err)
			}
			if made := s.count("subscribe") - n; made != 1 || time.Since(began) > 0 {
				t.Errorf("%d attempts were made in %s", made, time.Since(began))
			}
			time.Sleep(time.Second)
		}
		s.hook("subscribe", nil)
		if err := s.m.Connected(within(t)); err != nil {
			t.Error(err)
		}
		if err := s.m.Err(); err != nil {
			t.Errorf("while connected there is an error: %v", err)
		}
	})
}

// The stream alone is no connection: the sessions have to be listed as well.
func TestConnectedWaitsForTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		failure := &dsh.Error{Kind: dsh.OutcomeUnknown, Method: "session.list"}
		s.hook("list", func(context.Context, int) error { return failure })
		s.m.Start()
		if err := s.m.Connected(within(t)); !errors.Is(err, failure) {
			t.Errorf("got %v", err)
		}
		s.hook("list", nil)
		if err := s.m.Connected(within(t)); err != nil {
			t.Error(err)
		}
	})
}

// A connection that was lost is no success any more, also for those who have been waiting since before it was made.
func TestConnectedTellsNoStaleSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.start()
		s.hook("subscribe", func(context.Context, int) error { return away() })
		s.stream().cut()
		synctest.Wait()
		if err := s.m.Connected(within(t)); dsh.KindOf(err) != dsh.NotSent {
			t.Errorf("got %v", err)
		}
	})
}

// A host that refuses connections is gone, whatever the stream says so far.
func TestUnreachableHostEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.hook("subscribe", func(context.Context, int) error { return away() })
		s.hook("list", func(context.Context, int) error { return away() })
		if _, _, err := task.Fresh(within(t)); dsh.KindOf(err) != dsh.NotSent {
			t.Errorf("fresh: %v", err)
		}
		if snap := look(t, task); snap.Availability != HostUnreachable {
			t.Errorf("the host is %s", snap.Availability)
		}
		if err := s.m.Connected(within(t)); dsh.KindOf(err) != dsh.NotSent {
			t.Errorf("connected: %v", err)
		}
	})
}

func TestConnectedEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.hook("subscribe", func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() })
		s.m.Start()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.m.Connected(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		go func() {
			time.Sleep(time.Second)
			s.m.Close()
		}()
		if err := s.m.Connected(within(t)); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		if err := s.m.Connected(within(t)); !errors.Is(err, ErrClosed) {
			t.Errorf("long after Close: %v", err)
		}
	})
}

// The pause between attempts grows, and begins small again after a connection.
func TestPauseBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.hook("subscribe", func(context.Context, int) error { return away() })
		s.m.Start()
		time.Sleep(time.Hour)
		synctest.Wait()
		n := s.count("subscribe")
		if n < 3600/25 || n > 3600/5 {
			t.Errorf("in an hour there were %d attempts", n)
		}
		s.hook("subscribe", nil)
		s.connected()
		began := time.Now()
		s.reconnect()
		if waited := time.Since(began); waited > 2*minPause {
			t.Errorf("the first attempt was made after %s", waited)
		}
	})
}

// Wherever a task is tracked while the connection comes up, it is followed from then on.
func TestTrackWhileConnecting(t *testing.T) {
	for name, where := range map[string]string{"while subscribing": "subscribe", "while listing": "list", "afterwards": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				s.add("child", "root")
				s.write("child", aTurn...)
				s.write("root", aTurn...)
				s.change("root", func(row *dsh.Session) { row.LastSeq = 4 })
				proceed := make(chan struct{})
				if where != "" {
					s.hook(where, func(context.Context, int) error { <-proceed; return nil })
				}
				s.m.Start()
				synctest.Wait()
				if where != "subscribe" {
					s.send(subscribedFrame("root", 9), subscribedFrame("child", 9), questionFrame("root", "q-1", "Which?"), questionFrame("child", "q-2", "Which?"))
					s.live("root", "turn/start")
					synctest.Wait()
				}
				task := s.m.Track(taskID, "root")
				close(proceed)
				if where == "subscribe" {
					synctest.Wait()
					s.send(subscribedFrame("root", 9), subscribedFrame("child", 9), questionFrame("root", "q-1", "Which?"), questionFrame("child", "q-2", "Which?"))
					s.live("root", "turn/start")
					synctest.Wait()
				}
				snap := current(t, task)
				if len(snap.Requests) != 2 || snap.Requests[0].Questions == nil || snap.Requests[1].Questions == nil {
					t.Errorf("the requests are %+v", snap.Requests)
				}
				time.Sleep(time.Second) // the burst is over
				s.live("root", "turn/end")
				s.live("child", aTurn...)
				synctest.Wait()
				current(t, task)
				s.check(task, "child")
				if s.m.Task(taskID) != task || s.m.Track(taskID, "root") != task {
					t.Error("it is not the same task any more")
				}
			})
		})
	}
}

// A call that comes in the very moment in which the connection is ready finds the task at work.
func TestCallRightAtReady(t *testing.T) {
	for range 20 {
		s := newSet(t)
		s.write("root", aTurn...)
		task := s.m.Track(taskID, "root")
		got := make(chan error, 4)
		for range cap(got) {
			go func() { got <- task.Current(within(t)) }()
		}
		s.m.Start()
		for range cap(got) {
			if err := receive(t, got, "a call"); err != nil {
				t.Fatal(err)
			}
			s.check(task)
		}
	}
}

// Closing ends everything, whatever goes on; goleak looks for what stays behind, and so does the bubble.
func TestCloseInAnyState(t *testing.T) {
	for name, reach := range map[string]func(s *set, task *Task){
		"never started": func(*set, *Task) {},
		"subscribing": func(s *set, _ *Task) {
			s.hook("subscribe", func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() })
			s.m.Start()
		},
		"between attempts": func(s *set, _ *Task) {
			s.hook("subscribe", func(context.Context, int) error { return away() })
			s.m.Start()
		},
		"listing": func(s *set, _ *Task) {
			s.hook("list", func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() })
			s.m.Start()
		},
		"in the opening burst": func(s *set, _ *Task) { s.start(); s.send(subscribedFrame("root", -1)) },
		"quiet":                func(s *set, _ *Task) { s.start(); time.Sleep(time.Second) },
		"reading a history": func(s *set, task *Task) {
			s.hook("history", func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() })
			s.start()
			task.wake()
		},
		"waiting for a lock": func(s *set, task *Task) {
			s.write("root", aTurn...)
			s.disk.set(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, nil)
			s.start()
			task.wake()
		},
		"pausing after a fault": func(s *set, task *Task) {
			s.write("root", aTurn...)
			s.disk.set(func(context.Context) error { return errDisk }, nil)
			s.start()
			task.wake()
		},
		"looking for a stranger": func(s *set, _ *Task) {
			s.start()
			s.hook("list", func(ctx context.Context, _ int) error {
				select {
				case <-ctx.Done():
				case <-s.m.ctx.Done(): // a caller's own call would go on as long as the caller likes
				}
				return away()
			})
			s.send(subscribedFrame("stranger", 5))
		},
		"watching a silent turn": func(s *set, task *Task) {
			s.start()
			s.send(subscribedFrame("root", -1))
			s.live("root", "turn/start", "step/start", "step/end")
		},
		"with an approval that expires": func(s *set, task *Task) {
			s.m.opts.ApprovalTimeout = time.Hour
			s.start()
			s.send(approvalFrame("root", "q-1", "a-1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				task := s.m.Track(taskID, "root")
				reach(s, task)
				synctest.Wait()
				waits := make(chan error, 3)
				go func() { waits <- s.m.Connected(context.Background()) }()
				go func() { waits <- task.Current(context.Background()) }()
				go func() { _, _, err := task.Fresh(context.Background()); waits <- err }()
				synctest.Wait()
				s.m.Close()
				for range cap(waits) {
					<-waits // whatever it returns, it returns
				}
				task.wake()
				task.nudge()
				s.m.Start()
				late := s.m.Track("dsh_000000000002", "root2")
				late.wake()
				if err := late.Current(context.Background()); !errors.Is(err, ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
				s.m.Close()
			})
		})
	}
}

// A task that came to nothing is let go of, and what its session sends is nobody's.
func TestUntrack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.m.Untrack(taskID)
		s.m.Untrack(taskID)
		if s.m.Task(taskID) != nil {
			t.Error("it is still tracked")
		}
		s.send(subscribedFrame("root", -1), questionFrame("root", "q-1", "Which?"))
		s.live("root", aTurn...)
		synctest.Wait()
		if task.Watched() || s.disk.touches() > 0 {
			t.Error("it is still followed")
		}
		if err := task.Current(within(t)); err == nil {
			t.Error("it is up to date")
		}
	})
}
