package setup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	testServer = Server{Command: "/opt/dsh-agentlink", Env: map[string]string{"DSH_HOST_URL": "http://127.0.0.1:3080"}}
	testTime   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

const testTables = `[mcp_servers.dsh_agentlink]
command = "/opt/dsh-agentlink"
startup_timeout_sec = 20
tool_timeout_sec = 600

[mcp_servers.dsh_agentlink.env]
DSH_HOST_URL = "http://127.0.0.1:3080"

[mcp_servers.dsh_agentlink.tools.dsh_resolve_approval]
approval_mode = "prompt"
`

const testInline = `dsh_agentlink = { command = "/opt/dsh-agentlink", startup_timeout_sec = 20, tool_timeout_sec = 600, ` +
	`env = { DSH_HOST_URL = "http://127.0.0.1:3080" }, tools = { dsh_resolve_approval = { approval_mode = "prompt" } } }`

// tomlFile writes a config.toml and returns its path.
func tomlFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// carry makes a plan come true.
func carry(t *testing.T, plan *Plan, err error) []Applied {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	done, err := plan.Apply(testTime)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// The files that people have, without an entry of ours. What is added is told; a removal gives every byte back.
var tomlShapes = []struct{ name, before, after string }{
	{"empty", "", testTables},
	{"only an empty line", "\n", "\n\n" + testTables},
	{"keys", "model = \"x\"\n", "model = \"x\"\n\n" + testTables},
	{"no newline at the end", "model = \"x\"", "model = \"x\"\n\n" + strings.TrimSuffix(testTables, "\n")},
	{"comments at the end", "a = 1 # one\n# the end\n", "a = 1 # one\n# the end\n\n" + testTables},
	{"only a comment without newline", "# nothing", "# nothing\n\n" + strings.TrimSuffix(testTables, "\n")},
	{"CRLF", "a = 1\r\n[b]\r\nc = 2\r\n", "a = 1\r\n[b]\r\nc = 2\r\n\r\n" + strings.ReplaceAll(testTables, "\n", "\r\n")},
	{"CRLF, no newline at the end", "a = 1\r\nb = 2", "a = 1\r\nb = 2\r\n\r\n" + strings.TrimSuffix(strings.ReplaceAll(testTables, "\n", "\r\n"), "\r\n")},
	{"BOM", "\ufeffa = 1\n", "\ufeffa = 1\n\n" + testTables},
	{"BOM alone", "\ufeff", "\ufeff" + testTables},
	{"other servers", "[mcp_servers.other]\ncommand = \"o\"\n", "[mcp_servers.other]\ncommand = \"o\"\n\n" + testTables},
	{"an empty table", "[mcp_servers]\n\n[b]\n", "[mcp_servers]\n\n[b]\n\n" + testTables},
	{"dotted keys", "mcp_servers.other.command = \"\"\n", "mcp_servers.other.command = \"\"\n\n" + testTables},
	{"quoted keys", "[\"mcp_servers\".'other']\n\"command\" = \"o\"\n", "[\"mcp_servers\".'other']\n\"command\" = \"o\"\n\n" + testTables},
	{"nested tables", "[mcp_servers.o]\ncommand = \"o\"\n  [mcp_servers.o.env]\n  A = \"b\"\n", "[mcp_servers.o]\ncommand = \"o\"\n  [mcp_servers.o.env]\n  A = \"b\"\n\n" + testTables},
	{"array tables", "[[projects]]\npath = \"a\"\n[[projects]]\npath = \"b\"\n", "[[projects]]\npath = \"a\"\n[[projects]]\npath = \"b\"\n\n" + testTables},
	{"tables out of order", "[mcp_servers.a]\nx = 1\n[b]\n[mcp_servers.c]\nx = 2\n", "[mcp_servers.a]\nx = 1\n[b]\n[mcp_servers.c]\nx = 2\n\n" + testTables},
	{"inline table", "mcp_servers = { other = { command = \"o\" } } # servers\nz = 1\n", "mcp_servers = { other = { command = \"o\" }, " + testInline + " } # servers\nz = 1\n"},
	{"inline table with a nasty string", `mcp_servers = { "o}" = { command = "a \" }, {" } }`, `mcp_servers = { "o}" = { command = "a \" }, {" }, ` + testInline + ` }`},
	{"empty inline table", "mcp_servers = {}\n", "mcp_servers = {" + testInline + "}\n"},
	{"strings over lines", "a = \"\"\"\n[mcp_servers.dsh_agentlink]\n\"\"\"\"\n", "a = \"\"\"\n[mcp_servers.dsh_agentlink]\n\"\"\"\"\n\n" + testTables},
}

func TestCodexAddsAndRemoves(t *testing.T) {
	for _, c := range tomlShapes {
		t.Run(c.name, func(t *testing.T) {
			path := tomlFile(t, c.before)
			plan, err := Codex(path, testServer, false)
			done := carry(t, plan, err)
			if diff := cmp.Diff(c.after, read(t, path)); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
			if got := read(t, done[0].Backup); got != c.before {
				t.Errorf("the backup is %q", got)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			again, err := Codex(path, testServer, false)
			if err != nil || again.Changed() {
				t.Errorf("the second time: %+v, %v", again, err)
			}
			plan, err = RemoveCodex(path)
			carry(t, plan, err)
			if c.before == "" {
				if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("a file with nothing in it is left")
				}
				return
			}
			if diff := cmp.Diff(c.before, read(t, path)); diff != "" {
				t.Errorf("after the removal, -want +got:\n%s", diff)
			}
			plan, err = RemoveCodex(path)
			if err != nil || plan.Changed() {
				t.Errorf("a second removal: %+v, %v", plan, err)
			}
		})
	}
}

// Entries that are there already, however they are written, are shown and replaced.
func TestCodexReplaces(t *testing.T) {
	for _, c := range []struct{ name, before, shown, after string }{
		{"a table", "[mcp_servers.dsh_agentlink]\ncommand = \"old\"\n", "[mcp_servers.dsh_agentlink]\ncommand = \"old\"\n", testTables},
		{"the older spelling", "[mcp_servers.dsh-agentlink]\ncommand = \"old\"\n", "[mcp_servers.dsh-agentlink]\ncommand = \"old\"\n", testTables},
		{"the TypeScript bridge", "a = 1\n\n[mcp_servers.dsh_collab]\ncommand = \"node\"\nargs = [\n  \"x\", # ]\n]\n", "[mcp_servers.dsh_collab]\ncommand = \"node\"\nargs = [\n  \"x\", # ]\n]\n", "a = 1\n\n" + testTables},
		{"a table in the middle", "[a]\n\n[mcp_servers.dsh_agentlink]\ncommand = \"old\"\n# ours\n[mcp_servers.dsh_agentlink.env]\nA = 'b'\n\n# theirs\n[z]\n",
			"[mcp_servers.dsh_agentlink]\ncommand = \"old\"\n# ours\n[mcp_servers.dsh_agentlink.env]\nA = 'b'\n", "[a]\n\n# theirs\n[z]\n\n" + testTables},
		{"parts apart", "[mcp_servers.dsh_agentlink.env]\nA = 'b'\n[z]\n[mcp_servers.dsh_agentlink]\ncommand = \"old\"",
			"[mcp_servers.dsh_agentlink.env]\nA = 'b'\n[mcp_servers.dsh_agentlink]\ncommand = \"old\"", "[z]\n\n" + strings.TrimSuffix(testTables, "\n")},
		{"a quoted name", "[mcp_servers.\"dsh\\u005fagentlink\"]\ncommand = \"old\"\n", "[mcp_servers.\"dsh\\u005fagentlink\"]\ncommand = \"old\"\n", testTables},
		{"dotted keys", "[mcp_servers]\ndsh_agentlink.command = \"old\"\ndsh_agentlink.env.A = \"b\"\nother.command = \"o\"\n",
			"dsh_agentlink.command = \"old\"\ndsh_agentlink.env.A = \"b\"\n", "[mcp_servers]\nother.command = \"o\"\n\n" + testTables},
		{"an inline entry", "[mcp_servers]\ndsh_agentlink = { command = \"old\" } # gone\nother = { command = \"o\" }\n",
			"dsh_agentlink = { command = \"old\" } # gone\n", "[mcp_servers]\nother = { command = \"o\" }\n\n" + testTables},
		{"first of an inline table", "mcp_servers = { dsh_agentlink = { command = \"old\" }, o = {} }\n", "dsh_agentlink = { command = \"old\" }", "mcp_servers = { o = {}, " + testInline + " }\n"},
		{"alone in an inline table", "mcp_servers = { dsh_agentlink.command = \"old\" }\n", "dsh_agentlink.command = \"old\"", "mcp_servers = {" + testInline + "  }\n"},
		{"an array table", "[[mcp_servers.dsh_agentlink]]\ncommand = \"old\"\n[[mcp_servers.dsh_agentlink]]\n", "[[mcp_servers.dsh_agentlink]]\ncommand = \"old\"\n[[mcp_servers.dsh_agentlink]]\n", testTables},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := tomlFile(t, c.before)
			_, err := Codex(path, testServer, false)
			var conflict *ConflictError
			if !errors.As(err, &conflict) {
				t.Fatalf("got %v, want a conflict", err)
			}
			if diff := cmp.Diff(c.shown, conflict.Previous[0].Text); diff != "" {
				t.Errorf("shown, -want +got:\n%s", diff)
			}
			if read(t, path) != c.before {
				t.Error("the file was changed all the same")
			}
			plan, err := Codex(path, testServer, true)
			carry(t, plan, err)
			if diff := cmp.Diff(c.after, read(t, path)); diff != "" {
				t.Errorf("replaced, -want +got:\n%s", diff)
			}
			if plan, err = Codex(path, testServer, true); err != nil || plan.Changed() {
				t.Errorf("the second time: %+v, %v", plan, err)
			}
		})
	}
}

func TestCodexKeepsWhatWasAddedToTheEntry(t *testing.T) {
	added := testTables + "\n[mcp_servers.dsh_agentlink.tools.dsh_tail]\napproval_mode = \"approve\"\n"
	path := tomlFile(t, added)
	if plan, err := Codex(path, testServer, false); err != nil || plan.Changed() {
		t.Errorf("%+v, %v", plan, err)
	}
	other := Server{Command: testServer.Command}
	var conflict *ConflictError
	if _, err := Codex(path, other, false); !errors.As(err, &conflict) {
		t.Errorf("another environment is no conflict: %v", err)
	}
	plan, err := RemoveCodex(path)
	carry(t, plan, err)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("a table without a command would be left, which Codex refuses to start with")
	}
}

func TestCodexRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"no TOML", "model = \n", "line 1"},
		{"a table twice", "[a]\n[a]\n", "cannot be parsed"},
		{"a key twice", "a = 1\na = 2\n", "cannot be parsed"},
		{"servers that are no table", "mcp_servers = 3\n", "mcp_servers is no table"},
		{"servers that are a list", "[[mcp_servers]]\nname = 'x'\n", "mcp_servers is no table"},
		{"no UTF-8", "a = \"\xff\"\n", "cannot be parsed"},
		{"nested too deep", "a = " + strings.Repeat("[", 20_000), "cannot be parsed"},
	} {
		path := tomlFile(t, c.text)
		for _, plan := range []func() (*Plan, error){
			func() (*Plan, error) { return Codex(path, testServer, true) },
			func() (*Plan, error) { return RemoveCodex(path) },
		} {
			_, err := plan()
			var refused *RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %v, want a refusal that says %q", c.name, err, c.says)
			}
		}
		if read(t, path) != c.text {
			t.Errorf("%s: the file was changed", c.name)
		}
	}
}

func TestCodexHugeFile(t *testing.T) {
	var b bytes.Buffer
	for i := 0; b.Len() < 5<<20; i++ {
		fmt.Fprintf(&b, "[projects.\"/p/%d\"]\ntrust_level = \"trusted\" # %s\n\n", i, strings.Repeat("x", 10_000))
	}
	path := tomlFile(t, b.String())
	plan, err := Codex(path, testServer, false)
	carry(t, plan, err)
	plan, err = RemoveCodex(path)
	carry(t, plan, err)
	if read(t, path) != b.String() {
		t.Error("the removal does not give the file back")
	}
}

func TestCodexStrings(t *testing.T) {
	server := Server{Command: "/opt/a \"b\" \\ c\t\u007f é 漢/x", Env: map[string]string{"A": "line\nline", "B": "\u202e", "C": "'''"}}
	path := filepath.Join(t.TempDir(), "new", "config.toml")
	plan, err := Codex(path, server, false)
	carry(t, plan, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
