package mux

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
)

// blocked is a disk that keeps whoever comes until it is let go.
type blocked struct{ come, goOn chan struct{} }

func newBlocked() *blocked { return &blocked{make(chan struct{}, 1), make(chan struct{})} }

func (b *blocked) wait(ctx context.Context) error {
	select {
	case b.come <- struct{}{}:
	default:
	}
	select {
	case <-b.goOn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// emptied waits until the reader has taken every frame from the stream.
func (s *set) emptied() {
	s.tb.Helper()
	stream, ctx := s.stream(), within(s.tb)
	for {
		stream.mu.Lock()
		left := len(stream.queue)
		stream.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			s.tb.Fatalf("the reader leaves %d frames", left)
		}
	}
}

// A disk that does not answer keeps the worker. The reader reads on, what waits in memory stays bounded, and in the end
// nothing is missing.
func TestSlowDisk(t *testing.T) {
	rounds := map[string]int{"a lock that is held": 1000, "a write that takes long": 200}
	for name, set := range map[string]func(f *diskFault, wait func(context.Context) error){
		"a lock that is held":     func(f *diskFault, wait func(context.Context) error) { f.set(wait, nil) },
		"a write that takes long": func(f *diskFault, wait func(context.Context) error) { f.set(nil, wait) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSet(t)
			s.add("child", "root")
			task := s.start()
			s.send(subscribedFrame("root", -1), subscribedFrame("child", -1), questionFrame("root", "q-1", "Which?"), approvalFrame("root", "q-2", "a-1"))
			s.live("root", "turn/start")
			current(t, task)
			disk := newBlocked()
			set(s.disk, disk.wait)
			s.live("root", "step/start")
			receive(t, disk.come, "the worker to come to the disk")
			// A snapshot may have to wait for the disk; the reader must not wait for the snapshot.
			looked := make(chan Snapshot, 1)
			go func() {
				snap, _ := task.Snapshot()
				looked <- snap
			}()

			for i := range rounds[name] { // of 50 frames
				s.live("root", "tool/call", "tool/result", "step/end", "step/start")
				s.live("child", "turn/start", "turn/end")
				s.send(queueFrame("root", fmt.Sprint("i-", i)), jobsFrame("root", "running"))
				for range 21 {
					s.live("root", dsh.EventChunk)
					s.send(eventFrame("stranger", dsh.Event{Type: "turn/start", Seq: int64(i)}))
				}
			}
			s.send(answeredFrame("root", "q-1"), questionFrame("root", "q-3", "And?"), queueFrame("root", "last"))
			s.emptied()
			task.mu.Lock()
			waiting := len(task.inbox)
			task.mu.Unlock()
			if waiting > maxInbox {
				t.Errorf("%d frames wait in memory", waiting)
			}
			close(disk.goOn)
			receive(t, looked, "the snapshot")
			snap := fresh(t, task)
			s.checkEvents(task, "child")
			if len(snap.Requests) != 2 || snap.Requests[0].ID != "q-2" || snap.Requests[1].ID != "q-3" {
				t.Errorf("the requests are %+v", snap.Requests)
			}
			if snap.Queue == nil || len(snap.Queue.Items) != 1 || snap.Queue.Items[0].ID != "last" {
				t.Errorf("the queue is %+v", snap.Queue)
			}
		})
	}
}

// Events that were dropped while a history is being read are not taken for read, whichever way the two race.
func TestInboxOverflowsDuringAReading(t *testing.T) {
	s := newSet(t)
	s.write("root", aTurn...)
	reading, goOn := make(chan struct{}), make(chan struct{})
	s.hook("history answer", func(_ context.Context, n int) error {
		if n == 1 {
			close(reading)
			<-goOn
		}
		return nil
	})
	task := s.start()
	s.send(subscribedFrame("root", 9))
	task.wake()
	receive(t, reading, "the reading")
	for range maxInbox + 10 {
		s.live("root", "step/start")
	}
	s.emptied()
	close(goOn)
	s.live("root", "step/end") // continues the stream, and neither what was read nor what was kept
	await(t, task, "the last event", func(Snapshot) bool {
		list := records(t, task)
		return len(list) > 0 && list[len(list)-1].SourceSeq != nil && *list[len(list)-1].SourceSeq == s.last("root")
	})
	s.checkEvents(task)
}

// What sessions of others send is dropped undecoded, and costs a few lists at the most.
func TestForeignSessions(t *testing.T) {
	s := newSet(t)
	s.add("fork", "root") // a person's, of the task's session
	s.change("fork", func(row *dsh.Session) { row.Origin = "" })
	for i := range 50 {
		s.add(fmt.Sprint("foreign-", i), "")
	}
	task := s.start()
	before := s.count("list")
	nonsense := []byte("{")
	for i := range 1000 {
		for _, id := range []string{fmt.Sprint("foreign-", i%50), "fork", "in-no-list"} {
			s.send(dsh.Frame{Kind: dsh.FrameEvent, SessionID: id, EventType: "turn/start", Seq: int64(i), Payload: nonsense},
				dsh.Frame{Kind: dsh.FrameEvent, SessionID: id, EventType: dsh.EventChunk, Seq: int64(i)},
				dsh.Frame{Kind: dsh.FrameProjection, SessionID: id},
				dsh.Frame{Kind: dsh.FrameQueue, SessionID: id, Payload: nonsense},
				dsh.Frame{Kind: dsh.FrameJobs, SessionID: id, Payload: nonsense},
				dsh.Frame{Kind: dsh.FrameQuestionRequested, RPCID: fmt.Sprint("q-", i), SessionID: id, Payload: nonsense},
				dsh.Frame{Kind: "a/new-kind", SessionID: id, Payload: nonsense})
		}
	}
	s.emptied()
	for s.known("in-no-list") {
		<-time.After(time.Millisecond) // until the bridge gives it up
	}
	if n := s.count("list") - before; n > maxStrangerTries+2 {
		t.Errorf("they cost %d lists", n)
	}
	if task.Watched() || s.disk.touches() > 0 {
		t.Error("a task was woken")
	}
	if text := s.log.String(); s.log.lines("no sense") > 0 {
		t.Errorf("payloads were decoded:\n%s", text)
	}
	s.m.mu.Lock()
	held := s.m.lineage.foreign.count
	s.m.mu.Unlock()
	if held > maxForeign {
		t.Errorf("%d requests of others are kept", held)
	}
}

// However often sessions of others come up, the list is not read more than ten times a second for them.
func TestSessionsThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.start()
		before := s.count("list")
		const seconds = 3
		for i := range seconds * 1000 {
			id := fmt.Sprint("foreign-", i)
			s.add(id, "")
			s.send(subscribedFrame(id, -1))
			time.Sleep(time.Millisecond)
		}
		if n, most := s.count("list")-before, int(seconds*time.Second/classifyPause)+2; n > most {
			t.Errorf("the list was read %d times", n)
		}
	})
}

// known reports whether a session is still being looked for.
func (s *set) known(id string) bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.m.lineage.unknown[id] != nil
}

// The same over a real connection, while the task is followed.
func TestForeignNoise(t *testing.T) {
	r := newRig(t, dshtest.Options{})
	root := r.session()
	m := r.start()
	task := m.Track(taskID, root)
	before := r.host.Calls("session.list")
	r.host.ForeignNoise(within(t), 1000)
	prompt(t, task, manySteps(10)...)
	r.check(task)
	if n := r.host.Calls("session.list") - before; n > maxStrangerTries+5 {
		t.Errorf("the noise cost %d lists", n)
	}
}
