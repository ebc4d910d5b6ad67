package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/rogpeppe/go-internal/testscript"

	"dsh-agentlink/bridge"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/home"
)

// The scripts of the commands that look. UPDATE_GOLDEN=1 writes what they print into them.
func TestLookScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/look",
		Setup: func(env *testscript.Env) error {
			host := dshtest.New(dshtest.Options{})
			env.Defer(host.Close)
			env.Values["host"] = host
			env.Setenv("DSH_BRIDGE_HOME", env.WorkDir+"/bridge")
			env.Setenv("DSH_LOG", "off")
			env.Setenv("DSH_HOST_URL", "http://127.0.0.1:1")
			env.Setenv("TZ", "UTC")
			env.Setenv("TMPDIR", env.WorkDir+"/tmp")
			return os.Mkdir(env.WorkDir+"/tmp", 0o700)
		},
		UpdateScripts: os.Getenv("UPDATE_GOLDEN") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "host": hostCommand, "tool": toolCommand, "normal": normalCommand, "snapshot": snapshotCommand, "unchanged": unchangedCommand,
			"hold": holdCommand, "follow": followCommand, "await": awaitCommand, "interrupt": interruptCommand, "append": appendCommand, "freeze": freezeCommand,
			"terminal": terminalCommand, "onterminal": onTerminal,
		},
	})
}

// hostCommand starts and stops the scripted host: host start | kill | restart | unroutable.
func hostCommand(ts *testscript.TestScript, _ bool, args []string) {
	host := ts.Value("host").(*dshtest.Host)
	if len(args) != 1 {
		ts.Fatalf("usage: host start|kill|restart|unroutable")
	}
	switch args[0] {
	case "start", "restart":
		ts.Check(host.Start())
		ts.Setenv("DSH_HOST_URL", host.URL())
	case "kill":
		host.Kill()
	case "unroutable":
		host.SetRoutable(false)
	default:
		ts.Fatalf("unknown: host %s", args[0])
	}
}

// toolCommand calls a tool of a bridge on the script's home: tool NAME JSON. Variables in the JSON are replaced; what it
// answers sets $taskId and $requestId.
func toolCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: tool NAME JSON")
	}
	h, err := home.Open(ts.Getenv("DSH_BRIDGE_HOME"))
	ts.Check(err)
	u, err := dsh.ParseURL(ts.Getenv("DSH_HOST_URL"), false)
	ts.Check(err)
	client := dsh.New(u, dsh.Options{RequestTimeout: 5 * time.Second})
	defer client.CloseIdle()
	b := bridge.New(bridge.Options{Host: client, HostURL: u.String(), Home: h, Version: "test", LockTimeout: 5 * time.Second, Quiet: 20 * time.Millisecond})
	b.Start()
	defer b.Close()
	s := server.NewMCPServer("test", "test")
	b.Register(s)
	call := func(name, arguments string) string {
		tool := s.GetTool(name)
		if tool == nil {
			ts.Fatalf("there is no tool %s", name)
		}
		request := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: name, RawArguments: []byte(arguments)}}
		result, err := tool.Handler(context.Background(), request)
		ts.Check(err)
		text := result.Content[0].(mcp.TextContent).Text
		if result.IsError {
			ts.Fatalf("%s: %s", name, text)
		}
		return text
	}
	text := call(args[0], os.Expand(args[1], ts.Getenv))
	for _, name := range []string{"taskId", "sessionId", "requestId"} {
		if m := regexp.MustCompile(`"` + name + `":"([^"]+)"`).FindStringSubmatch(text); m != nil {
			ts.Setenv(name, m[1])
		}
	}
	// A title comes behind the end of a turn, and the bridge is about to be gone: this records it.
	if id := ts.Getenv("taskId"); id != "" {
		call("dsh_status", `{"taskId":"`+id+`"}`)
	}
}

// What differs from run to run, and what stands for it.
var normals = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\dZ?`), "TIME"},
	{regexp.MustCompile(`\b\d+(s|m|h|d)( ago)\b`), "AGE$2"},
	{regexp.MustCompile(`(?m)  \d+(s|m|h|d)(  |$)`), "  AGE$2"},
	{regexp.MustCompile(`since \d+s`), "since AGE"},
	{regexp.MustCompile(`for \d+(h|m|s)[hms0-9.]*`), "for DURATION"},
	{regexp.MustCompile(`"(ageSec|cursor|nextCursor|last|seq)":\d+`), `"$1":N`},
	{regexp.MustCompile(`"revision":"[0-9a-f]+"`), `"revision":"REVISION"`},
	{regexp.MustCompile(`call_lab-[0-9_-]+`), "CALL"},
	{regexp.MustCompile(`(?m)^ *(\d+|·)  TIME`), "N  TIME"},
	{regexp.MustCompile(`\b1-\d+\b`), "1-N"},
	{regexp.MustCompile(`(?s)The file policy is .*?for it\.( \[of \d+ characters\]|(","chars":\d+)|")?`), "POLICY"},
	{regexp.MustCompile(`http://127\.0\.0\.1:\d{2,}`), "HOST"},
	{regexp.MustCompile(`--port \d+`), "--port PORT"},
	{regexp.MustCompile(`"bytes":\d+`), `"bytes":N`},
	{regexp.MustCompile(`\d+(\.\d+)? (B|KiB)\b`), "SIZE"},
	{regexp.MustCompile(`\d+(\.\d+)? (MiB|GiB|TiB) are free`), "ROOM are free"},
	{regexp.MustCompile(`the (kind of the )?file system is [^"\n]*`), "the file system is KIND"},
	{regexp.MustCompile(`0\.\d+\.\d+-dev( [0-9a-f]{12}(\+dirty)?)?`), "VERSION"},
	{regexp.MustCompile(`(\{"area":"processes"[^}]*\},?)+`), ""},
	{regexp.MustCompile(`(process|-KILL|-CONT|last) \d+\b`), "$1 PID"},
	{regexp.MustCompile(`(?m)^.*bridge process.*\n( *> kill -CONT PID\n)?`), ""},
	{regexp.MustCompile(`,\],"warnings":\d+`), `],"warnings":N`},
	{regexp.MustCompile(`(errors?, )\d+ warnings?`), "${1}N warnings"},
	{regexp.MustCompile(`(?m) {2,}`), "  "},
}

var ids = regexp.MustCompile(`dsh_[0-9a-f]{12}|(session-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|session-[0-9a-f]{1,8}…|launch-[0-9a-f]{2}\.lock`)

// normalCommand writes a file with everything replaced that differs from run to run: normal FROM TO.
func normalCommand(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: normal FROM TO")
	}
	text := strings.ReplaceAll(ts.ReadFile(args[0]), ts.Getenv("WORK"), "$WORK")
	known := map[string]string{}
	text = ids.ReplaceAllStringFunc(text, func(id string) string {
		if known[id] == "" {
			known[id] = fmt.Sprintf("ID%d", len(known)+1)
		}
		return known[id]
	})
	for _, n := range normals {
		text = n.pattern.ReplaceAllString(text, n.name)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// picture is everything about a folder that a look must leave as it is.
func picture(dir string) (string, error) {
	var lines []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		content := ""
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(data)
		}
		sys := info.Sys().(*syscall.Stat_t)
		lines = append(lines, fmt.Sprintf("%s %v %v %d %q", path, info.Mode(), info.ModTime().UnixNano(), sys.Ino, content))
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "nothing", nil
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n"), err
}

var pictures sync.Map // by script

// snapshotCommand remembers the home; unchangedCommand fails unless the home is as it was then, and no copy is left.
func snapshotCommand(ts *testscript.TestScript, _ bool, _ []string) {
	p, err := picture(ts.Getenv("DSH_BRIDGE_HOME"))
	ts.Check(err)
	pictures.Store(ts.Getenv("WORK"), p)
}

func unchangedCommand(ts *testscript.TestScript, _ bool, _ []string) {
	now, err := picture(ts.Getenv("DSH_BRIDGE_HOME"))
	ts.Check(err)
	before, _ := pictures.Load(ts.Getenv("WORK"))
	if now != before {
		ts.Fatalf("the home was\n%s\nand is now\n%s", before, now)
	}
	left, err := os.ReadDir(ts.Getenv("TMPDIR"))
	ts.Check(err)
	if len(left) > 0 {
		ts.Fatalf("%s was left behind", left[0].Name())
	}
}

// appendCommand writes a line behind the end of a file, with -n an unfinished one: append [-n] FILE TEXT.
func appendCommand(ts *testscript.TestScript, _ bool, args []string) {
	end := "\n"
	if args[0] == "-n" {
		end, args = "", args[1:]
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	ts.Check(err)
	_, err = f.WriteString(args[1] + end)
	ts.Check(errors.Join(err, f.Close()))
}

const holdEnv = "LOOK_TEST_HOLD"

// TestHoldLock is no test: it is the process that holdCommand starts.
func TestHoldLock(t *testing.T) {
	path := os.Getenv(holdEnv)
	if path == "" {
		t.Skip("only a helper")
	}
	h, err := home.Open(os.Getenv("DSH_BRIDGE_HOME"))
	if err != nil {
		t.Fatal(err)
	}
	l := h.Lock(path)
	if err := l.Acquire(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	fmt.Println("held")
	bufio.NewReader(os.Stdin).ReadString('\n') // until the script ends
}

// holdCommand takes a lock in a process of its own, which is stopped or killed when told so: hold LOCK [stop|kill].
func holdCommand(ts *testscript.TestScript, _ bool, args []string) {
	self, err := os.Executable()
	ts.Check(err)
	cmd := exec.Command(self, "-test.run=^TestHoldLock$")
	cmd.Env = append(os.Environ(), holdEnv+"="+ts.MkAbs(args[0]), "DSH_BRIDGE_HOME="+ts.Getenv("DSH_BRIDGE_HOME"))
	stdin, err := cmd.StdinPipe()
	ts.Check(err)
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	end := sync.OnceFunc(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	ts.Defer(end)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "held\n" {
		ts.Fatalf("the other process says %q: %v", line, err)
	}
	switch {
	case len(args) == 1:
	case args[1] == "stop":
		stop(ts, cmd.Process)
	case args[1] == "kill":
		end()
	}
}

// following is a command that runs until it is interrupted.
type following struct {
	cmd *exec.Cmd

	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

func (f *following) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text.Write(p)
	close(f.changed)
	f.changed = make(chan struct{})
	return len(p), nil
}

var followings sync.Map // by script

// followCommand starts the program in the background: follow ARGS…; what it prints is for awaitCommand.
func followCommand(ts *testscript.TestScript, _ bool, args []string) {
	f := &following{changed: make(chan struct{})}
	program, err := exec.LookPath("dsh-agentlink")
	ts.Check(err)
	f.cmd = exec.Command(program, args...)
	f.cmd.Stdout, f.cmd.Stderr = f, f
	for _, name := range []string{"DSH_BRIDGE_HOME", "DSH_HOST_URL", "DSH_LOG", "TZ", "TMPDIR", "HOME", "PATH"} {
		f.cmd.Env = append(f.cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(f.cmd.Start())
	ts.Defer(func() {
		f.cmd.Process.Kill()
		f.cmd.Wait()
	})
	followings.Store(ts.Getenv("WORK"), f)
}

// awaitCommand waits until the followed program has printed something: await REGEXP.
func awaitCommand(ts *testscript.TestScript, _ bool, args []string) {
	v, _ := followings.Load(ts.Getenv("WORK"))
	f := v.(*following)
	want := regexp.MustCompile(args[0])
	patience := time.After(30 * time.Second)
	for {
		f.mu.Lock()
		text, changed := f.text.String(), f.changed
		f.mu.Unlock()
		if want.MatchString(text) {
			return
		}
		select {
		case <-changed:
		case <-patience:
			ts.Fatalf("%s did not come:\n%s", args[0], text)
		}
	}
}

// freezeCommand stops the followed program where it is, and sets $pid to its process id.
func freezeCommand(ts *testscript.TestScript, _ bool, _ []string) {
	v, _ := followings.Load(ts.Getenv("WORK"))
	p := v.(*following).cmd.Process
	stop(ts, p)
	ts.Setenv("pid", strconv.Itoa(p.Pid))
}

// stop stops a child and waits until it has stopped.
func stop(ts *testscript.TestScript, p *os.Process) {
	ts.Check(p.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil)
	ts.Check(err)
}

// interruptCommand interrupts the followed program, which has to end with code 0, and keeps what it printed: interrupt FILE.
func interruptCommand(ts *testscript.TestScript, _ bool, args []string) {
	v, _ := followings.Load(ts.Getenv("WORK"))
	f := v.(*following)
	ts.Check(f.cmd.Process.Signal(os.Interrupt))
	ts.Check(f.cmd.Process.Signal(syscall.SIGCONT)) // in case it was stopped
	ts.Check(f.cmd.Wait())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(f.text.String()), 0o600))
}
