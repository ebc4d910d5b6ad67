package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"dsh-agentlink/bridge"
	"dsh-agentlink/ledger"
)

// appending measures appends to ledgers of different length, as the bridge opens them: with its lock between processes,
// and compacted past the usual size. The floor writes the same number of bytes to the end of a file.
func appending(b *bench) error {
	r, err := b.rig(quietHost)
	if err != nil {
		return err
	}
	defer r.close()
	for n, size := range []int64{1_000, 100_000, 1_000_000} {
		g, err := r.grown(n, size)
		if err != nil {
			return err
		}
		for _, m := range []struct {
			batch  int
			sync   bool
			rounds int
			bar    float64
		}{{1, false, 400, 0}, {100, false, 200, 3}, {1, true, 60, 0}, {100, true, 60, 3}} {
			ours, writes, err := alternate(m.rounds, g.append(m.batch, m.sync), g.write(m.batch, m.sync))
			if err != nil {
				return err
			}
			what, floor := fmt.Sprintf("append of %d to %d records", m.batch, size), "one write"
			if m.sync {
				what, floor = what+", synced", "one write and fsync"
			}
			b.table.times(what, median(ours), median(writes), floor, m.bar)
		}
		if err := g.close(); err != nil {
			return err
		}
	}
	return nil
}

// grown is a ledger of some length, and a plain file beside it.
type grown struct {
	r       *rig
	ledger  *ledger.Ledger
	next    int64 // the next seq
	plain   *os.File
	written int64
	record  int64 // bytes of one record
}

const growing = "session-growing"

func (r *rig) grown(n int, size int64) (*grown, error) {
	task := taskID(n)
	if err := os.MkdirAll(r.home.LedgerDir(task), 0o700); err != nil {
		return nil, err
	}
	g := &grown{r: r, ledger: bridge.OpenLedger(r.home, task, growing, bridge.LedgerOptions{LockTimeout: time.Minute, Log: slog.Default()})}
	for g.next < size {
		if _, err := g.ledger.Append(r.b.ctx, g.entries(growing, ledger.OriginRoot, int(min(10_000, size-g.next)))); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(r.home.LedgerDir(task), ledger.EventsFile)
	before, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if _, err := g.ledger.Append(r.b.ctx, g.entries(growing, ledger.OriginRoot, 1)); err != nil {
		return nil, err
	}
	after, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	g.record = max(after.Size()-before.Size(), 100)
	g.plain, err = os.OpenFile(filepath.Join(r.b.dir, task+".plain"), os.O_CREATE|os.O_RDWR, 0o600)
	return g, err
}

func (g *grown) close() error {
	if err := g.plain.Close(); err != nil {
		return err
	}
	return g.ledger.Close()
}

// entries are the next events of a session, such as a tool call leaves.
func (g *grown) entries(session, origin string, n int) []ledger.Entry {
	entries := make([]ledger.Entry, n)
	for i := range entries {
		entries[i] = ledger.Entry{From: g.next, Record: ledger.Record{SourceSessionID: session, SourceSeq: new(g.next), Origin: origin,
			Type: ledger.TypeEvent, Coordination: ledger.Coordination{Event: "tool/call", Time: 1_796_059_200_000 + g.next, Turn: 1, Step: int(g.next)}}}
		g.next++
	}
	return entries
}

func (g *grown) append(batch int, sync bool) timed {
	return func() (time.Duration, error) {
		entries := g.entries(growing, ledger.OriginRoot, batch)
		return clock(func() error {
			done, err := g.ledger.Append(g.r.b.ctx, entries)
			if err == nil && done.Added != batch {
				err = fmt.Errorf("%d of %d were added", done.Added, batch)
			}
			if err == nil && sync {
				err = g.ledger.Sync()
			}
			return err
		})()
	}
}

func (g *grown) write(batch int, sync bool) timed {
	data := make([]byte, int(g.record)*batch)
	return func() (time.Duration, error) {
		return clock(func() error {
			_, err := g.plain.WriteAt(data, g.written)
			g.written += int64(len(data))
			if err == nil && sync {
				err = g.plain.Sync()
			}
			return err
		})()
	}
}
