//go:build callers

package callers

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Limits of one command of a caller, and of a whole supervised task. They take about 2 and 20 seconds.
const (
	commandLimit = 60 * time.Second
	storyLimit   = 3 * time.Minute
)

// place is where a caller runs: a home of its own and a project in it.
type place struct {
	t            *testing.T
	home, config string // of the person, and the caller's own folder
	project, ws  string // where the caller works, and the task
	bridgeHome   string
	bridgeBinary string
	env          []string
}

// newPlace makes an environment in which nothing of the person at this machine is seen, and nothing leaves the machine.
// config names the variable with the caller's own folder.
func newPlace(t *testing.T, config string, set ...string) *place {
	t.Helper()
	root := t.TempDir()
	p := &place{t: t, home: filepath.Join(root, "home"), config: filepath.Join(root, "config"), project: filepath.Join(root, "project"), ws: filepath.Join(root, "workspace"),
		bridgeHome: filepath.Join(root, "bridge"), bridgeBinary: binary}
	for _, dir := range []string{p.home, p.config, p.project, p.ws} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.env = append([]string{
		"HOME=" + p.home, config + "=" + p.config, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "TERM=dumb", "LANG=C.UTF-8",
		"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1",
		// What is not on loopback ends at a port where nothing listens.
		"HTTPS_PROXY=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1",
	}, set...)
	return p
}

// run runs a program in the project, with a limit, and returns what it printed. It has to end well.
func (p *place) run(limit time.Duration, program string, args ...string) string {
	p.t.Helper()
	out, err := p.try(limit, program, args...)
	if err != nil {
		p.t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return out
}

func (p *place) try(limit time.Duration, program string, args ...string) (string, error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = p.project, p.env
	// Its own group, so that what it starts ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	p.t.Log(p.tidy("$ " + filepath.Base(program) + " " + strings.Join(args, " ") + "\n" + out.String()))
	return out.String(), err
}

// tidy takes the paths of this machine out of a transcript.
func (p *place) tidy(text string) string {
	cache, _ := cacheDir()
	for path, name := range map[string]string{filepath.Dir(p.home): "…", p.bridgeBinary: "/opt/dsh-agentlink", cache: "…/callers"} {
		text = strings.ReplaceAll(text, path, name)
	}
	return text
}
