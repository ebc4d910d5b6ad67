package readme

import (
	"bytes"
	"context"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/cli"
	"dsh-agentlink/internal/dshtest"
)

// asProgram makes the test binary the program itself.
const asProgram = "README_TEST_AS_PROGRAM"

// noRaceDelay makes a program that is built with the race detector end at once.
const noRaceDelay = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// trouble is a newcomer's machine in which something is wrong: a home, a directory to work in, and a host.
type trouble struct {
	t    *testing.T
	dir  string
	host *dshtest.Host
	env  map[string]string
}

func newTrouble(t *testing.T) *trouble {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	x := &trouble{t: t, dir: dir, env: map[string]string{asProgram: "1", "GORACE": noRaceDelay, "DSH_LOG": "off", "HOME": dir, "PATH": os.Getenv("PATH"), "DSH_BRIDGE_HOME": dir + "/.dsh/agentlink"}}
	if err := os.Mkdir(x.in("project"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(x.in("notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x.host = x.newHost()
	x.env["DSH_HOST_URL"] = x.host.URL()
	return x
}

func (x *trouble) newHost() *dshtest.Host {
	host := dshtest.New(dshtest.Options{Cwd: x.dir})
	if err := host.Start(); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(host.Close)
	return host
}

func (x *trouble) in(name string) string { return filepath.Join(x.dir, name) }

func (x *trouble) environ() []string {
	var env []string
	for name, value := range x.env {
		env = append(env, name+"="+value)
	}
	return env
}

// program is this program, about to be run.
func (x *trouble) program(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		x.t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env, cmd.Dir = x.environ(), x.dir
	return cmd
}

// run runs a command and returns what it prints, on both streams.
func (x *trouble) run(args ...string) string {
	var out bytes.Buffer
	cmd := x.program(args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // a failure is what is looked for
	return out.String()
}

// callLimit is when a call that hangs is given up.
const callLimit = 30 * time.Second

// connect starts a bridge and connects to it.
func (x *trouble) connect() *client.Client {
	ctx, cancel := context.WithTimeout(x.t.Context(), callLimit)
	defer cancel()
	stdio := transport.NewStdioWithOptions("dsh-agentlink", nil, nil, transport.WithCommandFunc(
		func(context.Context, string, []string, []string) (*exec.Cmd, error) { return x.program(), nil }))
	c := client.NewClient(stdio)
	if err := c.Start(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	if _, err := c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{ProtocolVersion: "2025-06-18"}}); err != nil {
		c.Close()
		x.t.Fatal(err)
	}
	return c
}

// call starts a bridge, calls one tool and returns the answer: the failure as "code: message" with the hint below it,
// or the named fields.
func (x *trouble) call(tool string, args map[string]any, fields ...string) string {
	c := x.connect()
	defer c.Close()
	ctx, cancel := context.WithTimeout(x.t.Context(), callLimit)
	defer cancel()
	result, err := c.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}})
	if err != nil {
		x.t.Fatal(err)
	}
	answer := gjson.Parse(result.Content[0].(mcp.TextContent).Text)
	if failure := answer.Get("error"); failure.Exists() {
		text := failure.Get("code").String() + ": " + failure.Get("message").String()
		if hint := failure.Get("hint").String(); hint != "" {
			text += "\n  " + hint
		}
		return text
	}
	var lines []string
	for _, field := range fields {
		lines = append(lines, field+": "+answer.Get(field).String())
	}
	return strings.Join(lines, "\n")
}

func (x *trouble) delegate(cwd string, fields ...string) string {
	return x.call("dsh_delegate", map[string]any{"prompt": "Say hello.", "cwd": cwd}, fields...)
}

// finds returns the lines of the doctor about an area that are not fine, with what they tell to do.
func (x *trouble) finds(area string) string {
	var found []string
	inArea, bad := false, false
	for line := range strings.Lines(x.run("doctor")) {
		line = strings.TrimRight(line, "\n")
		if line != "" && line[0] != ' ' {
			inArea = strings.HasPrefix(line, area+" ")
			bad = false
		}
		if level := regexp.MustCompile(`^(?:[a-z ]{11})  (ok|note|warning|ERROR) `).FindStringSubmatch(line); level != nil {
			bad = level[1] == "ERROR" || level[1] == "warning"
		}
		if inArea && bad {
			found = append(found, line)
		}
	}
	return strings.Join(found, "\n")
}

// answering is a server that is no host.
func (x *trouble) answering(status int, body string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	x.t.Cleanup(server.Close)
	x.env["DSH_HOST_URL"] = server.URL
}

// closedPort is a port of this machine on which nothing listens.
func (x *trouble) closedPort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		x.t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

var hostStatus = map[string]any{}

// troubles lead to what docs/troubleshooting.md quotes, by the names of its blocks.
var troubles = map[string]func(x *trouble) string{
	"no-host": func(x *trouble) string {
		x.env["DSH_HOST_URL"] = "http://" + x.closedPort()
		return x.call("dsh_host_status", hostStatus)
	},
	"no-host-doctor": func(x *trouble) string {
		x.env["DSH_HOST_URL"] = "http://" + x.closedPort()
		return x.finds("host")
	},
	"other-server": func(x *trouble) string {
		x.answering(http.StatusOK, "<!doctype html>")
		return x.call("dsh_host_status", hostStatus)
	},
	"other-server-doctor": func(x *trouble) string {
		x.answering(http.StatusOK, "<!doctype html>")
		return x.finds("host")
	},
	"newer-host": func(x *trouble) string {
		x.answering(http.StatusUnauthorized, "")
		return x.call("dsh_host_status", hostStatus)
	},
	"newer-host-doctor": func(x *trouble) string {
		x.host.AnswerAs404()
		return x.finds("host")
	},
	"no-credentials": func(x *trouble) string {
		x.host.SetRoutable(false)
		return x.delegate(x.in("project"))
	},
	"cwd-missing":  func(x *trouble) string { return x.delegate(x.in("projcet")) },
	"cwd-relative": func(x *trouble) string { return x.delegate("project") },
	"cwd-file":     func(x *trouble) string { return x.delegate(x.in("notes.txt")) },
	"second-supervisor": func(x *trouble) string {
		x.delegate(x.in("project"))
		return x.delegate(x.in("project"))
	},
	"two-hosts": func(x *trouble) string {
		task := strings.TrimPrefix(x.delegate(x.in("project"), "taskId"), "taskId: ")
		x.env["DSH_HOST_URL"] = x.newHost().URL()
		return x.call("dsh_followup", map[string]any{"taskId": task, "prompt": "Go on."})
	},
	"home-in-the-way": func(x *trouble) string {
		x.env["DSH_BRIDGE_HOME"] = x.in("notes.txt") + "/agentlink"
		return x.run("serve")
	},
	"home-not-writable": func(x *trouble) string {
		if os.Geteuid() == 0 {
			x.t.Skip("root may write everywhere")
		}
		if err := os.Mkdir(x.in("locked"), 0o500); err != nil {
			x.t.Fatal(err)
		}
		x.env["DSH_BRIDGE_HOME"] = x.in("locked/agentlink")
		return x.delegate(x.in("project"))
	},
	"environment": func(x *trouble) string {
		x.env["DSH_HOST_URL"], x.env["DSH_LOCK_TIMEOUT_MS"] = "localhost:3080", "5s"
		return x.run("serve")
	},
}

// sanitised replaces what is of this machine by what a reader knows from his own.
func (x *trouble) sanitised(text string) string {
	text = strings.ReplaceAll(text, x.dir, "/home/dev")
	text = regexp.MustCompile(`127\.0\.0\.1:[0-9]+->127\.0\.0\.1:[0-9]+`).ReplaceAllString(text, "127.0.0.1:1->127.0.0.1:3080")
	text = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).ReplaceAllString(text, "127.0.0.1:3080")
	return regexp.MustCompile(`--port [0-9]+`).ReplaceAllString(text, "--port 3080")
}

var update = flag.Bool("update", false, "quote anew in docs/troubleshooting.md what the cases lead to")

const troubleshooting = "docs/troubleshooting.md"

// Every error that docs/troubleshooting.md quotes is what a newcomer gets, word for word.
func TestTroubles(t *testing.T) {
	var quoted []string
	for _, b := range page(t, troubleshooting).blocks {
		name, found := strings.CutPrefix(b.info, "text try ")
		if !found {
			continue
		}
		quoted = append(quoted, name)
		lead := troubles[name]
		if lead == nil {
			t.Errorf("%s:%d: there is no case %q", troubleshooting, b.line, name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			x := newTrouble(t)
			got := strings.TrimRight(x.sanitised(lead(x)), "\n") + "\n"
			err := compare(b.text, got)
			if err != nil && *update {
				quote(t, b, got)
				return
			}
			if err != nil {
				t.Errorf("%s:%d: %v; go test ./internal/readme -run TestTroubles -update quotes it anew (-quoted +real):\n%s", troubleshooting, b.line, err, cmp.Diff(b.text, got))
			}
		})
	}
	for name := range troubles {
		if !slices.Contains(quoted, name) {
			t.Errorf("%s is not quoted", name)
		}
	}
}

// quote replaces the text of a block in the page.
func quote(t *testing.T, b block, text string) {
	t.Helper()
	path := filepath.Join(root, troubleshooting)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head := "```" + b.info + "\n"
	if err := os.WriteFile(path, []byte(strings.Replace(string(old), head+b.text, head+text, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A second bridge on the same home sees the tasks of the first, and goes on with them.
func TestSecondBridgeOnTheHome(t *testing.T) {
	x := newTrouble(t)
	task := strings.TrimPrefix(x.delegate(x.in("project"), "taskId"), "taskId: ")
	other := *x
	if got := other.call("dsh_list", map[string]any{"state": "all"}, "tasks.0.taskId"); got != "tasks.0.taskId: "+task {
		t.Errorf("the second bridge lists %s, want %s", got, task)
	}
	if got := other.call("dsh_followup", map[string]any{"taskId": task, "prompt": "Go on."}, "accepted"); got != "accepted: true" {
		t.Errorf("%s", got)
	}
}
