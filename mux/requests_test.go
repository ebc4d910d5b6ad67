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
