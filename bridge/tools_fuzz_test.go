package bridge

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/labmodel"
)

// FuzzToolCalls calls every tool with whatever arguments for a task that waits for an answer, through what a client
// reaches. The answer is one block of valid JSON, and a failure has one of the documented codes and a message. In the
// arguments $T is the task, $R its pending request and $D its directory. Seeds are in testdata.
func FuzzToolCalls(f *testing.F) {
	dir := f.TempDir()
	host := dshtest.New(dshtest.Options{})
	if err := host.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(host.Close)
	u, err := dsh.ParseURL(host.URL(), false)
	if err != nil {
		f.Fatal(err)
	}
	h, err := home.Open(filepath.Join(dir, "bridge"))
	if err != nil {
		f.Fatal(err)
	}
	client := dsh.New(u, dsh.Options{RequestTimeout: 2 * time.Second})
	b := New(Options{Host: client, HostURL: u.String(), Home: h, LockTimeout: time.Second, Quiet: 10 * time.Millisecond})
	b.Start()
	f.Cleanup(func() { b.Close(); client.CloseIdle() })

	call := func(tb testing.TB, t tool, raw string) (text string, failed bool) {
		tb.Helper()
		ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
		defer cancel()
		var request mcp.CallToolRequest
		request.Params.RawArguments = json.RawMessage(raw)
		result, err := b.handler(t)(ctx, request)
		if err != nil || len(result.Content) != 1 {
			tb.Fatalf("%s %s: %v, %v", t.definition.Name, raw, result, err)
		}
		block, ok := result.Content[0].(mcp.TextContent)
		if !ok {
			tb.Fatalf("%s %s answered with a %T", t.definition.Name, raw, result.Content[0])
		}
		return block.Text, result.IsError
	}
	byName := func(name string) tool {
		return b.tools()[slices.IndexFunc(b.tools(), func(t tool) bool { return t.definition.Name == name })]
	}
	ask := dshtest.Script(labmodel.Step{Tool: "ask_user_question", Args: json.RawMessage(`{"questions":[{"id":"q","question":"Which?","options":[{"label":"a"},{"label":"b"}]}]}`)})
	raw, err := json.Marshal(args{"prompt": ask, "cwd": dir, "waitSeconds": 9})
	if err != nil {
		f.Fatal(err)
	}
	var task seen
	if text, failed := call(f, byName("dsh_delegate"), string(raw)); failed || json.Unmarshal([]byte(text), &task) != nil || len(task.Pending) != 1 {
		f.Fatalf("the task: %s", text)
	}
	var documented []string
	var once sync.Once
	fill := strings.NewReplacer("$T", task.TaskID, "$R", task.Pending[0].RequestID, "$D", dir)
	f.Fuzz(func(t *testing.T, raw string) {
		once.Do(func() { documented = codes(t) })
		raw = fill.Replace(raw)
		for _, tool := range b.tools() {
			text, failed := call(t, tool, raw)
			if !json.Valid([]byte(text)) {
				t.Fatalf("%s %q answered %q", tool.definition.Name, raw, text)
			}
			var answer struct {
				Error *struct{ Code, Message string }
			}
			if err := json.Unmarshal([]byte(text), &answer); err != nil || (answer.Error != nil) != failed {
				t.Fatalf("%s %q answered %s, a failure: %t, %v", tool.definition.Name, raw, text, failed, err)
			}
			if failed && (!slices.Contains(documented, answer.Error.Code) || answer.Error.Message == "" || answer.Error.Code == string(CodeInternal)) {
				t.Fatalf("%s %q failed with %s", tool.definition.Name, raw, text)
			}
		}
	})
}
