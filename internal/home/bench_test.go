package home

import (
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkLock is what every batch of a ledger pays for its lock between processes, its owner note included.
func BenchmarkLock(b *testing.B) {
	dir := b.TempDir()
	h, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	l := h.Lock(filepath.Join(dir, "ledgers", "dsh_0123456789ab", "events.lock"))
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Acquire(b.Context(), time.Second); err != nil {
			b.Fatal(err)
		}
		if err := l.Release(); err != nil {
			b.Fatal(err)
		}
	}
}
