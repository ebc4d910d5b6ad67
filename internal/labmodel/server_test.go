package labmodel

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T) *Server {
	t.Helper()
	s, err := Serve(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// chunk is what a provider's client reads of a stream.
type chunk struct {
	Model   string
	Choices []struct {
		Delta struct {
			Content   string
			ToolCalls []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		Total int `json:"total_tokens"`
	}
}

// answer is a whole streamed answer.
type answer struct {
	Status int
	Words  []string
	Tool   string
	Args   string
	Finish string
	Tokens int
	Done   bool
}

func ask(t *testing.T, ctx context.Context, url, body string) (answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{Status: resp.StatusCode}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			a.Done = true
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatalf("chunk %q: %v", data, err)
		}
		delta := c.Choices[0].Delta
		if delta.Content != "" {
			a.Words = append(a.Words, delta.Content)
		}
		for _, call := range delta.ToolCalls {
			a.Tool, a.Args = call.Function.Name, call.Function.Arguments
		}
		if c.Choices[0].FinishReason != "" {
			a.Finish = c.Choices[0].FinishReason
		}
		if c.Usage != nil {
			a.Tokens = c.Usage.Total
		}
	}
	return a, lines.Err()
}

func body(messages string) string {
	return fmt.Sprintf(`{"model":"m","tools":[{"type":"function"}],"messages":[%s]}`, messages)
}

func TestServe(t *testing.T) {
	s := serve(t)
	tests := []struct {
		name string
		body string
		want answer
	}{
		{"words", body(`{"role":"user","content":"LAB:{\"steps\":[{\"say\":\"one two\"}]}"}`),
			answer{Status: 200, Words: []string{"one ", "two"}, Finish: "stop", Tokens: 15, Done: true}},
		{"a tool call", body(`{"role":"user","content":[{"type":"text","text":"LAB:{\"steps\":[{\"tool\":\"bash\",\"args\":{ \"command\":\"true\"}}]}"}]}`),
			answer{Status: 200, Tool: "bash", Args: `{"command":"true"}`, Finish: "tool_calls", Tokens: 15, Done: true}},
		{"after a result", body(`{"role":"user","content":"LAB:{\"steps\":[{\"tool\":\"bash\"}]}"},{"role":"tool","content":"out"}`),
			answer{Status: 200, Words: []string{"done ", "after ", "1 ", "tool ", "results: ", "out"}, Finish: "stop", Tokens: 15, Done: true}},
		{"a failure", body(`{"role":"user","content":"LAB:{\"steps\":[{\"status\":429,\"hangMs\":60000}]}"}`), answer{Status: 429}},
		{"a status that HTTP does not have", body(`{"role":"user","content":"LAB:{\"steps\":[{\"status\":7}]}"}`), answer{Status: 500}},
		{"a title request", `{"messages":[{"role":"user","content":"LAB:{\"steps\":[{\"status\":500}]}"}]}`,
			answer{Status: 200, Words: []string{"Lab ", "title"}, Finish: "stop", Tokens: 15, Done: true}},
		{"no JSON", `{`, answer{Status: 200, Words: []string{"Lab ", "title"}, Finish: "stop", Tokens: 15, Done: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ask(t, t.Context(), s.URL(), tt.body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestModels(t *testing.T) {
	s := serve(t)
	resp, err := http.Get(s.URL() + "/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Data) != 1 {
		t.Errorf("models = %+v, %v", list, err)
	}
}

// A client that gives up, and a server that closes, both end an answer that would take an hour.
func TestHangEnds(t *testing.T) {
	hang := body(`{"role":"user","content":"LAB:{\"steps\":[{\"hangMs\":3600000}]}"}`)
	t.Run("the client gives up", func(t *testing.T) {
		s := serve(t)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := ask(t, ctx, s.URL(), hang); err == nil {
			t.Error("an answer came")
		}
	})
	t.Run("the server closes", func(t *testing.T) {
		s := serve(t)
		failed := make(chan error)
		go func() {
			_, err := ask(t, context.Background(), s.URL(), hang)
			failed <- err
		}()
		s.Close()
		select {
		case <-failed:
		case <-time.After(5 * time.Second):
			t.Error("the call still waits")
		}
	})
}

func TestServeRefuses(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "example.com:80", "127.0.0.1"} {
		if s, err := Serve(t.Context(), addr); err == nil {
			s.Close()
			t.Errorf("Serve(%q) started", addr)
		}
	}
}
