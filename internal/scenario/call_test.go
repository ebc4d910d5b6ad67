package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tidwall/gjson"
)

// args are the arguments of a tool call.
type args = map[string]any

// answer is what a tool call was answered with.
type answer struct {
	t       *testing.T
	tool    string
	text    string // the one text block
	isError bool
}

// get reads a member by its path.
func (a answer) get(path string) gjson.Result { return gjson.Get(a.text, path) }

// str and num read a member that has to be there.
func (a answer) str(path string) string { a.t.Helper(); return a.must(path).String() }
func (a answer) num(path string) int64  { a.t.Helper(); return a.must(path).Int() }

func (a answer) must(path string) gjson.Result {
	a.t.Helper()
	r := a.get(path)
	if !r.Exists() {
		a.t.Fatalf("%s: there is no %s in %s", a.tool, path, a.text)
	}
	return r
}

// want checks members against values; the value nil means that the member must not be there.
func (a answer) want(members map[string]any) answer {
	a.t.Helper()
	for path, value := range members {
		r := a.get(path)
		switch {
		case value == nil && r.Exists():
			a.t.Errorf("%s: %s is %s, it should not be there\n%s", a.tool, path, r.Raw, a.text)
		case value != nil && (!r.Exists() || fmt.Sprint(r.Value()) != fmt.Sprint(value)):
			a.t.Errorf("%s: %s is %s, want %v\n%s", a.tool, path, r.Raw, value, a.text)
		}
	}
	return a
}

// call calls a tool that has to succeed.
func (b *bridge) call(tool string, arguments args) answer {
	b.t.Helper()
	a := b.try(tool, arguments)
	if a.isError {
		b.t.Fatalf("%s failed: %s", tool, a.text)
	}
	return a
}

// mustFail calls a tool that has to fail with that code, with words that say what happened.
func (b *bridge) mustFail(code, tool string, arguments args) answer {
	b.t.Helper()
	return b.try(tool, arguments).failed(code)
}

// failed checks that the answer is a failure with that code.
func (a answer) failed(code string) answer {
	a.t.Helper()
	if !a.isError {
		a.t.Fatalf("%s succeeded, want %s: %s", a.tool, code, a.text)
	}
	if got := a.str("error.code"); got != code {
		a.t.Fatalf("%s failed with %s, want %s: %s", a.tool, got, code, a.text)
	}
	if a.str("error.message") == "" {
		a.t.Errorf("%s: the failure has no message: %s", a.tool, a.text)
	}
	return a
}

// try calls a tool.
func (b *bridge) try(tool string, arguments args) answer {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), limit)
	defer cancel()
	return b.begin(ctx, tool, arguments).answer()
}

// pending is a tool call that runs.
type pending struct {
	b    *bridge
	tool string
	done chan struct{} // closed when the call is over
	got  *mcp.CallToolResult
	err  error
}

// begin calls a tool without waiting for it. When ctx ends, the client tells the server that the call is cancelled.
func (b *bridge) begin(ctx context.Context, tool string, arguments args) *pending {
	p := &pending{b: b, tool: tool, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.got, p.err = b.client.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: arguments}})
	}()
	return p
}

// over reports whether the call is over.
func (p *pending) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// answer waits for the call's answer, which has to be one block of compact JSON.
func (p *pending) answer() answer {
	p.b.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.b.t.Fatalf("%s was not answered in %v\n%s", p.tool, limit, p.b.stderr)
	}
	if p.err != nil {
		p.b.t.Fatalf("%s: %v\n%s", p.tool, p.err, p.b.stderr)
	}
	if len(p.got.Content) != 1 {
		p.b.t.Fatalf("%s was answered with %d blocks, want one", p.tool, len(p.got.Content))
	}
	block, ok := p.got.Content[0].(mcp.TextContent)
	if !ok {
		p.b.t.Fatalf("%s was answered with a %T, want text", p.tool, p.got.Content[0])
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(block.Text)); err != nil || compact.String() != block.Text {
		p.b.t.Errorf("%s was not answered with compact JSON: %s", p.tool, block.Text)
	}
	return answer{t: p.b.t, tool: p.tool, text: block.Text, isError: p.got.IsError}
}
