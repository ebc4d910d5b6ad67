package setup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// jsonFile writes a .mcp.json into a project of its own.
func jsonFile(t *testing.T, text string) ClaudePlaces {
	t.Helper()
	places := ClaudeProject(t.TempDir(), t.TempDir(), "")
	if err := os.WriteFile(places.Servers, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return places
}

// testMember is the entry with its lines behind that indentation.
func testMember(indentation, unit string) string {
	lines := []string{
		`"dsh_agentlink": {`, unit + `"type": "stdio",`, unit + `"command": "/opt/dsh-agentlink",`, unit + `"args": [],`,
		unit + `"env": {`, unit + unit + `"DSH_HOST_URL": "http://127.0.0.1:3080"`, unit + `}`, `}`,
	}
	return strings.Join(lines, "\n"+indentation)
}

const testCompact = `"dsh_agentlink":{"type":"stdio","command":"/opt/dsh-agentlink","args":[],"env":{"DSH_HOST_URL":"http://127.0.0.1:3080"}}`

var newJSON = "{\n  \"mcpServers\": {\n    " + testMember("    ", "  ") + "\n  }\n}\n"

func crlf(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

// The files that people have. restored is what a removal leaves; empty for the file as it was.
var jsonShapes = []struct{ name, before, after, restored string }{
	{"nothing in it", "", newJSON, "-"},
	{"only white space", " \n\n", newJSON, "-"},
	{"an empty object", "{}", strings.TrimSuffix(newJSON, "\n"), "{\n  \"mcpServers\": {}\n}"},
	{"no servers", "{\n  \"a\": 1\n}\n", "{\n  \"a\": 1,\n  \"mcpServers\": {\n    " + testMember("    ", "  ") + "\n  }\n}\n", ""},
	{"empty servers", "{\n  \"a\": 1,\n  \"mcpServers\": {}\n}\n", "{\n  \"a\": 1,\n  \"mcpServers\": {\n    " + testMember("    ", "  ") + "\n  }\n}\n", "{\n  \"a\": 1\n}\n"},
	{"other servers", "{\n  \"mcpServers\": {\n    \"o\": {\"command\": \"o\"}\n  },\n  \"z\": 1\n}\n",
		"{\n  \"mcpServers\": {\n    \"o\": {\"command\": \"o\"},\n    " + testMember("    ", "  ") + "\n  },\n  \"z\": 1\n}\n", ""},
	{"tabs", "{\n\t\"mcpServers\": {\n\t\t\"o\": {}\n\t}\n}", "{\n\t\"mcpServers\": {\n\t\t\"o\": {},\n\t\t" + testMember("\t\t", "\t") + "\n\t}\n}", ""},
	{"four spaces", "{\n    \"a\": []\n}\n", "{\n    \"a\": [],\n    \"mcpServers\": {\n        " + testMember("        ", "    ") + "\n    }\n}\n", ""},
	{"CRLF", "{\r\n  \"a\": 1\r\n}\r\n", "{\r\n  \"a\": 1,\r\n  \"mcpServers\": {\r\n    " + crlf(testMember("    ", "  ")) + "\r\n  }\r\n}\r\n", ""},
	{"one line", `{"mcpServers":{"o":{}},"n":1}`, `{"mcpServers":{"o":{},` + testCompact + `},"n":1}`, ""},
	{"one line without servers", `{"n":1}`, `{"n":1,"mcpServers":{` + testCompact + `}}`, ""},
	{"servers on one line", "{\n  \"mcpServers\": {\"o\": {}}\n}\n", "{\n  \"mcpServers\": {\"o\": {}," + strings.Replace(testCompact, ":{", ": {", 1) + "}\n}\n", ""},
	{"BOM", "\ufeff{\"n\":1}\n", "\ufeff{\"n\":1,\"mcpServers\":{" + testCompact + "}}\n", ""},
	{"big numbers", `{"n":12345678901234567890123456789,"f":1.0000000000000000000001,"e":1E400,"mcpServers":{"o":{}}}`,
		`{"n":12345678901234567890123456789,"f":1.0000000000000000000001,"e":1E400,"mcpServers":{"o":{},` + testCompact + `}}`, ""},
	{"odd strings", `{"\u006dcpServers":{"o}":{}},"x":"\"mcpServers\":{\\"}`, `{"\u006dcpServers":{"o}":{},` + testCompact + `},"x":"\"mcpServers\":{\\"}`, ""},
	{"servers deeper inside are others", `{"projects":{"/p":{"mcpServers":{"dsh_agentlink":{}}}}}`,
		`{"projects":{"/p":{"mcpServers":{"dsh_agentlink":{}}}},"mcpServers":{` + testCompact + `}}`, ""},
	{"white space everywhere", " { \"a\" : 1 ,\n\n \"b\" : 2 } \n\n", " { \"a\" : 1 ,\n\n \"b\" : 2,\n\n \"mcpServers\": {\n  " + testMember("  ", " ") + "\n } } \n\n", ""},
}

func TestClaudeAddsAndRemoves(t *testing.T) {
	for _, c := range jsonShapes {
		t.Run(c.name, func(t *testing.T) {
			places := jsonFile(t, c.before)
			plan, err := Claude(places, testServer, false)
			carry(t, plan, err)
			if diff := cmp.Diff(c.after, read(t, places.Servers)); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
			if info, err := os.Stat(places.Servers); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			again, err := Claude(places, testServer, false)
			if err != nil || again.Changed() {
				t.Errorf("the second time: %+v, %v", again, err)
			}
			plan, err = RemoveClaude(places)
			carry(t, plan, err)
			want := c.restored
			switch want {
			case "-":
				if _, err := os.Stat(places.Servers); !errors.Is(err, os.ErrNotExist) {
					t.Error("a file with nothing in it is left")
				}
				return
			case "":
				want = c.before
			}
			if diff := cmp.Diff(want, read(t, places.Servers)); diff != "" {
				t.Errorf("after the removal, -want +got:\n%s", diff)
			}
		})
	}
}

func TestClaudeReplaces(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"ours first", `{"mcpServers":{"dsh_agentlink":{"command":"old"},"o":{}}}`, `{"mcpServers":{"o":{},` + testCompact + `}}`},
		{"ours last", `{"mcpServers":{"o":{},"dsh-agentlink":{}}}`, `{"mcpServers":{"o":{},` + testCompact + `}}`},
		{"both, and an older one between", `{"mcpServers":{"dsh_agentlink":{},"o":{},"dsh_collab":{},"p":{}}}`, `{"mcpServers":{"o":{},"p":{},` + testCompact + `}}`},
		{"alone", `{"mcpServers":{"dsh_collab":{}},"n":1}`, `{"n":1,"mcpServers":{` + testCompact + `}}`},
		{"twice", `{"mcpServers":{"dsh_agentlink":{},"o":{},"dsh_agentlink":{}}}`, `{"mcpServers":{"o":{},` + testCompact + `}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			places := jsonFile(t, c.before)
			var conflict *ConflictError
			if _, err := Claude(places, testServer, false); !errors.As(err, &conflict) {
				t.Fatalf("got %v, want a conflict", err)
			}
			if read(t, places.Servers) != c.before {
				t.Error("the file was changed all the same")
			}
			plan, err := Claude(places, testServer, true)
			carry(t, plan, err)
			if diff := cmp.Diff(c.after, read(t, places.Servers)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestClaudeRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"no JSON", "{\n\"a\" 1}", "line 2"},
		{"a comment", "{ // x\n}", "comments"},
		{"a comma too many", `{"a":1,}`, "trailing commas"},
		{"two documents", "{}\n{}", "line 2"},
		{"a list", "[]", "no object"},
		{"servers that are no object", `{"mcpServers":[]}`, "mcpServers is no object"},
		{"servers that are null", `{"mcpServers":null}`, "mcpServers is no object"},
		{"servers twice", `{"mcpServers":{},"mcpServers":{}}`, "given twice"},
		{"nested too deep", strings.Repeat("[", 20_000), "cannot be parsed"},
	} {
		places := jsonFile(t, c.text)
		for _, plan := range []func() (*Plan, error){
			func() (*Plan, error) { return Claude(places, testServer, true) },
			func() (*Plan, error) { return RemoveClaude(places) },
		} {
			_, err := plan()
			var refused *RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %v, want a refusal that says %q", c.name, err, c.says)
			}
		}
		if read(t, places.Servers) != c.text {
			t.Errorf("%s: the file was changed", c.name)
		}
		if _, err := os.Stat(places.Skill); err == nil {
			t.Errorf("%s: a skill was installed", c.name)
		}
	}
}

func TestClaudeHugeFile(t *testing.T) {
	text := `{"projects":{` + strings.Repeat(`"p":{"history":["`+strings.Repeat("x", 10_000)+`",1.50,null]},`, 530) + `"q":{}}}`
	places := jsonFile(t, text)
	plan, err := Claude(places, testServer, false)
	carry(t, plan, err)
	if diff, ok := plan.Changes[0].Diff(); ok {
		t.Errorf("a diff of %d bytes on one line is shown", len(diff))
	}
	plan, err = RemoveClaude(places)
	carry(t, plan, err)
	if read(t, places.Servers) != text {
		t.Error("the removal does not give the file back")
	}
}

func TestClaudePlaces(t *testing.T) {
	user := ClaudeUser("/h", "")
	moved := ClaudeUser("/h", "/c")
	project := ClaudeProject("/p", "/h", "")
	got := fmt.Sprint(user.Servers, user.Skill, moved.Servers, moved.Skill, project.Servers, project.Skill)
	want := fmt.Sprint("/h/.claude.json", "/h/.claude/skills/dsh-agentlink/SKILL.md", "/c/.claude.json", "/c/skills/dsh-agentlink/SKILL.md",
		"/p/.mcp.json", "/p/.claude/skills/dsh-agentlink/SKILL.md")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestClaudeTellsOfLocalEntries(t *testing.T) {
	places := jsonFile(t, "")
	text := fmt.Sprintf(`{"projects":{%q:{"mcpServers":{"dsh-agentlink":{}}}}}`, places.dir)
	if err := os.WriteFile(places.user, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	plan, err := Claude(places, testServer, false)
	if err != nil || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "--scope local dsh-agentlink") {
		t.Errorf("notes %q, %v", plan.Notes, err)
	}
}

// A skill that nobody edited is ours to bring up to date and to remove; one that somebody edited is theirs.
func TestSkill(t *testing.T) {
	older := "---\nname: dsh-agentlink\n---\nolder\n"
	places := jsonFile(t, "")
	if err := os.MkdirAll(filepath.Dir(places.Skill), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(places.Skill, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(older + markLine([]byte(older)))
	plan, err := Claude(places, testServer, false)
	carry(t, plan, err)
	if read(t, places.Skill) != string(markedSkill()) {
		t.Error("an older skill was not brought up to date")
	}
	edited := strings.Replace(string(markedSkill()), "Supervise", "Watch", 1)
	write(edited)
	var conflict *ConflictError
	if _, err := Claude(places, testServer, false); !errors.As(err, &conflict) {
		t.Errorf("an edited skill: %v, want a conflict", err)
	}
	plan, err = RemoveClaude(places)
	carry(t, plan, err)
	if read(t, places.Skill) != edited || len(plan.Notes) != 1 {
		t.Errorf("an edited skill did not stay, or was not told of: %q", plan.Notes)
	}
	plan, err = Claude(places, testServer, true)
	done := carry(t, plan, err)
	if read(t, done[1].Backup) != edited {
		t.Error("no backup of the edited skill")
	}
	if err := os.Remove(done[1].Backup); err != nil {
		t.Fatal(err)
	}
	plan, err = RemoveClaude(places)
	carry(t, plan, err)
	if _, err := os.Stat(filepath.Dir(places.Skill)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the skill's folder is left")
	}
}
