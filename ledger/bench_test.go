package ledger

import (
	"fmt"
	"testing"
)

// filled returns a ledger with so many records, and the seq of the next event.
func filled(b *testing.B, records int64, maxBytes int64) (*folder, *Ledger, int64) {
	b.Helper()
	f := newFolder(b)
	f.maxBytes = maxBytes
	l := f.open()
	for seq := int64(0); seq < records; seq += 1000 {
		appendAll(b, l, events(root, seq, min(seq+1000, records)-1)...)
	}
	return f, l, records
}

// The work for an event must not grow with the ledger: neither with the size of its file, nor with what was compacted
// away.
func BenchmarkAppend(b *testing.B) {
	const never = 1 << 40
	for _, bench := range []struct {
		name     string
		records  int64
		maxBytes int64
	}{
		{"1k", 1_000, never},
		{"100k", 100_000, never},
		{"100k-compacting", 100_000, DefaultMaxBytes},
	} {
		for _, batch := range []int64{1, 100} {
			b.Run(fmt.Sprintf("%s/batch=%d", bench.name, batch), func(b *testing.B) {
				_, l, seq := filled(b, bench.records, bench.maxBytes)
				b.ReportAllocs()
				for b.Loop() {
					entries := events(root, seq, seq+batch-1)
					if _, err := l.Append(b.Context(), entries); err != nil {
						b.Fatal(err)
					}
					seq += batch
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch), "ns/event")
			})
		}
	}
}

// A new process reads a ledger and folds it.
func BenchmarkOpen(b *testing.B) {
	const records = 10_000
	f, _, _ := filled(b, records, 1<<40)
	b.SetBytes(int64(len(f.content()[EventsFile])))
	b.ReportAllocs()
	for b.Loop() {
		l := f.open()
		if err := l.Refresh(); err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
}

// Another process takes over what was appended.
func BenchmarkRefresh(b *testing.B) {
	f, writer, seq := filled(b, 10_000, DefaultMaxBytes)
	reader := f.open()
	if err := reader.Refresh(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		appendAll(b, writer, events(root, seq, seq)...)
		seq++
		if err := reader.Refresh(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	_, l, seq := filled(b, 10_000, 1<<40)
	for _, limit := range []int{1, 512} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if records, err := l.Read(seq/2, limit); err != nil || len(records) != limit {
					b.Fatalf("%d records, %v", len(records), err)
				}
			}
		})
	}
}
