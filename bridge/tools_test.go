package bridge

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a committed file; a difference is a change of the contract with callers.
func golden(t *testing.T, path string, text []byte) {
	t.Helper()
	path = filepath.Join("testdata", path)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test ./bridge -update when the change is wanted", err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("%s changed (-committed +now); run go test ./bridge -update when that is wanted:\n%s", path, diff)
	}
}

func indent(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func TestToolSchemas(t *testing.T) {
	var names []string
	for _, tool := range new(Bridge).tools() {
		names = append(names, tool.definition.Name)
		golden(t, "tools/"+tool.definition.Name+".json", indent(t, tool.definition))
	}
	files, err := filepath.Glob("testdata/tools/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".json"); !slices.Contains(names, name) {
			t.Errorf("%s is the schema of no tool", file)
		}
	}
}

func TestInstructionsAreShort(t *testing.T) {
	if n := len([]rune(Instructions)); n >= 1200 {
		t.Errorf("the instructions have %d characters, callers cut them at 1,200", n)
	}
}

func TestDescriptionsHoldTheWordsOfASearch(t *testing.T) {
	all := ""
	for _, tool := range new(Bridge).tools() {
		all += strings.ToLower(tool.definition.Description) + "\n"
	}
	for _, word := range []string{"delegate", "deepseek", "agent", "task", "progress"} {
		if !strings.Contains(all, word) {
			t.Errorf("no description has the word %q", word)
		}
	}
}

// unstable are the parts of an answer that differ from run to run.
var unstable = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`dsh_[0-9a-f]{12}`), "dsh_TASK"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`call_lab-[0-9_]+`), "CALL"},
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+`), "HOST"},
	{regexp.MustCompile(`"revision":"[0-9a-f]{12}"`), `"revision":"REVISION"`},
	{regexp.MustCompile(`"(cursor|nextCursor|seq)":\d+`), `"$1":0`},
}

// stable makes an answer comparable, one event a line.
func (r *rig) stable(text json.RawMessage) []byte {
	s := strings.ReplaceAll(string(text), r.dir, "DIR")
	for _, u := range unstable {
		s = u.pattern.ReplaceAllString(s, u.name)
	}
	return []byte(strings.ReplaceAll(s, `},{"cursor"`, "},\n{\"cursor\"") + "\n")
}

// The answers of a one-turn task, whole. Their sizes are what a supervisor pays.
func TestAnswers(t *testing.T) {
	r := newRig(t)
	cwd := r.workspace("project")
	var task seen
	prompt := "Greet. " + dshtest.Script(
		labmodel.Step{Tool: "bash", Args: json.RawMessage(`{"command":"echo hello","description":"Greet"}`)},
		labmodel.Step{Say: "I printed hello."})
	text := r.call("dsh_delegate", args{"prompt": prompt, "cwd": cwd, "title": "Greet", "waitSeconds": 20}, &task)
	golden(t, "answers/delegate.json", r.stable(text))
	id := args{"taskId": task.TaskID}
	// The host names the session itself after the turn; wait until the title stands, so that nothing moves below.
	if _, err := r.host.WaitEvent(t.Context(), task.SessionID, "session/title", 3); err != nil {
		t.Fatal(err)
	}
	for _, call := range []struct {
		file, tool string
		args       args
	}{
		{"host_status", "dsh_host_status", args{}},
		{"wait", "dsh_wait", id},
		{"status", "dsh_status", id},
		{"tail", "dsh_tail", id},
		{"list", "dsh_list", args{"state": "all"}},
		{"followup", "dsh_followup", args{"taskId": task.TaskID, "prompt": "Again. " + dshtest.Script(labmodel.Step{Status: 400}), "waitSeconds": 20}},
		{"status_failed", "dsh_status", id},
		{"cancel_turn", "dsh_cancel", id},
		{"cancel_queue", "dsh_cancel", args{"taskId": task.TaskID, "scope": "queue"}},
		{"release", "dsh_release_workspace", id},
	} {
		golden(t, "answers/"+call.file+".json", r.stable(r.call(call.tool, call.args, nil)))
	}
}
