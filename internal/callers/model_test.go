//go:build callers

package callers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// server is the name of the bridge in both callers' configurations.
const server = "dsh_agentlink"

// step is one tool call of the scripted model. Its arguments come from what the tools have answered so far.
type step struct {
	tool string
	args func(s *story) map[string]any
}

// story is what a scripted model does in a conversation: its steps, one after the other, then its last words.
type story struct {
	t     *testing.T
	steps []step
	say   string

	mu sync.Mutex
	// answers are the bridge's, one for each step that was played, as the caller handed them to the model.
	answers []gjson.Result
	results []string // the same as text
	tools   []string // that the caller offered, by their plain names
	skill   bool     // whether the caller told the model of the skill
}

// answer is the bridge's answer to step i.
func (s *story) answer(i int) gjson.Result {
	if i < 0 || i >= len(s.answers) {
		return gjson.Result{}
	}
	return s.answers[i]
}

// serveModel serves both callers' APIs on loopback, OpenAI's Responses and Anthropic's Messages, and returns its address.
func serveModel(t *testing.T, s *story) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = web.Serve(listener) // its end is asked for below
	}()
	t.Cleanup(func() {
		_ = web.Close()
		<-gone
	})
	return "http://" + listener.Addr().String()
}

func (s *story) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
	if err != nil {
		return
	}
	request := gjson.ParseBytes(body)
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/responses"):
		s.responses(w, request)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages"):
		s.mu.Lock()
		s.skill = s.skill || bytes.Contains(body, []byte("dsh-agentlink: Delegate a whole coding task"))
		s.mu.Unlock()
		s.messages(w, request)
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		fmt.Fprint(w, `{"input_tokens":1}`)
	default:
		w.Header().Set("content-type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"id":"lab","object":"model"}],"models":[]}`)
	}
}

// next takes in the results of a conversation and returns the next step, nil for the last words. Asking again, as a
// caller does after a fault, gives the same step.
func (s *story) next(results []string, tools []string) (*step, map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(tools) == 0 {
		return nil, nil // a title or a summary that the caller asks for beside the conversation
	}
	s.tools = tools
	s.answers, s.results = s.answers[:0], results
	for _, text := range results {
		s.answers = append(s.answers, bridgeAnswer(text))
	}
	if len(results) >= len(s.steps) {
		return nil, nil
	}
	next := &s.steps[len(results)]
	return next, next.args(s)
}

// bridgeAnswer finds the bridge's JSON in what a caller made of it: the text itself, a list of content blocks, or the
// one or the other behind words of the caller's own.
func bridgeAnswer(text string) gjson.Result {
	for _, at := range regexp.MustCompile(`[\[{]`).FindAllStringIndex(text, -1) {
		rest := text[at[0]:]
		var raw json.RawMessage
		if json.NewDecoder(strings.NewReader(rest)).Decode(&raw) != nil {
			continue
		}
		value := gjson.ParseBytes(raw)
		if inner := value.Get("0.text"); inner.Exists() {
			return bridgeAnswer(inner.String())
		}
		if inner := value.Get("content.0.text"); inner.Exists() {
			return bridgeAnswer(inner.String())
		}
		if value.IsObject() {
			return value
		}
	}
	return gjson.Result{}
}

// event writes one server-sent event.
func event(w io.Writer, name string, data map[string]any) {
	data["type"] = name
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // maps and strings can be marshalled
	}
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text)
}
