package labmodel

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		text string
		want Script
		ok   bool
	}{
		{"no marker", `say {"steps":[]}`, Script{}, false},
		{"marker without an object", "LAB: later", Script{}, false},
		{"unfinished object", `LAB:{"steps":[{"say":"x"}]`, Script{}, false},
		{"not JSON", `LAB:{steps}`, Script{}, false},
		{"wrong types", `LAB:{"steps":7}`, Script{}, false},
		{"text around it", `go LAB:{"steps":[{"say":"hi"}]} please`, Script{Steps: []Step{{Say: "hi"}}}, true},
		{"unknown fields", `LAB:{"x":1,"loop":2}`, Script{Loop: 2}, true},
		{"braces and quotes in strings", `LAB:{"steps":[{"say":"a } \" { b"}]}`, Script{Steps: []Step{{Say: `a } " { b`}}}, true},
		{"a script inside a script", `LAB:{"steps":[{"tool":"subagent","args":{"prompt":"LAB:{\"loop\":1}"}}]}`,
			Script{Steps: []Step{{Tool: "subagent", Args: json.RawMessage(`{"prompt":"LAB:{\"loop\":1}"}`)}}}, true},
		{"the first of two", `LAB:{"loop":1} LAB:{"loop":2}`, Script{Loop: 1}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := Parse(tt.text)
			if ok != tt.ok || !cmp.Equal(got, tt.want) {
				t.Errorf("Parse = %v, want %v\n%s", ok, tt.ok, cmp.Diff(tt.want, got))
			}
		})
	}
}

func TestWords(t *testing.T) {
	tests := []struct {
		step Step
		want []string
	}{
		{Step{}, []string{""}},
		{Step{Say: "one"}, []string{"one"}},
		{Step{Say: "one two "}, []string{"one ", "two "}},
		{Step{Say: "a  b"}, []string{"a ", " ", "b"}},
		{Step{Say: "w ", Repeat: 3}, []string{"w ", "w ", "w "}},
		{Step{Say: "w", Repeat: -1}, []string{"w"}},
	}
	for _, tt := range tests {
		if got := slices.Collect(tt.step.Words()); !slices.Equal(got, tt.want) {
			t.Errorf("Words of %+v = %q, want %q", tt.step, got, tt.want)
		}
	}
}

// scripts generates scripts as a caller could write them.
func scripts() *rapid.Generator[Script] {
	args := rapid.Custom(func(t *rapid.T) json.RawMessage {
		m := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "args")
		if len(m) == 0 {
			return nil
		}
		b, err := encode(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
	step := rapid.Custom(func(t *rapid.T) Step {
		return Step{
			Say:     rapid.String().Draw(t, "say"),
			Repeat:  rapid.IntRange(0, 4).Draw(t, "repeat"),
			DelayMs: rapid.IntRange(0, 4).Draw(t, "delay"),
			Tool:    rapid.SampledFrom([]string{"", "bash", `odd "name"`}).Draw(t, "tool"),
			Args:    args.Draw(t, "args"),
			Status:  rapid.SampledFrom([]int{0, 0, 400}).Draw(t, "status"),
		}
	})
	return rapid.Custom(func(t *rapid.T) Script {
		return Script{
			Steps: rapid.SliceOfN(step, 1, 4).Draw(t, "steps"),
			Loop:  rapid.IntRange(0, 3).Draw(t, "loop"),
			Args:  args.Draw(t, "loop args"),
		}
	})
}

// A script survives the way through a prompt, whatever strings it holds.
func TestPromptRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := scripts().Draw(t, "script")
		got, ok := Parse(want.Prompt("do it"))
		if !ok {
			t.Fatalf("no script in %q", want.Prompt("do it"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The words of a step make up its text.
func TestWordsJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := Step{Say: rapid.StringMatching(`[a ]*`).Draw(t, "say"), Repeat: rapid.IntRange(1, 3).Draw(t, "repeat")}
		got := strings.Join(slices.Collect(step.Words()), "")
		if want := strings.Repeat(step.Say, step.Repeat); got != want {
			t.Fatalf("words join to %q, want %q", got, want)
		}
	})
}

// Prompts of agents hold scripts inside the strings of scripts.
func TestPromptNests(t *testing.T) {
	inner := Script{Steps: []Step{{Say: `the "child" {`}}}
	args, err := encode(map[string]string{"prompt": inner.Prompt("child")})
	if err != nil {
		t.Fatal(err)
	}
	outer, ok := Parse(Script{Steps: []Step{{Tool: "subagent", Args: args}}}.Prompt("parent"))
	if !ok {
		t.Fatal("no outer script")
	}
	var got struct{ Prompt string }
	if err := json.Unmarshal([]byte(outer.Steps[0].Arguments()), &got); err != nil {
		t.Fatal(err)
	}
	if s, ok := Parse(got.Prompt); !ok || !cmp.Equal(s, inner) {
		t.Errorf("inner script = %+v, %v", s, ok)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`go LAB:{"steps":[{"tool":"bash","args":{"command":"true"}},{"say":"x","repeat":2}]}`)
	f.Add(`LAB:{"loop":3} tail }`)
	f.Add(`LAB:{"a":"\"}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, ok := Parse(text)
		if !ok {
			return
		}
		again, ok := Parse(s.Prompt("x"))
		if !ok {
			t.Fatalf("the script of %q does not survive its own prompt", text)
		}
		var c Conversation
		c.User(text)
		for range 3 {
			step := c.Next()
			step.Arguments()
			c.ToolResult("r")
		}
		if len(again.Steps) != len(s.Steps) {
			t.Fatalf("%d steps became %d", len(s.Steps), len(again.Steps))
		}
	})
}
