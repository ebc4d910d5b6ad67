package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/tasks"
)

// bench is one run.
type bench struct {
	ctx    context.Context
	dir    string // everything on disk is below it, and goes with it
	bridge string // the bridge's binary
	bare   string // the bare server's
	table  table

	resting *resting
}

// prepare builds the binaries.
func prepare(ctx context.Context, bridge string) (*bench, error) {
	dir, err := os.MkdirTemp("", "agentlink-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{ctx: ctx, dir: dir, bridge: bridge, bare: filepath.Join(dir, "bare")}
	builds := map[string]string{"dsh-agentlink/bench/internal/bare": b.bare}
	if bridge == "" {
		b.bridge = filepath.Join(dir, "dsh-agentlink")
		builds["dsh-agentlink"] = b.bridge
	}
	for pkg, binary := range builds {
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, pkg).CombinedOutput(); err != nil {
			b.clean()
			return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
	}
	return b, nil
}

func (b *bench) clean() {
	if b.resting != nil {
		b.resting.close()
	}
	if err := os.RemoveAll(b.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// rig is a host, a home, and what is needed to start bridges on both.
type rig struct {
	b    *bench
	host *dshtest.Host
	home *home.Home
	cwd  string // a directory that exists, for delegations
}

var rigs atomic.Int64

// rig starts a host and makes an empty home. The caller closes the rig.
func (b *bench) rig(opts dshtest.Options) (*rig, error) {
	dir := filepath.Join(b.dir, fmt.Sprintf("rig-%d", rigs.Add(1)))
	cwd := filepath.Join(dir, "work")
	if err := os.MkdirAll(cwd, 0o700); err != nil {
		return nil, err
	}
	h, err := home.Open(filepath.Join(dir, "home"))
	if err != nil {
		return nil, err
	}
	host := dshtest.New(opts)
	if err := host.Start(); err != nil {
		return nil, err
	}
	return &rig{b: b, host: host, home: h, cwd: cwd}, nil
}

func (r *rig) close() { r.host.Close() }

// launch starts a bridge and greets it.
func (r *rig) launch() (*child, error) {
	c, err := spawn(r.b.ctx, r.b.bridge, r.env()...)
	if err != nil {
		return nil, err
	}
	if err := c.greet(); err != nil {
		_, _ = c.end()
		return nil, err
	}
	return c, nil
}

func (r *rig) env() []string {
	return []string{"DSH_HOST_URL=" + r.host.URL(), "DSH_BRIDGE_HOME=" + r.home.Dir()}
}

// taskID is the id of the n-th task of a rig.
func taskID(n int) string { return fmt.Sprintf("dsh_%012x", n) }

// task puts a finished launch of a session into the rig's home, and returns its task id.
func (r *rig) task(n int, sessionID string) (string, error) { return putTask(r.home, n, sessionID) }

// putTask puts a finished launch of a session into a home, as its n-th task, and returns the task id.
func putTask(h *home.Home, n int, sessionID string) (string, error) {
	t := tasks.Task{TaskID: taskID(n), SessionID: sessionID, CreatedAt: time.Now(), Stage: tasks.Prompted, PromptSent: tasks.SentYes}
	data, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	return t.TaskID, writePrivate(h.TaskFile(t.TaskID), data)
}

// writePrivate writes a file of the home without waiting for the disk, as a thousand of them would.
func writePrivate(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
