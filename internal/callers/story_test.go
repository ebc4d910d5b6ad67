//go:build callers

package callers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/internal/scenario/livehost"

	// What the binary is made of: a result of these tests must not be kept over a change of it.
	_ "dsh-agentlink/internal/cli"
)

// binary is the built dsh-agentlink.
var binary string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "callers-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "dsh-agentlink")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "dsh-agentlink")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the binary:", err)
		return 1
	}
	return m.Run()
}

// startHost starts a real host.
func startHost(t *testing.T, installation *livehost.Installation) *livehost.Host {
	t.Helper()
	host, err := installation.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		host.Close()
		if t.Failed() {
			t.Logf("the host said:\n%s", host.Log())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	if err := host.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return host
}

// The answer that the person gives in the story, and the last words of the supervising model.
const (
	chosen    = "blue"
	lastWords = "The task is done and its workspace released."
)

// supervision is the whole of a supervised task: delegate, wait for the question, look, answer it, wait for the end,
// look again, release. The task asks which colour, writes the answer to a file by a command, and says so.
func supervision(t *testing.T, workspace string) *story {
	question := json.RawMessage(`{"questions":[{"id":"color","question":"Which color?","options":[{"label":"red"},{"label":"blue"}]}]}`)
	command := json.RawMessage(`{"command":"echo painted > painted.txt","description":"paint"}`)
	script := labmodel.Script{Steps: []labmodel.Step{
		{Tool: "ask_user_question", Args: question},
		{Tool: "bash", Args: command},
		{Say: "Painted it."},
	}}
	task := func(s *story) string { return s.answer(0).Get("taskId").String() }
	wait := func(from int, key string) func(*story) map[string]any {
		return func(s *story) map[string]any {
			return map[string]any{"taskId": task(s), "until": "attention", "timeoutSec": 30, "sinceCursor": s.answer(from).Get(key).Int()}
		}
	}
	tail := func(s *story) map[string]any { return map[string]any{"taskId": task(s), "sinceCursor": 0} }
	return &story{t: t, say: lastWords, steps: []step{
		{"dsh_delegate", func(*story) map[string]any {
			return map[string]any{"prompt": script.Prompt("Paint it."), "cwd": workspace, "title": "Paint", "requestId": "paint-1"}
		}},
		{"dsh_wait", wait(0, "cursor")},
		{"dsh_tail", tail},
		{"dsh_answer_question", func(s *story) map[string]any {
			return map[string]any{"taskId": task(s), "requestId": s.answer(1).Get("pending.0.requestId").String(),
				"answers": []any{map[string]any{"id": "color", "selected": []string{chosen}}}}
		}},
		{"dsh_wait", wait(1, "nextCursor")},
		{"dsh_tail", tail},
		{"dsh_release_workspace", func(s *story) map[string]any { return map[string]any{"taskId": task(s)} }},
	}}
}

// check holds the story against the caller's words, the bridge's home and the host.
func (s *story) check(p *place, host *livehost.Host, printed string) {
	t := p.t
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range s.answers {
		t.Logf("%s: %s", s.steps[i].tool, p.tidy(a.Raw))
	}
	if len(s.answers) != len(s.steps) {
		t.Fatalf("the model saw %d answers, want %d", len(s.answers), len(s.steps))
	}
	if !strings.Contains(printed, lastWords) {
		t.Error("the caller does not print the model's last words")
	}
	for _, name := range []string{"dsh_delegate", "dsh_wait", "dsh_tail", "dsh_answer_question", "dsh_resolve_approval", "dsh_release_workspace"} {
		if !slices.Contains(s.tools, name) {
			t.Errorf("the caller does not offer %s to its model", name)
		}
	}
	for path, want := range map[string]string{
		"0.accepted": "true", "1.reason": "attention", "1.pending.0.type": "question", "1.pending.0.questions.0.question": "Which color?",
		"4.reason": "terminal", "4.execution": "turn_completed", "4.finalMessage.text": "Painted it.",
	} {
		i, field, _ := strings.Cut(path, ".")
		if got := s.answer(int(i[0] - '0')).Get(field).String(); got != want {
			t.Errorf("answer %s: %s is %q, want %q", i, field, got, want)
		}
	}
	id := s.answer(0).Get("taskId").String()
	if _, err := os.Stat(filepath.Join(p.bridgeHome, "tasks", id+".json")); err != nil {
		t.Errorf("the bridge's home has no task: %v", err)
	}
	if _, err := os.Stat(filepath.Join(p.bridgeHome, "claims", id+".json")); err == nil {
		t.Error("the claim was not released")
	}
	if data, err := os.ReadFile(filepath.Join(p.ws, "painted.txt")); err != nil || string(data) != "painted\n" {
		t.Errorf("the task's work: %q, %v", data, err)
	}
	s.checkHost(host)
}

// checkHost looks for the answer in the host's own history.
func (s *story) checkHost(host *livehost.Host) {
	s.t.Helper()
	body := encode(map[string]any{"type": "client-request", "rpcId": "look", "method": "session.history",
		"payload": map[string]any{"sessionId": s.answer(0).Get("sessionId").String(), "maxMessages": 1000}})
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, host.URL()+"/api/session.history", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("content-type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var history bytes.Buffer
	if _, err := history.ReadFrom(resp.Body); err != nil {
		s.t.Fatal(err)
	}
	answered, completed := false, false
	for _, item := range gjson.Get(history.String(), "result.value.events").Array() {
		event := item.Get("event")
		switch event.Get("type").String() {
		case "tool/result":
			answered = answered || strings.Contains(event.Raw, `\"selected\":[\"`+chosen+`\"]`)
		case "turn/end":
			completed = event.Get("data.reason.kind").String() == "completed"
		}
	}
	if !answered || !completed {
		s.t.Errorf("the host's history has the answer: %v, a completed turn: %v\n%.2000s", answered, completed, history.String())
	}
}
