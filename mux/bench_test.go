package mux

import (
	"fmt"
	"testing"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/ledger"
)

// BenchmarkFrameToChanged is the way of one event from the stream to somebody who waits, ledger included.
func BenchmarkFrameToChanged(b *testing.B) {
	s := newSet(b)
	task := s.start()
	s.send(subscribedFrame("root", -1))
	s.live("root", "turn/start")
	current(b, task)
	defer task.Hurry()() // nobody waits for others to come
	stream := s.stream()
	b.ReportAllocs()
	for seq := int64(1); b.Loop(); seq++ {
		changed := task.Changed()
		stream.send(eventFrame("root", dsh.Event{Type: "tool/call", Seq: seq, Time: longAgo, Data: []byte(`{"turn":1,"step":1}`)}))
		<-changed
	}
}

// BenchmarkForeignFrames is what 10,000 frames of other people's sessions cost: of every three, two chunks or
// projections and one event.
func BenchmarkForeignFrames(b *testing.B) {
	s := newSet(b)
	s.add("foreign", "")
	s.start()
	frames := make([]dsh.Frame, 10_000)
	for i := range frames {
		switch i % 3 {
		case 0:
			frames[i] = eventFrame("foreign", dsh.Event{Type: "step/end", Seq: int64(i), Data: []byte("{}")})
		case 1:
			frames[i] = eventFrame("foreign", dsh.Event{Type: dsh.EventChunk, Seq: int64(i)})
		case 2:
			frames[i] = dsh.Frame{Kind: dsh.FrameProjection, SessionID: "foreign"}
		}
	}
	burst := newBurst()
	b.ReportAllocs()
	for b.Loop() {
		stream := &fakeStream{wake: make(chan struct{}, 1), broken: make(chan struct{}), queue: frames, last: true}
		if err := s.m.read(b.Context(), stream, burst); err == nil {
			b.Fatal("the stream has no end")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(frames)), "ns/frame")
}

// BenchmarkReconcile brings a history of 3,000 events into an empty ledger, and tells how long that takes in multiples
// of fetching the same history.
func BenchmarkReconcile(b *testing.B) {
	r := newRig(b, dshtest.Options{})
	root, err := r.host.AddSession(dshtest.SessionSpec{Turns: 3000 / 25})
	if err != nil {
		b.Fatal(err)
	}
	client := r.client()
	var fetching, reading time.Duration
	for n := 0; b.Loop(); n++ {
		began := time.Now()
		page, err := client.History(b.Context(), dsh.HistoryRequest{SessionID: root, MaxMessages: wholeHistory})
		if err != nil || len(page.Events) < 3000 {
			b.Fatalf("%d events, %v", len(page.Events), err)
		}
		fetching += time.Since(began)

		m := r.start()
		task := m.Track(fmt.Sprintf("dsh_%012x", n), root)
		began = time.Now()
		current(b, task)
		reading += time.Since(began)
		if err := task.Ledger().View(func(state *ledger.State) {
			if state.Watermark(root) != page.Events[len(page.Events)-1].Seq {
				b.Fatalf("the ledger is at %d", state.Watermark(root))
			}
		}); err != nil {
			b.Fatal(err)
		}
		m.Close()
	}
	b.ReportMetric(float64(reading)/float64(fetching), "x-fetching")
	b.ReportMetric(float64(fetching.Microseconds())/float64(b.N), "µs-fetching")
}

// BenchmarkConnect is the first connection with 1,000 tasks in which nothing goes on, up to the moment when their states
// are known: what the bridge makes of a list of sessions.
func BenchmarkConnect(b *testing.B) {
	s := newSet(b)
	for n := range 1000 {
		s.add(fmt.Sprintf("session-%04d", n), "")
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		m := s.another()
		for n := range 1000 {
			m.Track(fmt.Sprintf("dsh_%012x", n), fmt.Sprintf("session-%04d", n))
		}
		b.StartTimer()
		m.Start()
		if err := m.Connected(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		m.Close()
		b.StartTimer()
	}
}
