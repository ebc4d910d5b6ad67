package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.uber.org/goleak"

	"dsh-agentlink/bridge"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/labmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a scripted host, a home, and an operator that looks at both.
type rig struct {
	t    *testing.T
	host *dshtest.Host
	dir  string
	home *home.Home
	dsh  *dsh.Client
	*Operator
}

func newRig(t *testing.T) *rig {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir()) // where copies go, so that a test can see that none is left
	r := &rig{t: t, dir: t.TempDir(), host: dshtest.New(dshtest.Options{})}
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
	r.dsh = dsh.New(u, dsh.Options{RequestTimeout: 5 * time.Second})
	t.Cleanup(r.dsh.CloseIdle)
	r.Operator = New(Options{Home: r.home, Host: r.dsh, HostURL: r.host.URL()})
	t.Cleanup(func() {
		if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return r
}

// tool calls a tool of a bridge that lives as long as the call.
func (r *rig) tool(name string, args any, out any) {
	r.t.Helper()
	b := bridge.New(bridge.Options{Host: r.dsh, HostURL: r.host.URL(), Home: r.home, LockTimeout: 5 * time.Second, LedgerMaxBytes: 8 << 10, Quiet: 20 * time.Millisecond})
	b.Start()
	defer b.Close()
	s := server.NewMCPServer("test", "test")
	b.Register(s)
	raw, err := json.Marshal(args)
	if err != nil {
		r.t.Fatal(err)
	}
	result, err := s.GetTool(name).Handler(r.t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: name, RawArguments: raw}})
	if err != nil {
		r.t.Fatal(err)
	}
	text := result.Content[0].(mcp.TextContent).Text
	if result.IsError {
		r.t.Fatalf("%s: %s", name, text)
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		r.t.Fatal(err)
	}
}

type made struct{ TaskID, SessionID string }

// task delegates, and waits for up to seconds for the end of the turn.
func (r *rig) task(seconds int, steps ...labmodel.Step) (m made) {
	r.t.Helper()
	cwd, err := os.MkdirTemp(r.dir, "work-")
	if err != nil {
		r.t.Fatal(err)
	}
	r.tool("dsh_delegate", map[string]any{"cwd": cwd, "waitSeconds": seconds, "prompt": dshtest.Script(steps...)}, &m)
	return m
}

// unheard makes a task whose turn ended when no bridge ran.
func (r *rig) unheard() made {
	r.t.Helper()
	r.host.HoldWork(1)
	m := r.task(0, labmodel.Step{Say: "done", DelayMs: 1})
	r.host.ReleaseWork()
	if err := r.host.WaitIdle(bounded(r.t), m.SessionID); err != nil {
		r.t.Fatal(err)
	}
	return m
}

// picture is everything about the home that a look must leave as it is.
func (r *rig) picture() string {
	r.t.Helper()
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
		r.t.Fatal(err)
	}
	return b.String()
}

// unchanged fails unless f leaves the home as it is.
func (r *rig) unchanged(f func()) {
	r.t.Helper()
	before := r.picture()
	f()
	if diff := cmp.Diff(before, r.picture()); diff != "" {
		r.t.Error(diff)
	}
}

// words are the types of a tail's events, with who said it where somebody did.
func words(events []Event) []string {
	var list []string
	for _, e := range events {
		if strings.HasPrefix(e.From, "plugin") {
			continue
		}
		list = append(list, strings.TrimSpace(e.Type+" "+e.From))
	}
	return list
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
