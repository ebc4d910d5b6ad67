// Package demo tells the story of a supervised task: it starts this program as a STDIO server and plays the supervisor
// and the person behind it. Without a host of the user's it starts the built-in scripted one, so that nothing outside
// the machine is asked. Nothing outside a temporary folder is written, and the user's own bridge home is never touched.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"dsh-agentlink/internal/dshtest"
)

// The times after which a demo that hangs is given up. The scripted one takes about three seconds; a model may think.
const (
	scriptedLimit = time.Minute
	realLimit     = 5 * time.Minute
)

// Options says what to play and where to tell of it.
type Options struct {
	// Executable is the path of this program.
	Executable string
	Out        io.Writer
	// Log takes what the server says on its standard error.
	Log io.Writer
	// Colour says that Out is a terminal which shows colours.
	Colour bool
	// HostURL is the address of a real host; empty for the built-in scripted one.
	HostURL string
	// Scripted says that the model of the host at HostURL plays the scripts of package labmodel, so that questions and
	// approvals can be played on it too.
	Scripted bool
}

// Run plays the demo. The error says which step did not hold, and why.
func Run(ctx context.Context, opts Options) (err error) {
	scripted := opts.HostURL == "" || opts.Scripted
	limit := realLimit
	if scripted {
		limit = scriptedLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demo was given up after %s", limit))
	defer cancel()
	began := time.Now()
	dir, err := prepare()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := &stage{ctx: ctx, opts: opts, page: page{out: opts.Out, colour: opts.Colour}, dir: dir, hostURL: opts.HostURL}
	if s.hostURL == "" {
		host := dshtest.New(dshtest.Options{Cwd: dir, AllowWrites: dir})
		if err := host.Start(); err != nil {
			return fmt.Errorf("start the scripted host: %w", err)
		}
		defer host.Close()
		s.hostURL = host.URL()
	}
	defer func() { err = errors.Join(err, s.bridge.end()) }()
	if err := s.play(scripted); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		s.stop()
		return fmt.Errorf("demo, step %d: %w", s.number, err)
	}
	s.say("\nAll %d steps held, in %.1f s.", s.number, time.Since(began).Seconds())
	s.farewell()
	return s.err
}

// The folders of the demo, inside its own.
const (
	projectFolder   = "project"   // the task's
	archiveFolder   = "archive"   // beside it, and not to be lost
	publishedFolder = "published" // beside it, where the result goes
	bridgeFolder    = "bridge"    // the bridge's home
)

// prepare makes the folder of a demo.
func prepare() (string, error) {
	dir, err := os.MkdirTemp("", "dsh-agentlink-demo-")
	if err != nil {
		return "", err
	}
	// A host names directories by their real path.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	for _, folder := range []string{projectFolder, archiveFolder, publishedFolder} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			return "", err
		}
		note := filepath.Join(dir, folder, "note.txt")
		if err := os.WriteFile(note, []byte("A note of the dsh-agentlink demo.\n"), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func (s *stage) play(scripted bool) error {
	where := "The host at " + s.hostURL + " is yours, and so is its model."
	switch {
	case s.opts.HostURL == "":
		where = "The host at " + s.hostURL + " is built in, its model plays a script."
	case scripted:
		where = "The host at " + s.hostURL + " is yours, its model plays a script."
	}
	s.say("A supervisor delegates a task to DSH through this bridge. You are the person behind it.\n%s\nThe files are below %s and go at the end.\n", where, s.dir)
	if err := s.start(); err != nil {
		return err
	}
	if scripted {
		return s.playScript()
	}
	return s.playReal()
}

// farewell says what to do next.
func (s *stage) farewell() {
	if s.opts.HostURL == "" {
		s.say("Next: start a host (dsh web), and dsh-agentlink demo --host http://127.0.0.1:3080 plays it there.")
	} else {
		s.say("The session stays in your host's list, under the title %q.", title)
	}
	s.say("Then give the bridge to your agent: dsh-agentlink setup codex, or dsh-agentlink setup claude --user.")
}
