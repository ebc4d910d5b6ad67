package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"time"

	"dsh-agentlink/bridge"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/ledger"
)

// workerVariable makes this program append events instead of measuring: it holds a worker as JSON.
const workerVariable = "AGENTLINK_BENCH_WORKER"

var quietHost = dshtest.Options{}

// worker is one of several processes that append to the same ledger.
type worker struct {
	Home   string `json:"home"`
	Task   string `json:"task"`
	Index  int    `json:"index"`
	Events int    `json:"events"`
	// Pause is the time between two events in ms.
	Pause int `json:"pause"`
}

// processes measures eight bridges' worth of processes that follow the same task, each with events of its own: every
// event takes the lock, is appended and synced, as before an answer.
func processes(b *bench) error {
	for _, pause := range []int{20, 0} {
		alone, err := b.workers(1, pause)
		if err != nil {
			return err
		}
		together, err := b.workers(8, pause)
		if err != nil {
			return err
		}
		pace := "each as fast as it can"
		if pause > 0 {
			pace = fmt.Sprintf("an event every %d ms each", pause)
		}
		b.table.times("8 processes, one ledger, "+pace+": median", median(together), median(alone), "one process", 0)
		b.table.times("the same, the slowest of 100 (p99)", quantile(together, 0.99), quantile(alone, 0.99), "one process", 8)
		b.table.times("the same, the slowest of all", quantile(together, 1), quantile(alone, 1), "one process", 8)
	}
	return nil
}

// workers runs so many processes at a time, three times, and returns how long each event took.
func (b *bench) workers(n, pause int) ([]time.Duration, error) {
	var all []time.Duration
	for range 3 {
		r, err := b.rig(quietHost)
		if err != nil {
			return nil, err
		}
		samples, err := r.workers(n, pause)
		r.close()
		if err != nil {
			return nil, err
		}
		all = append(all, samples...)
	}
	return all, nil
}

func (r *rig) workers(n, pause int) ([]time.Duration, error) {
	task := taskID(1)
	if err := os.MkdirAll(r.home.LedgerDir(task), 0o700); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	type running struct {
		cmd *exec.Cmd
		in  io.WriteCloser
		out *bufio.Reader
	}
	var started []running
	defer func() {
		for _, w := range started {
			_ = w.in.Close()
			_ = w.cmd.Process.Kill() // over already, unless something went wrong
			_ = w.cmd.Wait()
		}
	}()
	for i := range n {
		work, err := json.Marshal(worker{Home: r.home.Dir(), Task: task, Index: i, Events: 100, Pause: pause})
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(r.b.ctx, self)
		cmd.Env = append(os.Environ(), workerVariable+"="+string(work))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		started = append(started, running{cmd, in, bufio.NewReader(out)})
	}
	for _, w := range started {
		if _, err := w.out.ReadString('\n'); err != nil { // it is ready
			return nil, err
		}
	}
	for _, w := range started {
		if _, err := io.WriteString(w.in, "go\n"); err != nil {
			return nil, err
		}
	}
	var all []time.Duration
	for _, w := range started {
		var samples []time.Duration
		if err := json.NewDecoder(w.out).Decode(&samples); err != nil {
			return nil, err
		}
		all = append(all, samples...)
	}
	return all, nil
}

// appendWorker is the life of one worker: it opens the ledger, says that it is ready, waits for the word, appends, and
// prints how long each event took.
func appendWorker(work string) error {
	var w worker
	if err := json.Unmarshal([]byte(work), &w); err != nil {
		return err
	}
	h, err := home.Open(w.Home)
	if err != nil {
		return err
	}
	l := bridge.OpenLedger(h, w.Task, growing, bridge.LedgerOptions{LockTimeout: 30 * time.Second, Log: slog.Default()})
	defer l.Close()
	g := &grown{ledger: l}
	session := fmt.Sprintf("session-%d", w.Index)
	one := func() error {
		if _, err := l.Append(context.Background(), g.entries(session, ledger.OriginSubagent, 1)); err != nil {
			return err
		}
		return l.Sync()
	}
	if err := one(); err != nil { // the ledger exists
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	// Bridges do not keep step with each other.
	pause := time.Duration(w.Pause) * time.Millisecond
	time.Sleep(pause * time.Duration(w.Index) / 8)
	var samples []time.Duration
	for range w.Events {
		took, err := clock(one)()
		if err != nil {
			return err
		}
		samples = append(samples, took)
		time.Sleep(pause)
	}
	return json.NewEncoder(os.Stdout).Encode(samples)
}
