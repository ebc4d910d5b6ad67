package ledger

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// Several processes at once: each has seen all that happened, and all of it is recorded once.
func TestProcessesAtOnce(t *testing.T) {
	t.Parallel()
	for _, maxBytes := range []int64{1 << 20, 12_000} {
		t.Run(fmt.Sprint(maxBytes), func(t *testing.T) {
			const processes, last = 4, 150
			f := newFolder(t)
			f.maxBytes = maxBytes
			var wg sync.WaitGroup
			stop := make(chan struct{})
			for range 2 {
				reader := f.open()
				wg.Go(func() {
					since := int64(0)
					for {
						records, err := reader.Read(since, 50)
						var cursor *CursorError
						switch {
						case errors.As(err, &cursor) && cursor.Expired():
							since = cursor.Earliest - 1
						case err != nil:
							t.Errorf("read: %v", err)
							return
						}
						for _, r := range records {
							if since++; r.Cursor != since {
								t.Errorf("record %d comes behind %d", r.Cursor, since-1)
								return
							}
						}
						if err := reader.Sync(); err != nil {
							t.Errorf("sync: %v", err)
						}
						_ = reader.View(func(s *State) { _ = s.Execution() })
						select {
						case <-stop:
							return
						default:
						}
					}
				})
			}
			var writers sync.WaitGroup
			for p := range int64(processes) {
				l := f.open()
				for _, session := range []string{root, child} { // two goroutines of one process
					writers.Go(func() {
						for seq := int64(0); seq <= last; {
							to := min(seq+1+(seq+p)%7, last)
							if _, err := l.Append(t.Context(), events(session, seq, to)); err != nil {
								t.Errorf("append: %v", err)
								return
							}
							seq = to + 1
						}
					})
				}
			}
			writers.Wait()
			close(stop)
			wg.Wait()
			l := f.open()
			var m model
			m.records = read(t, l, l.Earliest()-1, 10_000)
			if n := len(m.records); n == 0 || m.records[n-1].Cursor != 2*(last+1) {
				t.Fatalf("%d records, the last is not %d", n, 2*(last+1))
			}
			if maxBytes > 100_000 {
				m.compare(t, l)
			}
		})
	}
}
