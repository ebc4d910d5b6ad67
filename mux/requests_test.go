package mux

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/ledger"
)

// kinds are the types of the records that speak of requests, in order.
func kinds(tb testing.TB, t *Task) []string {
	tb.Helper()
	var list []string
	for _, r := range records(tb, t) {
		switch r.Type {
		case ledger.TypeEvent, ledger.TypeQueue, ledger.TypeJobs, ledger.TypePromptIssued:
		default:
			list = append(list, fmt.Sprint(r.Type, " ", r.Coordination.RequestID))
		}
	}
	return list
}

// asked is what a snapshot says of its requests.
func asked(snap Snapshot) (ids []string) {
	for _, r := range snap.Requests {
		ids = append(ids, r.ID)
	}
	return ids
}

// aRequest is a session inside a turn that asks, as a burst tells it.
func (s *set) aRequest() {
	s.send(subscribedFrame("root", -1))
	s.live("root", "turn/start", "tool/call")
	s.send(questionFrame("root", "q-1", "Which?"))
}

// A request is shown word for word, and nothing of its words reaches the disk or the log.
func TestRequestIsShownVerbatim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.send(subscribedFrame("root", -1))
		s.live("root", "turn/start")
		question := dsh.Question{ID: "q", Question: "Which \u00e9?", Header: "H", Detail: "D", MultiSelect: true, Intent: json.RawMessage(`{"kind":"plan-review","approve":"b"}`),
			Options: []dsh.Option{{Label: "a", Description: "first"}, {Label: "b"}}}
		s.send(frameOf(dsh.FrameQuestionRequested, "root", "q-1", map[string]any{"questions": []any{question}}), approvalFrame("root", "q-2", "a-1"))
		snap := await(t, task, "both", func(snap Snapshot) bool { return len(snap.Requests) == 2 })
		want := []Request{
			{ID: "q-1", SessionID: "root", Questions: []dsh.Question{question}},
			{ID: "q-2", SessionID: "root", IsApproval: true, Approval: &dsh.Approval{ApprovalID: "a-1", ToolName: "bash", CallID: "c", Reason: "because"}},
		}
		for i := range snap.Requests {
			r := &snap.Requests[i]
			if r.Cursor == 0 || time.Since(r.Since) > time.Minute {
				t.Errorf("request %s was opened at cursor %d, %s", r.ID, r.Cursor, r.Since)
			}
			r.Cursor, r.Since, r.confirmed = 0, time.Time{}, false
		}
		if diff := cmp.Diff(want, snap.Requests, cmp.AllowUnexported(Request{})); diff != "" {
			t.Error(diff)
		}
		if snap.Execution != ledger.AwaitingApproval {
			t.Errorf("the execution is %s", snap.Execution)
		}
		if s.m.Holder("q-1") != taskID || s.m.Holder("q-9") != "" {
			t.Error("the holder of the request is not known")
		}
		s.send(answeredFrame("root", "q-1"), decidedFrame("root", "a-1"))
		await(t, task, "none", func(snap Snapshot) bool { return len(snap.Requests) == 0 && snap.Execution == ledger.Running })
		want2 := []string{"question/requested q-1", "approval/requested q-2", "question/resolved q-1", "approval/resolved q-2"}
		if diff := cmp.Diff(want2, kinds(t, task)); diff != "" {
			t.Error(diff)
		}
		if closed, known, err := task.ClosedRequest("q-1"); err != nil || !known || closed.Outcome != "answered" {
			t.Errorf("what became of it: %+v %v %v", closed, known, err)
		}
	})
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
		time.Sleep(time.Second)

		other := s.another()
		second := other.Track(taskID, "root")
		other.Start()
		if err := other.Connected(within(t)); err != nil {
			t.Fatal(err)
		}
		s.send(subscribedFrame("root", 1), questionFrame("root", "q-1", "Which?"))
		time.Sleep(time.Second)
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
				time.Sleep(time.Second)
				if restart {
					s.m.Close()
					s.m = s.another()
					time.Sleep(time.Second)
					task = s.start()
				} else {
					s.reconnect()
				}
				s.send(subscribedFrame("root", 1), approvalFrame("root", "q-2", "a-1"))
				snap := current(t, task)
				if diff := cmp.Diff([]string{"q-2"}, asked(snap)); diff != "" {
					t.Error(diff)
				}
				time.Sleep(10 * time.Second)
				stream := s.stream()
				bystander := s.another().Track(taskID, "root")
				bystander.m.Start()
				synctest.Wait()
				s.send(subscribedFrame("root", 1), approvalFrame("root", "q-2", "a-1"))
				current(t, bystander)
				time.Sleep(10 * time.Second)
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
		time.Sleep(time.Second)
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
		time.Sleep(time.Minute)
		other := late.Track(taskID, "root")
		current(t, other)
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"question/requested q-1"}, kinds(t, task)); diff != "" {
			t.Error(diff)
		}
	})
}

// Requests of other people's sessions are kept until they are resolved, in case somebody asks for the task.
func TestForeignRequestsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.m.Start()
		s.connected()
		s.send(subscribedFrame("root", -1))
		s.live("root", "turn/start")
		s.send(questionFrame("root", "q-1", "One?"), questionFrame("root", "q-2", "Two?"), approvalFrame("root", "q-3", "a-3"), approvalFrame("root", "q-4", "a-4"))
		time.Sleep(time.Minute)
		s.send(answeredFrame("root", "q-1"), decidedFrame("root", "a-4"), answeredFrame("root", "q-9"))
		synctest.Wait()
		task := s.m.Track(taskID, "root")
		snap := current(t, task)
		if diff := cmp.Diff([]string{"q-2", "q-3"}, asked(snap)); diff != "" {
			t.Error(diff)
		}
		s.send(answeredFrame("root", "q-2"), decidedFrame("root", "a-3"))
		await(t, task, "none", func(snap Snapshot) bool { return len(snap.Requests) == 0 })
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		if f := s.m.lineage.foreign; f.count != 0 || len(f.asked) != 0 {
			t.Errorf("kept are %d: %v", f.count, f.asked)
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
		time.Sleep(fakeQuiet / 2)
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

// A subagent can ask before anybody knows whose it is. The request waits for that, and is neither lost nor withdrawn.
func TestRequestOfAnUnknownSubagent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.add("child", "root")
		task := s.start()
		s.send(subscribedFrame("root", -1))
		s.live("root", "turn/start")
		s.send(subscribedFrame("child", -1))
		s.live("child", "turn/start")
		s.send(questionFrame("child", "q-1", "Which?"))
		await(t, task, "the question", func(snap Snapshot) bool { return len(snap.Requests) == 1 })
		time.Sleep(time.Second)

		// On the next connection the list is late with the child.
		row := s.rows["child"]
		s.hook("list", func(_ context.Context, n int) error {
			s.remove("child")
			if n > 4 {
				s.add("child", "root")
				s.mu.Lock()
				s.rows["child"] = row
				s.mu.Unlock()
			}
			return nil
		})
		s.m.mu.Lock()
		delete(s.m.lineage.owner, "child")
		s.m.mu.Unlock()
		s.reconnect()
		s.send(subscribedFrame("root", 0), subscribedFrame("child", 0), questionFrame("child", "q-1", "Which?"), answeredFrame("child", "q-0"))
		time.Sleep(time.Minute)
		snap := look(t, task)
		if len(snap.Requests) != 1 || snap.Requests[0].Questions == nil {
			t.Errorf("the requests are %+v", snap.Requests)
		}
		if diff := cmp.Diff([]string{"question/requested q-1"}, kinds(t, task)); diff != "" {
			t.Error(diff)
		}
	})
}

// What was held back of a session reaches its task before anything newer does.
func TestHeldBackFramesKeepTheirOrder(t *testing.T) {
	for range 20 {
		s := newSet(t)
		task := s.start()
		s.add("child", "root")
		s.send(subscribedFrame("root", -1))
		s.live("root", "turn/start")
		listing, answer := make(chan struct{}), make(chan struct{})
		s.hook("list", func(context.Context, int) error {
			s.hook("list", nil)
			close(listing)
			<-answer
			return nil
		})
		s.send(subscribedFrame("child", -1))
		s.live("child", "turn/start")
		for i := range 30 {
			s.send(questionFrame("child", fmt.Sprint("q-", i), "Which?"))
		}
		receive(t, listing, "a look for the child")
		s.emptied()
		close(answer)
		for i := range 30 {
			s.send(answeredFrame("child", fmt.Sprint("q-", i)))
			<-time.After(100 * time.Microsecond) // one of them meets the moment in which the session is sorted
		}
		s.emptied()
		fresh(t, task)
		if snap := look(t, task); len(snap.Requests) != 0 {
			t.Fatalf("answered are all, pending %v", asked(snap))
		}
	}
}

// A history that is read ahead of the stream can tell the end of a turn before the stream tells what was asked in it.
func TestRequestOfATurnThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.send(subscribedFrame("root", -1))
		events := s.write("root", "turn/start", "tool/call", "tool/result", "turn/end")
		s.change("root", func(row *dsh.Session) { row.LastSeq = 3 })
		s.send(eventFrame("root", events[0]), eventFrame("root", events[1]))
		fresh(t, task)
		s.send(questionFrame("root", "q-1", "Which?"), approvalFrame("root", "q-2", "a-2"))
		synctest.Wait()
		current(t, task)
		if snap := look(t, task); len(snap.Requests) != 0 || snap.Execution != ledger.TurnCompleted {
			t.Errorf("the task is %s and asks %v", snap.Execution, asked(snap))
		}
		s.send(eventFrame("root", events[2]), eventFrame("root", events[3]))
		s.live("root", "turn/start")
		s.send(questionFrame("root", "q-3", "Which?"))
		await(t, task, "the next question", func(snap Snapshot) bool { return slices.Equal(asked(snap), []string{"q-3"}) })
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
		time.Sleep(time.Second)
		s.reconnect()
		s.add("foreign", "")
		for range int(2 * maxBurst / (fakeQuiet / 2)) {
			s.send(subscribedFrame("foreign", 5))
			time.Sleep(fakeQuiet / 2)
		}
		if snap := look(t, task); len(snap.Requests) != 0 {
			t.Errorf("still pending: %v", asked(snap))
		}
	})
}

// The queue and the jobs are those of the last snapshot, and stale as soon as the connection is lost.
func TestQueueAndJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		if snap := look(t, task); snap.Queue != nil || snap.Jobs != nil {
			t.Errorf("before the first snapshot: %+v %+v", snap.Queue, snap.Jobs)
		}
		s.send(subscribedFrame("root", -1), queueFrame("root", "i-1", "i-2"), queueFrame("root", "i-1", "i-2"), jobsFrame("root", "running"), jobsFrame("root", "running"))
		snap := await(t, task, "both", func(snap Snapshot) bool { return snap.Queue != nil && snap.Jobs != nil })
		if len(snap.Queue.Items) != 2 || snap.Queue.Stale || snap.Jobs[0].Label != "a label" {
			t.Errorf("the queue is %+v, the jobs are %+v", snap.Queue, snap.Jobs)
		}
		synctest.Wait()
		if n := count(t, task, ledger.TypeQueue, ledger.TypeJobs); n != 2 {
			t.Errorf("there are %d records of them", n)
		}
		s.stream().cut()
		await(t, task, "the loss", func(snap Snapshot) bool { return snap.Queue.Stale })
		s.connected()
		if snap := look(t, task); !snap.Queue.Stale {
			t.Error("the queue is not stale any more")
		}
		s.send(queueFrame("root"))
		await(t, task, "the next one", func(snap Snapshot) bool { return !snap.Queue.Stale && len(snap.Queue.Items) == 0 })
	})
}
