package readme

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"dsh-agentlink/internal/cli"
	"dsh-agentlink/internal/dshtest"
)

// pages are those whose commands are tried.
var pages = []string{"README.md", "README.zh-CN.md", "docs/troubleshooting.md"}

func TestEveryBlockIsMarked(t *testing.T) {
	known := regexp.MustCompile(`^(sh run|sh parse|text output|text try [a-z-]+|text seen)$`)
	for _, name := range pages {
		for _, b := range page(t, name).blocks {
			if !known.MatchString(b.info) {
				t.Errorf("%s:%d: a block marked %q; doc.go lists the marks", name, b.line, b.info)
			}
		}
	}
}

// Whatever can be run of the README is run, by a newcomer with an empty home and a host that runs.
func TestCommandsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program, as a newcomer does")
	}
	before := names(t, root)
	home, printed := t.TempDir(), ""
	for _, b := range page(t, "README.md").blocks {
		switch b.info {
		case "sh run":
			printed = shell(t, home, b)
		case "text output":
			if err := compare(b.text, printed); err != nil {
				t.Errorf("README.md:%d: %v; all that is printed:\n%s", b.line, err, printed)
			}
		}
	}
	if diff := cmp.Diff(before, names(t, root)); diff != "" {
		t.Errorf("the commands leave something in the repository:\n%s", diff)
	}
}

// blockLimit is when a block that hangs is given up; building takes most of it.
const blockLimit = 3 * time.Minute

// shell runs a block in a home and returns what it prints. Every command of it has to succeed.
func shell(t *testing.T, home string, b block) string {
	t.Helper()
	host := dshtest.New(dshtest.Options{Cwd: t.TempDir()})
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	ctx, cancel := context.WithTimeout(t.Context(), blockLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-eu", "-c", b.text)
	cmd.Dir = root
	cmd.Env = append(newcomer(t, home), "DSH_HOST_URL="+host.URL(), "GOFLAGS=-buildvcs=false")
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(string(value)))
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Errorf("line %d: %v\n%s\n%s%s", b.line, err, b.text, out.String(), errOut.String())
	}
	return out.String()
}

// newcomer is the environment of somebody who has nothing but a home and a path.
func newcomer(t *testing.T, home string) []string {
	t.Helper()
	temporary := filepath.Join(home, "tmp")
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{"HOME=" + home, "TMPDIR=" + temporary, "PATH=" + os.Getenv("PATH")}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// What cannot be run in a test is at least what a shell and this program can read.
func TestCommandsParse(t *testing.T) {
	for _, name := range pages {
		for _, b := range page(t, name).blocks {
			if !strings.HasPrefix(b.info, "sh ") {
				continue
			}
			if out, err := exec.Command("sh", "-n", "-c", b.text).CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", name, b.line, err, out)
			}
			for line := range strings.Lines(b.text) {
				if err := parseCommand(line); err != nil {
					t.Errorf("%s:%d: %s: %v", name, b.line, strings.TrimSpace(line), err)
				}
			}
		}
	}
}

// parseCommand reads a line of this program as far as it can be read without being run.
func parseCommand(line string) error {
	if i := strings.IndexAny(line, "#<>|"); i >= 0 { // a comment, or where the output goes
		line = line[:i]
	}
	words := strings.Fields(line)
	for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
		words = words[1:]
	}
	if len(words) == 0 || filepath.Base(words[0]) != "dsh-agentlink" {
		return nil
	}
	c, rest, err := program().Find(words[1:])
	if err != nil {
		return err
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}

func program() *cobra.Command { return cli.Command(strings.NewReader(""), io.Discard, io.Discard) }

func TestParseCommand(t *testing.T) {
	for line, good := range map[string]bool{
		"npm install x": true, "dsh-agentlink doctor": true, "A=b ~/bin/dsh-agentlink tail TASK -f # watch": true, "dsh-agentlink": true,
		"dsh-agentlink docter": false, "dsh-agentlink doctor --jsno": false, "dsh-agentlink show a b": false,
	} {
		if err := parseCommand(line); (err == nil) != good {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// The table of commands has every command, and no other.
func TestCommandTable(t *testing.T) {
	var real []string
	for _, c := range program().Commands() {
		if !c.Hidden {
			real = append(real, c.Name())
		}
	}
	var listed []string
	for _, cell := range firstColumn(page(t, "README.md"), "command") {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
			name, _, _ := strings.Cut(m[1], " ")
			listed = append(listed, name)
			line := regexp.MustCompile(`\[|\]`).ReplaceAllString(m[1], "")
			if err := parseCommand("dsh-agentlink " + line); err != nil && name != "setup" {
				t.Errorf("%s: %v", m[1], err)
			}
		}
	}
	slices.Sort(real)
	slices.Sort(listed)
	if diff := cmp.Diff(real, slices.Compact(listed)); diff != "" {
		t.Errorf("the program's commands (-) and those in README.md (+):\n%s", diff)
	}
}

// firstColumn is that of the table whose first head is the given word, without the head.
func firstColumn(d document, head string) []string {
	var column []string
	for _, table := range d.tables {
		if table[0][0] != head {
			continue
		}
		for _, row := range table[1:] {
			column = append(column, row[0])
		}
	}
	return column
}
