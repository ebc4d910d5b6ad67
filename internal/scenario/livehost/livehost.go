// Package livehost runs a real DSH host for tests: installed by npm from a committed lock, alone on its port, with a
// home of its own and the scripted model of package labmodel instead of a real one. Nothing leaves the machine while
// it runs.
package livehost

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"dsh-agentlink/internal/labmodel"
)

// startLimit bounds how long the host may take to answer its first call. It needs about two seconds.
const startLimit = 60 * time.Second

// Host is a real host. Make one with [Installation.New].
type Host struct {
	installation *Installation
	home         string // DSH_HOME
	model        *labmodel.Server

	mu   sync.Mutex
	url  string // fixed by the first Start
	run  *process
	said logBuffer
}

// process is one run of the host.
type process struct {
	cmd   *exec.Cmd
	leash io.Closer // the host ends with it
	gone  chan struct{}
}

// New makes a host that keeps its state in the folder home. It is not started yet.
func (i *Installation) New(home string) (*Host, error) {
	model, err := labmodel.Serve(context.Background(), "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Host{installation: i, home: home, model: model}, nil
}

// URL is the host's address. It is known from the first Start on and stays the same.
func (h *Host) URL() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.url
}

// Log is what the host has printed so far.
func (h *Host) Log() string { return h.said.String() }

// leashed runs the host and kills it when standard input ends. The host itself does not care who started it, and must
// not outlive a test that is cut off.
const leashed = `exec 3<&0 </dev/null
"$@" 3<&- & host=$!
exec >/dev/null 2>&1
{ read -r line <&3; kill -KILL $host; } &
wait $host`

// Start starts the host's process and waits until it answers.
func (h *Host) Start(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.run != nil {
		return errors.New("livehost: the host runs already")
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	port := "0"
	if h.url != "" {
		u, err := url.Parse(h.url)
		if err != nil {
			return err
		}
		port = u.Port()
	}
	cmd := exec.Command("sh", "-c", leashed, "livehost", h.installation.node,
		filepath.Join(h.installation.dir, "node_modules", ".bin", "dsh"), "web", "--host", "127.0.0.1", "--port", port, "--no-open")
	cmd.Env = h.environment()
	cmd.Dir = h.home
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	held, leash, err := os.Pipe()
	if err != nil {
		return err
	}
	defer held.Close()
	cmd.Stdin = held
	out, printed := io.Pipe()
	cmd.Stdout = io.MultiWriter(&h.said, printed)
	cmd.Stderr = &h.said
	if err := cmd.Start(); err != nil {
		leash.Close()
		return fmt.Errorf("livehost: %w", err)
	}
	p := &process{cmd: cmd, leash: leash, gone: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // its end is no news: it is killed, or the address never comes
		printed.Close()
		close(p.gone)
	}()
	h.run = p
	address := make(chan string, 1)
	go findAddress(out, address)
	select {
	case found, ok := <-address:
		if !ok {
			h.end()
			return fmt.Errorf("livehost: the host ended before it told its address: %s", h.said.String())
		}
		h.url = found
	case <-ctx.Done():
		h.end()
		return fmt.Errorf("livehost: the host did not tell its address: %w", ctx.Err())
	}
	if err := h.answers(ctx); err != nil {
		h.end()
		return err
	}
	return nil
}

func (h *Host) environment() []string {
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "DSH_") || strings.HasPrefix(name, "DEEPSEEK_") {
			continue // what the person at this machine has set up is none of the tests' business
		}
		env = append(env, v)
	}
	return append(env,
		"PATH="+filepath.Dir(h.installation.node)+string(os.PathListSeparator)+os.Getenv("PATH"),
		"DSH_HOME="+h.home,
		"DEEPSEEK_BASE_URL="+h.model.URL(),
		"DEEPSEEK_API_KEY=sk-not-a-key",
	)
}

// findAddress reads what the host prints, to its end, and sends the address in it.
func findAddress(out io.Reader, address chan<- string) {
	defer close(address)
	lines := bufio.NewScanner(out)
	found := false
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "dsh web: "); ok && !found {
			found = true
			address <- strings.TrimSuffix(strings.TrimSpace(rest), "/")
		}
	}
	_, _ = io.Copy(io.Discard, out) // past a line that was too long
}

// answers waits until the host answers a call.
func (h *Host) answers(ctx context.Context) error {
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		body := strings.NewReader(`{"type":"client-request","rpcId":"ready","method":"host.describe","payload":{}}`)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/api/host.describe", body)
		if err != nil {
			return err
		}
		req.Header.Set("content-type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(resp.Status)
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return fmt.Errorf("livehost: the host at %s does not answer: %w", h.url, err)
		}
	}
}

// Kill ends the host's process at once, as a crash would, and returns when it is gone. Its sessions stay on disk.
func (h *Host) Kill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end()
}

func (h *Host) end() {
	if h.run == nil {
		return
	}
	// The process group is the host's and its shell's own.
	_ = syscall.Kill(-h.run.cmd.Process.Pid, syscall.SIGKILL)
	<-h.run.gone
	_ = h.run.leash.Close()
	h.run = nil
}

// Close ends the host and its model for good.
func (h *Host) Close() {
	h.Kill()
	h.model.Close()
}

// logBuffer collects what a process prints.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
