package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"dsh-agentlink/bridge"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/internal/operator"
)

// countingHost counts the calls that are made of a host.
type countingHost struct {
	dsh.Host
	lists, others atomic.Int64
}

func (h *countingHost) Sessions(ctx context.Context) ([]dsh.Session, error) {
	h.lists.Add(1)
	return h.Host.Sessions(ctx)
}

func (h *countingHost) History(ctx context.Context, req dsh.HistoryRequest) (dsh.HistoryPage, error) {
	h.others.Add(1)
	return h.Host.History(ctx, req)
}

func (h *countingHost) Models(ctx context.Context, id string) (dsh.Models, error) {
	h.others.Add(1)
	return h.Host.Models(ctx, id)
}

func (h *countingHost) Subagents(ctx context.Context, id string) ([]dsh.Subagent, error) {
	h.others.Add(1)
	return h.Host.Subagents(ctx, id)
}

// rig is a scripted host and a home that a watch looks at.
type rig struct {
	testing.TB
	host  *dshtest.Host
	dir   string
	home  *home.Home
	count *countingHost
	opts  Options
}

func newRig(t testing.TB) *rig {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir()) // where copies go, so that a test can see that none is left
	r := &rig{TB: t, dir: t.TempDir(), host: dshtest.New(dshtest.Options{})}
	if err := r.host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.host.Close)
	var err error
	if r.home, err = home.Open(filepath.Join(r.dir, "bridge")); err != nil {
		t.Fatal(err)
	}
	u, err := dsh.ParseURL(r.host.URL(), false)
	if err != nil {
		t.Fatal(err)
	}
	client := dsh.New(u, dsh.Options{RequestTimeout: 5 * time.Second})
	t.Cleanup(client.CloseIdle)
	r.count = &countingHost{Host: client}
	r.opts = Options{Host: r.count, HostURL: r.host.URL(), Home: r.home, Now: time.Now,
		Operator: operator.New(operator.Options{Home: r.home, Host: r.count, HostURL: r.host.URL()})}
	t.Cleanup(func() {
		if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return r
}

// task delegates through a bridge that lives as long as the call, and returns the ids of task and session.
func (r *rig) task(steps ...labmodel.Step) (taskID, sessionID string) {
	r.Helper()
	b := bridge.New(bridge.Options{Host: r.count.Host, HostURL: r.host.URL(), Home: r.home, LockTimeout: 5 * time.Second, Quiet: 20 * time.Millisecond})
	b.Start()
	defer b.Close()
	s := server.NewMCPServer("test", "test")
	b.Register(s)
	cwd, err := os.MkdirTemp(r.dir, "work-")
	if err != nil {
		r.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"cwd": cwd, "waitSeconds": 20, "prompt": dshtest.Script(steps...)})
	if err != nil {
		r.Fatal(err)
	}
	result, err := s.GetTool("dsh_delegate").Handler(r.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "dsh_delegate", RawArguments: raw}})
	if err != nil {
		r.Fatal(err)
	}
	text := result.Content[0].(mcp.TextContent).Text
	var made struct{ TaskID, SessionID string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || result.IsError {
		r.Fatalf("%s: %v", text, err)
	}
	return made.TaskID, made.SessionID
}

// picture is everything about the home that a watch must leave as it is.
func (r *rig) picture() string {
	r.Helper()
	var b strings.Builder
	err := filepath.WalkDir(r.home.Dir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		var data []byte
		if info.Mode().IsRegular() {
			if data, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		fmt.Fprintf(&b, "%s %v %d %q\n", path, info.Mode(), info.ModTime().UnixNano(), data)
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	return b.String()
}

// quick is a pace at which a test need not wait.
var quick = pace{poll: 20 * time.Millisecond, rest: time.Millisecond, idle: time.Hour}

// viewer is a running watch, somebody's hands at its keys, and their eyes on its screen.
type viewer struct {
	testing.TB
	keys io.WriteCloser
	stop context.CancelFunc
	done chan error

	mu      sync.Mutex
	screen  string
	changed chan struct{}
}

func (r *rig) watch() *viewer {
	r.Helper()
	in, keys := io.Pipe()
	ctx, cancel := context.WithCancel(r.Context())
	v := &viewer{TB: r.TB, keys: keys, stop: cancel, done: make(chan error, 1), changed: make(chan struct{})}
	go func() {
		v.done <- run(ctx, r.opts, quick, tea.WithInput(in), tea.WithOutput(io.Discard), tea.WithWindowSize(120, 24), tea.WithoutSignals(), tea.WithFilter(v.see))
	}()
	r.Cleanup(func() {
		cancel()
		keys.Close()
	})
	return v
}

// see is called before each message, and sees what all before it came to.
func (v *viewer) see(m tea.Model, msg tea.Msg) tea.Msg {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.screen = ansi.Strip(m.View().Content)
	close(v.changed)
	v.changed = make(chan struct{})
	return msg
}

// await waits until the screen matches.
func (v *viewer) await(pattern string) {
	v.Helper()
	want := regexp.MustCompile(pattern)
	patience := time.After(30 * time.Second)
	for {
		v.mu.Lock()
		screen, changed := v.screen, v.changed
		v.mu.Unlock()
		if want.MatchString(screen) {
			return
		}
		select {
		case <-changed:
		case <-patience:
			v.Fatalf("%s did not come:\n%s", pattern, screen)
		}
	}
}

// press types what a terminal would send.
func (v *viewer) press(keys string) {
	v.Helper()
	if _, err := io.WriteString(v.keys, keys); err != nil {
		v.Fatal(err)
	}
}

// ended waits for the end of the watch, which has to be no error.
func (v *viewer) ended() {
	v.Helper()
	select {
	case err := <-v.done:
		if err != nil {
			v.Errorf("it ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		v.Fatal("it does not end")
	}
}
