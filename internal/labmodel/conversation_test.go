package labmodel

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConversation(t *testing.T) {
	const (
		user = "user"
		tool = "tool"
	)
	type message struct{ role, text string }
	two := `go LAB:{"steps":[{"tool":"bash"},{"say":"end"}]}`
	tests := []struct {
		name     string
		messages []message
		want     Step
	}{
		{"nothing said", nil, Step{Say: "done"}},
		{"no script", []message{{user, "hello"}}, Step{Say: "done"}},
		{"no script, a result", []message{{user, "hello"}, {tool, "out"}}, Step{Say: "done after 1 tool results: out"}},
		{"first step", []message{{user, two}}, Step{Tool: "bash"}},
		{"second step", []message{{user, two}, {tool, "out"}}, Step{Say: "end"}},
		{"used up", []message{{user, two}, {tool, "a"}, {tool, "b"}}, Step{Say: "done after 2 tool results: b"}},
		{"the host's context behind the prompt", []message{{user, two}, {user, "context"}, {tool, "out"}, {user, "notice"}}, Step{Say: "end"}},
		{"asked again without a result", []message{{user, two}, {tool, "out"}, {user, "next turn"}}, Step{Say: "end"}},
		{"a broken script changes nothing", []message{{user, two}, {user, "LAB:{"}}, Step{Tool: "bash"}},
		{"steered", []message{{user, two}, {tool, "out"}, {user, `LAB:{"steps":[{"say":"steered"}]}`}}, Step{Say: "steered"}},
		{"results before a new script", []message{{user, two}, {tool, "out"}, {user, `LAB:{}`}}, Step{Say: "done"}},
		{"loop", []message{{user, `LAB:{"loop":2}`}, {tool, "out"}},
			Step{Tool: "bash", Args: json.RawMessage(`{"command":"true","description":"step"}`)}},
		{"loop with a tool", []message{{user, `LAB:{"loop":1,"tool":"x","args":{"a":1}}`}}, Step{Tool: "x", Args: json.RawMessage(`{"a":1}`)}},
		{"after the loop", []message{{user, `LAB:{"loop":1}`}, {tool, "out"}}, Step{Say: "done after 1 tool results: out"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c Conversation
			for _, m := range tt.messages {
				if m.role == user {
					c.User(m.text)
				} else {
					c.ToolResult(m.text)
				}
			}
			got := c.Next()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if again := c.Next(); !cmp.Equal(got, again) {
				t.Errorf("asked again: %+v", again)
			}
		})
	}
}

func TestLongResultIsCut(t *testing.T) {
	var c Conversation
	c.ToolResult(strings.Repeat("ü", 300))
	want := "done after 1 tool results: " + strings.Repeat("ü", 200)
	if got := c.Next().Say; got != want {
		t.Errorf("say = %q", got)
	}
}
