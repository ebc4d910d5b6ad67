package scenario

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

// host is a DSH host that a scenario runs against.
type host interface {
	Name() string
	// URL is the host's address; it stays the same over restarts.
	URL() string
	// Start starts the host, also again after a Kill.
	Start(t *testing.T)
	// Kill ends its process as a crash would.
	Kill()
	// Forget is Kill and Start of a host that has not written down yet what it said last in a task whose model thinks.
	Forget(e *env, t task)
}

// scenario is one story of a supervisor and a host.
type scenario struct {
	name string
	run  func(e *env)
	// scriptedOnly is set where the host has to do what a real one cannot be told to.
	scriptedOnly bool
	// ownHost is set where the host is killed, or must have no other sessions.
	ownHost bool
	// hostAway is set where the host is down at the beginning; it implies ownHost.
	hostAway bool
}

// env is what a scenario has at hand.
type env struct {
	t    *testing.T
	host host
	// canary is in every text of the scenario. None of it may reach a file of the bridge or its log.
	canary string
	home   string // DSH_BRIDGE_HOME of the processes
	temp   string // and their folder for temporary files

	bridges []*bridge
}

// play runs one scenario, and then looks at what has to hold after every one.
func play(t *testing.T, h host, s scenario) {
	dir := t.TempDir()
	e := &env{t: t, host: h, canary: "CANARY-" + rand.Text()[:12], home: filepath.Join(dir, "home"), temp: filepath.Join(dir, "temp")}
	if err := os.Mkdir(e.temp, 0o700); err != nil {
		t.Fatal(err)
	}
	defer e.dump()
	s.run(e)
	e.finish()
}

// dump shows, after a failure, what the processes logged.
func (e *env) dump() {
	if !e.t.Failed() {
		return
	}
	for i, b := range e.bridges {
		e.t.Logf("log of process %d:\n%s", i+1, b.stderr)
	}
}

// bridge starts a process of the bridge on the scenario's home. set are more variables of its environment.
func (e *env) bridge(set ...string) *bridge {
	e.t.Helper()
	return e.bridgeWith(set)
}

// bridgeWith is bridge with options for the client.
func (e *env) bridgeWith(set []string, options ...client.ClientOption) *bridge {
	e.t.Helper()
	return e.launch(exec.Command(binary), set, options...)
}

// launch starts a process of the bridge by a command of its own.
func (e *env) launch(cmd *exec.Cmd, set []string, options ...client.ClientOption) *bridge {
	e.t.Helper()
	// Nothing else is in its environment.
	cmd.Env = append([]string{
		"DSH_HOST_URL=" + e.host.URL(),
		"DSH_BRIDGE_HOME=" + e.home,
		"DSH_LOG=debug",
		"HOME=" + e.temp,
		"TMPDIR=" + e.temp,
	}, set...)
	b := launch(e.t, cmd, options...)
	e.bridges = append(e.bridges, b)
	return b
}

// workspace makes a fresh directory to work in.
func (e *env) workspace() string {
	e.t.Helper()
	// As the bridge will name it, whatever links are on the way to it.
	dir, err := filepath.EvalSymlinks(e.t.TempDir())
	if err != nil {
		e.t.Fatal(err)
	}
	return dir
}

// scripted is the host when it is the scripted one.
func (e *env) scripted() *dshtest.Host {
	e.t.Helper()
	h, ok := e.host.(*scriptedHost)
	if !ok {
		e.t.Fatalf("the scenario needs the scripted host, this is %s", e.host.Name())
	}
	return h.Host
}

// prompt is a prompt in which the model is told to take these steps. It bears the canary.
func (e *env) prompt(steps ...labmodel.Step) string {
	return labmodel.Script{Steps: steps}.Prompt(e.canary + " please")
}

// text is a text of the conversation that bears the canary.
func (e *env) text(words string) string { return e.canary + " " + words }

// within is a context that ends long after what it is for has to have happened.
func (e *env) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.t.Context(), limit)
}

// pollPause is the time between two looks at a state that nothing announces.
const pollPause = 25 * time.Millisecond

// eventually looks again and again until check returns "", and fails with what it says when that does not come.
func (e *env) eventually(check func() string) {
	e.t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		problem := check()
		if problem == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			e.t.Fatalf("after %v: %s", limit, problem)
		}
	}
}
