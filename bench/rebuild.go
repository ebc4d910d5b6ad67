package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"dsh-agentlink/internal/dshtest"
)

// rebuild measures a bridge that brings a session's history into a ledger that does not exist yet: the first dsh_wait
// for the task on a connection that stands. The answer holds the task's final message, which is read from the history
// as well. A warm root is one that the host holds in memory, a cold one was not touched since it started.
func rebuild(b *bench) error {
	for _, records := range []int{3_000, 30_000} {
		for _, warm := range []bool{true, false} {
			if err := rebuildOne(b, records, warm); err != nil {
				return err
			}
		}
	}
	return nil
}

func rebuildOne(b *bench, records int, warm bool) error {
	r, err := b.rig(dshtest.Options{Cwd: b.dir})
	if err != nil {
		return err
	}
	defer r.close()
	id, err := r.host.AddSession(dshtest.SessionSpec{Cwd: r.cwd, Title: "Long", Turns: records/turnRecords + 1, Attached: warm})
	if err != nil {
		return err
	}
	task, err := r.task(1, id)
	if err != nil {
		return err
	}
	floor := newPlain(r.host.URL())
	defer floor.close()
	rounds := 60_000/records + 3
	var decoding []time.Duration
	ours, fetches, err := alternate(min(rounds, 15), func() (time.Duration, error) {
		took, cursor, err := r.rebuildTask(task)
		if err == nil && cursor < int64(records) {
			err = fmt.Errorf("the ledger ends at %d", cursor)
		}
		return took, err
	}, func() (time.Duration, error) {
		took, err := clock(func() error { _, err := floor.decoded(b.ctx, id); return err })()
		if err != nil {
			return 0, err
		}
		decoding = append(decoding, took)
		return clock(func() error { _, err := floor.history(b.ctx, id); return err })()
	})
	if err != nil {
		return err
	}
	state := "cold"
	if warm {
		state = "warm"
	}
	b.table.times(fmt.Sprintf("rebuild of %d records, root %s", records, state), median(ours), median(fetches), "fetching and parsing (net/http, gjson)", 1.5)
	b.table.add(figure{What: "the same floor with encoding/json", Value: short(median(decoding))})
	return nil
}

// rebuildTask removes the task's ledger and has a new bridge make it again.
func (r *rig) rebuildTask(task string) (time.Duration, int64, error) {
	if err := os.RemoveAll(r.home.LedgerDir(task)); err != nil {
		return 0, 0, err
	}
	c, err := r.launch()
	if err != nil {
		return 0, 0, err
	}
	defer func() { _, _ = c.end() }()
	if _, err := c.tool("dsh_host_status", args{}); err != nil { // the connection stands
		return 0, 0, err
	}
	began := time.Now()
	text, err := c.tool("dsh_wait", args{"taskId": task, "timeoutSec": 0})
	took := time.Since(began)
	var answer struct {
		NextCursor int64 `json:"nextCursor"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &answer)
	}
	return took, answer.NextCursor, err
}
