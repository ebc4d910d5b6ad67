package mux

import (
	"testing"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/ledger"
)

// BenchmarkScrub is what an event costs on its way from the history to the ledger: one turn of a real host's form, chunks
// left out.
func BenchmarkScrub(b *testing.B) {
	host := dshtest.New(dshtest.Options{})
	root, err := host.AddSession(dshtest.SessionSpec{Turns: 1})
	if err != nil {
		b.Fatal(err)
	}
	var events []dsh.Event
	for _, e := range host.Events(root) {
		if e.Type != dsh.EventChunk {
			events = append(events, dsh.Event{Type: e.Type, Seq: e.Seq, Time: e.Time, Data: e.Data})
		}
	}
	s := source{id: root, origin: ledger.OriginRoot}
	b.ReportAllocs()
	for b.Loop() {
		for _, ev := range events {
			scrub(ev, 0, s)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(events)), "ns/event")
}
