package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// bridge is one process of the binary, with a client on its standard streams.
type bridge struct {
	t      *testing.T
	cmd    *exec.Cmd
	client *client.Client
	stdin  io.Closer
	hello  *mcp.InitializeResult
	sent   *recording // what the client wrote
	stdout *recording // all of it, beside what the client read
	stderr *recording
	gone   chan struct{} // closed when the process has ended
	killed bool          // by the scenario, so that its exit code is no matter
}

// recording keeps what is written to it.
type recording struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (r *recording) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.Write(p)
}

func (r *recording) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.data.String()
}

// tee hands the process's output to the client, which reads to its end, and keeps it.
type tee struct {
	copy   *recording
	client *io.PipeWriter
}

func (t tee) Write(p []byte) (int, error) {
	_, _ = t.copy.Write(p) // a buffer takes everything
	return t.client.Write(p)
}

// launch starts the binary and shakes hands.
func launch(t *testing.T, cmd *exec.Cmd, options ...client.ClientOption) *bridge {
	t.Helper()
	b := &bridge{t: t, cmd: cmd, sent: &recording{}, stdout: &recording{}, stderr: &recording{}, gone: make(chan struct{})}
	// A group of its own: what the terminal sends to the tests is not for it.
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := b.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.stdin = stdin
	out, printed := io.Pipe()
	b.cmd.Stdout = tee{b.stdout, printed}
	b.cmd.Stderr = b.stderr
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(b.gone)
		_ = b.cmd.Wait() // the process's state is looked at afterwards
		_ = printed.Close()
	}()
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		<-b.gone
		_ = stdin.Close()
	})
	if len(options) == 0 {
		// The handshake of today's callers, instead of the library's probe for a newer one.
		options = append(options, client.WithProtocolVersion(mcp.LATEST_LEGACY_PROTOCOL_VERSION))
	}
	b.client = client.NewClient(transport.NewIO(out, kept{io.MultiWriter(stdin, b.sent), stdin}, nopCloser{}), options...)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := b.client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.hello, err = b.client.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ClientInfo: mcp.Implementation{Name: "scenario", Version: "1"},
	}})
	if err != nil {
		t.Fatalf("initialize: %v\n%s", err, b.stderr)
	}
	return b
}

// kept is a stream of which a copy is kept.
type kept struct {
	io.Writer
	io.Closer
}

// nopCloser stands for the standard error that the client does not read.
type nopCloser struct{}

func (nopCloser) Read([]byte) (int, error) { return 0, io.EOF }
func (nopCloser) Close() error             { return nil }

// stop ends the process by closing its standard input, as a caller does.
func (b *bridge) stop() {
	b.t.Helper()
	if b.isGone() {
		return
	}
	if err := b.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		b.t.Errorf("close the standard input: %v", err)
	}
	b.exits()
}

// signal sends the process a signal.
func (b *bridge) signal(s os.Signal) {
	b.t.Helper()
	if err := b.cmd.Process.Signal(s); err != nil {
		b.t.Fatal(err)
	}
}

// kill ends the process as a crash would.
func (b *bridge) kill() {
	b.t.Helper()
	b.killed = true
	b.signal(syscall.SIGKILL)
	<-b.gone
}

func (b *bridge) isGone() bool {
	select {
	case <-b.gone:
		return true
	default:
		return false
	}
}

// shutdownLimit is how long a process that was told to end may take. It promises two seconds; the rest is for a busy
// machine.
const shutdownLimit = 10 * time.Second

// exits waits for the end of a process that was told to end, which has to be a good one.
func (b *bridge) exits() {
	b.t.Helper()
	timer := time.NewTimer(shutdownLimit)
	defer timer.Stop()
	select {
	case <-b.gone:
	case <-timer.C:
		b.t.Fatalf("the process is still there %v after it was told to end\n%s", shutdownLimit, b.stderr)
	}
	if code := b.cmd.ProcessState.ExitCode(); code != 0 {
		b.t.Errorf("the process ended with %v, want exit code 0\n%s", b.cmd.ProcessState, b.stderr)
	}
}

// checkOutput looks at all that the process printed: whole lines of JSON-RPC on stdout, and no fault in the log.
func (b *bridge) checkOutput() {
	b.t.Helper()
	text := b.stdout.String()
	lines := strings.SplitAfter(text, "\n")
	last := lines[len(lines)-1]
	if last != "" && !b.killed {
		b.t.Errorf("stdout ends inside a line: %.200q", last)
	}
	for _, line := range lines[:len(lines)-1] {
		var message struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Method  string          `json:"method"`
		}
		if err := json.Unmarshal([]byte(line), &message); err != nil || message.Version != "2.0" || len(message.ID) == 0 && message.Method == "" {
			b.t.Errorf("stdout has a line that is no JSON-RPC message: %.200q", line)
		}
	}
	for line := range strings.Lines(b.stderr.String()) {
		if strings.Contains(line, "panic") || strings.Contains(line, "DATA RACE") || strings.HasPrefix(line, "goroutine ") {
			b.t.Errorf("the process reports a fault: %s", line)
		}
	}
}
