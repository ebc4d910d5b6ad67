package setup

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var documented = Server{Command: "/path/to/dsh-agentlink", Env: map[string]string{"DSH_HOST_URL": "http://127.0.0.1:3080"}}

// Every entry in docs/callers.md parses, names the bridge once, and starts the binary with the host's address.
func TestDocumentedEntries(t *testing.T) {
	doc := read(t, "../../docs/callers.md")
	var entries []string
	for _, block := range regexp.MustCompile("(?s)```(json|toml)\n(.*?)```").FindAllStringSubmatch(doc, -1) {
		parse := parseJSON
		if block[1] == "toml" {
			parse = parseTOML
		}
		document, err := parse([]byte(block[2]))
		if err != nil {
			t.Errorf("%v:\n%s", err, block[2])
			continue
		}
		if found := find(document, Name); len(found) != 1 || !starts(found[0]) {
			t.Errorf("no entry that starts the bridge:\n%s", block[2])
		}
		entries = append(entries, block[2])
	}
	if want := strings.Count(doc, "```") / 2; len(entries) != want || want < 8 {
		t.Fatalf("%d of %d blocks are entries", len(entries), want)
	}
	if diff := cmp.Diff(codexEntry(documented).tables, entries[0]); diff != "" {
		t.Errorf("what setup codex writes (-) and what is documented (+):\n%s", diff)
	}
	claude, err := addJSON(nil, Name, claudeEntry{Type: "stdio", Command: documented.Command, Args: []string{}, Env: documented.Env})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(claude), entries[1]); diff != "" {
		t.Errorf("what setup claude writes (-) and what is documented (+):\n%s", diff)
	}
}

// find returns the objects of that name, however deep.
func find(document map[string]any, name string) []map[string]any {
	var found []map[string]any
	for key, value := range document {
		object, ok := value.(map[string]any)
		switch {
		case ok && key == name:
			found = append(found, object)
		case ok:
			found = append(found, find(object, name)...)
		}
	}
	return found
}

func starts(entry map[string]any) bool {
	command := entry["command"]
	if list, ok := command.([]any); ok && len(list) == 1 {
		command = list[0]
	}
	env, ok := entry["env"].(map[string]any)
	if !ok {
		env, _ = entry["environment"].(map[string]any)
	}
	return command == documented.Command && env["DSH_HOST_URL"] == documented.Env["DSH_HOST_URL"]
}
