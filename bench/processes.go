package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
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
	// Plain workers do what no ledger can do with less: take the lock, write a record's bytes, give the lock back, sync.
	Plain bool `json:"plain"`
}

// processes measures eight bridges' worth of processes that follow the same task, each with events of its own: every
// event takes the lock, is appended and synced, as before an answer.
func processes(b *bench) error {
	for _, pause := range []int{20, 0} {
		pace := "each as fast as it can"
		if pause > 0 {
			pace = fmt.Sprintf("an event every %d ms each", pause)
		}
		alone, together, err := b.aloneAndTogether(worker{Pause: pause})
		if err != nil {
			return err
		}
		b.table.times("8 processes, one ledger, "+pace+": median", median(together), median(alone), "one process", 0)
		b.table.times("the same, the slowest of 100 (p99)", quantile(together, 0.99), quantile(alone, 0.99), "one process", 8)
		b.table.times("the same, the slowest of all", quantile(together, 1), quantile(alone, 1), "one process", 8)
		if pause > 0 {
			continue
		}
		alone, together, err = b.aloneAndTogether(worker{Plain: true})
		if err != nil {
			return err
		}
		b.table.times("8 plain processes that lock, write, unlock and sync, "+pace+": median", median(together), median(alone), "one plain process", 0)
		b.table.times("the same, the slowest of 100 (p99)", quantile(together, 0.99), quantile(alone, 0.99), "one plain process", 0)
		b.table.times("the same, the slowest of all", quantile(together, 1), quantile(alone, 1), "one plain process", 0)
	}
	return nil
}

// aloneAndTogether returns how long each event of one worker took, and each of eight.
func (b *bench) aloneAndTogether(w worker) (alone, together []time.Duration, err error) {
	if alone, err = b.workers(1, w); err == nil {
		together, err = b.workers(8, w)
	}
	return alone, together, err
}

// workers runs so many processes at a time, three times, and returns how long each event took.
func (b *bench) workers(n int, w worker) ([]time.Duration, error) {
	var all []time.Duration
	for range 3 {
		r, err := b.rig(quietHost)
		if err != nil {
			return nil, err
		}
		samples, err := r.workers(n, w)
		r.close()
		if err != nil {
			return nil, err
		}
		all = append(all, samples...)
	}
	return all, nil
}

func (r *rig) workers(n int, w worker) ([]time.Duration, error) {
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
		w.Home, w.Task, w.Index, w.Events = r.home.Dir(), task, i, 100
		work, err := json.Marshal(w)
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
	one, end, err := w.append()
	if w.Plain {
		one, end, err = w.write()
	}
	if err != nil {
		return err
	}
	defer end()
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

// append returns what records an event in the ledger, and what ends it.
func (w worker) append() (one func() error, end func() error, err error) {
	h, err := home.Open(w.Home)
	if err != nil {
		return nil, nil, err
	}
	l := bridge.OpenLedger(h, w.Task, growing, bridge.LedgerOptions{LockTimeout: 30 * time.Second, Log: slog.Default()})
	g := &grown{ledger: l}
	session := fmt.Sprintf("session-%d", w.Index)
	return func() error {
		if _, err := l.Append(context.Background(), g.entries(session, ledger.OriginSubagent, 1)); err != nil {
			return err
		}
		return l.Sync()
	}, l.Close, nil
}

// write is append for a plain worker. It waits for the lock in the kernel, which knows who waits.
func (w worker) write() (one func() error, end func() error, err error) {
	f, err := os.OpenFile(filepath.Join(w.Home, "plain"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	record := make([]byte, 200)
	return func() error {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return err
		}
		_, err := f.Write(record)
		return errors.Join(err, syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Sync())
	}, f.Close, nil
}
