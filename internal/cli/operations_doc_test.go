package cli

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// commandLine finds the command lines of the program in a text: behind a prompt, as advice on a line of its own, in
// backquotes, and behind the variables of a hint.
var commandLine = regexp.MustCompile("(?m)(?:^[ ]*(?:[$>] )?|`|DSH_[A-Z_]+=\\S+ )dsh-agentlink( [^`\"|;#\\n]*)?")

// Every command in docs/operations.md can be typed: it exists, has these flags, and takes so many arguments.
func TestOperationsDoc(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := commandLine.FindAllStringSubmatch(string(doc), -1)
	named := map[string]bool{}
	for _, m := range lines {
		name, err := parses(strings.Fields(m[1]))
		if err != nil {
			t.Errorf("dsh-agentlink%s: %v", m[1], err)
		}
		named[name] = true
	}
	for _, name := range []string{"doctor", "watch", "tasks", "show", "tail", "locks", "recover", "claims", "release", "ledgers", "import", "codex", "claude"} {
		if !named[name] {
			t.Errorf("%s is not in it", name)
		}
	}
}

// What is wrong with a command line is noticed.
func TestCommandLinesAreRead(t *testing.T) {
	for line, good := range map[string]bool{
		"": true, "tasks --json": true, "tail TASK -f": true, "locks recover registry --yes": true, "setup claude --project DIR": true,
		"task": false, "tasks --jsno": false, "tail": false, "locks recover a b": false, "setup codecs": false, "watch TASK": false,
	} {
		if _, err := parses(strings.Fields(line)); (err == nil) != good {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// parses reads a command line as far as it can be without being run, and returns the name of the command.
func parses(args []string) (string, error) {
	root := Command(strings.NewReader(""), io.Discard, io.Discard)
	c, rest, err := root.Find(args)
	if err != nil {
		return "", err
	}
	if err := c.ParseFlags(rest); err != nil && err != pflag.ErrHelp {
		return "", err
	}
	return c.Name(), c.ValidateArgs(c.Flags().Args())
}
