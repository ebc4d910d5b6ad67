package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"dsh-agentlink/bench/internal/plain"
	"dsh-agentlink/internal/dshtest"
)

// rebuild measures a bridge that brings a session's history into a ledger that does not exist yet: the first dsh_wait
// for the task on a connection that stands. The answer holds the task's final message, which is read from the history
// as well. A warm root is one that the host holds in memory, a cold one was not touched since it started. The floor is
// a process as new as the bridge, which has made a call before.
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
	rounds := 21
	if records > 10_000 {
		rounds = 9
	}
	var decoding []time.Duration
	ours, fetches, err := alternate(rounds, func() (time.Duration, error) {
		took, cursor, err := r.rebuildTask(task)
		if err == nil && cursor < int64(records) {
			err = fmt.Errorf("the ledger ends at %d", cursor)
		}
		return took, err
	}, func() (time.Duration, error) {
		took, err := r.fetched(id, "encoding/json")
		if err != nil {
			return 0, err
		}
		decoding = append(decoding, took)
		return r.fetched(id, "gjson")
	})
	if err != nil {
		return err
	}
	state := "cold"
	if warm {
		state = "warm"
	}
	what := fmt.Sprintf("rebuild of %d records, root %s", records, state)
	b.table.times(what, median(ours), median(fetches), "fetching and parsing, net/http and gjson", 1.5)
	b.table.times("the same", median(ours), median(decoding), "with encoding/json", 0)
	return nil
}

// readerVariable makes this program a plain reader of one session's history; howVariable says by what it parses.
const (
	readerVariable = "AGENTLINK_BENCH_READER"
	howVariable    = "AGENTLINK_BENCH_HOW"
)

// fetched is how long a new process takes to fetch and parse a session's history.
func (r *rig) fetched(session, how string) (time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(r.b.ctx, self)
	cmd.Env = append(os.Environ(), readerVariable+"="+session, "DSH_HOST_URL="+r.host.URL(), howVariable+"="+how)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(strings.TrimSpace(string(out)))
}

// readWorker is the life of such a process.
func readWorker(session string) error {
	host := plain.New(os.Getenv("DSH_HOST_URL"))
	ctx := context.Background()
	list, err := plain.NewCall("session.list", struct{}{})
	if err != nil {
		return err
	}
	if _, err := host.Post(ctx, list); err != nil { // the connection stands
		return err
	}
	read := func() error { _, err := parsed(ctx, host, session); return err }
	if os.Getenv(howVariable) == "encoding/json" {
		read = func() error { _, err := decoded(ctx, host, session); return err }
	}
	took, err := clock(read)()
	if err == nil {
		fmt.Println(took)
	}
	return err
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
