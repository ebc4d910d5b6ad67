package mux

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/ledger"
)

// settled waits until the opening burst of the connection is over for a task.
func (s *set) settled(t *Task) {
	s.tb.Helper()
	for limit := within(s.tb); ; {
		changed := t.Changed()
		t.mu.Lock()
		over := t.epoch > 0 && t.settledOn == t.epoch
		t.mu.Unlock()
		if over {
			return
		}
		select {
		case <-changed:
		case <-limit.Done():
			s.tb.Fatal("the burst does not end")
		}
	}
}

// A request that the host brings again is the same request: on the next connection, in the next process, beside another
// process. It has one record.
func TestRequestIsReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.aRequest()
		await(t, task, "the question", func(snap Snapshot) bool { return len(snap.Requests) == 1 })

		s.reconnect()
		if snap := look(t, task); len(snap.Requests) != 1 || snap.Requests[0].Questions != nil {
			t.Errorf("before the host has brought it again it is %+v", snap.Requests)
		}
		s.send(subscribedFrame("root", 1), questionFrame("root", "q-1", "Which?"))
		await(t, task, "its words", func(snap Snapshot) bool { return len(snap.Requests) == 1 && snap.Requests[0].Questions != nil })
		s.settled(task)

		other := s.another()
		second := other.Track(taskID, "root")
		other.Start()
		if err := other.Connected(within(t)); err != nil {
			t.Fatal(err)
		}
		s.send(subscribedFrame("root", 1), questionFrame("root", "q-1", "Which?"))
		s.settled(second)
		snap := current(t, second)
		if len(snap.Requests) != 1 || snap.Requests[0].Questions == nil {
			t.Errorf("another process sees %+v", snap.Requests)
		}
		if diff := cmp.Diff([]string{"question/requested q-1"}, kinds(t, task)); diff != "" {
			t.Error(diff)
		}
	})
}

// A request that the burst does not bring is withdrawn after the quiet time, once, whoever finds out; brought again
// later, it is open again.
func TestRequestIsWithdrawnAndReopened(t *testing.T) {
	for name, restart := range map[string]bool{"on the next connection": false, "by the next process": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				task := s.start()
				s.aRequest()
				s.send(approvalFrame("root", "q-2", "a-1"))
				await(t, task, "both", func(snap Snapshot) bool { return len(snap.Requests) == 2 })
				s.settled(task)
				if restart {
					s.m.Close()
					s.m = s.another()
					task = s.start()
				} else {
					s.reconnect()
				}
				s.send(subscribedFrame("root", 1), approvalFrame("root", "q-2", "a-1"))
				snap := current(t, task)
				if diff := cmp.Diff([]string{"q-2"}, asked(snap)); diff != "" {
					t.Error(diff)
				}
				time.Sleep(10 * time.Second) // fake: long enough for anything else to be recorded, which must not be
				stream := s.stream()
				bystander := s.another().Track(taskID, "root")
				bystander.m.Start()
				synctest.Wait()
				s.send(subscribedFrame("root", 1), approvalFrame("root", "q-2", "a-1"))
				current(t, bystander)
				time.Sleep(10 * time.Second)                        // fake: as above
				stream.send(questionFrame("root", "q-1", "Which?")) // it was there all the same
				await(t, task, "its return", func(snap Snapshot) bool { return len(snap.Requests) == 2 })
				want := []string{"question/requested q-1", "approval/requested q-2", "interaction/withdrawn q-1", "interaction/replayed q-1"}
				if diff := cmp.Diff(want, kinds(t, task)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A task that is known to this process only since the burst went by judges nothing by it, when the burst held more
// requests of other people's sessions than are kept.
func TestLateTaskWithdrawsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.aRequest()
		await(t, task, "the question", func(snap Snapshot) bool { return len(snap.Requests) == 1 })
		s.settled(task)
		s.add("foreign", "")
		late := s.another()
		late.Start()
		if err := late.Connected(within(t)); err != nil {
			t.Fatal(err)
		}
		s.send(subscribedFrame("root", 1))
		for i := range maxForeign {
			s.send(questionFrame("foreign", fmt.Sprint("f-", i), "Which?"))
		}
		s.send(questionFrame("root", "q-1", "Which?"))
		time.Sleep(time.Minute) // fake: whatever it would withdraw, it has by then
		other := late.Track(taskID, "root")
		current(t, other)
		time.Sleep(time.Minute) // fake: as above
		if diff := cmp.Diff([]string{"question/requested q-1"}, kinds(t, task)); diff != "" {
			t.Error(diff)
		}
	})
}

// What another process has recorded since this connection was opened is on its way here as well: it was not in the
// burst, and is not withdrawn for that.
func TestRequestOfThisMomentIsNotWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		late := s.another()
		other := late.Track(taskID, "root")
		late.Start()
		if err := late.Connected(within(t)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(fakeQuiet / 2) // fake: in the midst of the quiet time
		first := s.streams[0]
		first.send(subscribedFrame("root", -1))
		for _, ev := range s.write("root", "turn/start", "tool/call") {
			first.send(eventFrame("root", ev))
			s.listed("root", ev)
		}
		first.send(questionFrame("root", "q-1", "Which?"))
		await(t, task, "the question", func(snap Snapshot) bool { return len(snap.Requests) == 1 })
		other.wake()
		time.Sleep(time.Minute) // the late one's stream is slow
		s.send(subscribedFrame("root", 1), questionFrame("root", "q-1", "Which?"))
		await(t, other, "its words", func(snap Snapshot) bool { return len(snap.Requests) == 1 && snap.Requests[0].Questions != nil })
		if diff := cmp.Diff([]string{"question/requested q-1"}, kinds(t, task)); diff != "" {
			t.Error(diff)
		}
	})
}

// The burst of a busy host takes its time: two thousand sessions, and requests behind them, with pauses in between.
func TestLongBurstWithdrawsNothing(t *testing.T) {
	r := newRig(t, dshtest.Options{})
	root := r.session()
	first := r.start()
	task := first.Track(taskID, root)
	prompt(t, task, asks)
	await(t, task, "the question", func(s Snapshot) bool { return len(s.Requests) == 1 })
	first.Close()
	for range 2000 {
		if _, err := r.host.AddSession(dshtest.SessionSpec{Attached: true}); err != nil {
			t.Fatal(err)
		}
	}
	r.host.SetReplayDelay(300 * time.Millisecond)
	m := r.open(func(o *Options) { o.Quiet = time.Second })
	task = m.Track(taskID, root)
	m.Start()
	snap := current(t, task)
	settled(t, m, 1)
	current(t, task)
	if len(snap.Requests) != 1 || snap.Requests[0].Questions == nil {
		t.Errorf("the requests are %+v", snap.Requests)
	}
	if n := count(t, task, ledger.TypeWithdrawn, ledger.TypeReplayed); n != 0 {
		t.Errorf("there are %d withdrawals and replays", n)
	}
	if n := r.host.Calls("session.list"); n > 4 {
		t.Errorf("it took %d lists", n)
	}
}

// On a host where sessions are resumed all the time the burst has an end as well.
func TestBurstOnARestlessHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.aRequest()
		await(t, task, "the question", func(snap Snapshot) bool { return len(snap.Requests) == 1 })
		s.settled(task)
		s.reconnect()
		s.add("foreign", "")
		for range int(2 * maxBurst / (fakeQuiet / 2)) {
			s.send(subscribedFrame("foreign", 5))
			time.Sleep(fakeQuiet / 2) // fake: shorter than the quiet time, so that the burst goes on
		}
		if snap := look(t, task); len(snap.Requests) != 0 {
			t.Errorf("still pending: %v", asked(snap))
		}
	})
}
