// Package demo plays a supervisor against the built-in scripted host: it starts the host, starts this program as a
// STDIO server, and takes one task from its delegation to the release of its workspace. Nothing outside the machine is
// asked and nothing outside a temporary folder is written.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

// limit is when a demo that hangs is given up; it takes about two seconds.
const limit = time.Minute

// Options says what to play and where to tell of it.
type Options struct {
	// Executable is the path of this program.
	Executable string
	Out        io.Writer
	// Log takes what the server says on its standard error.
	Log io.Writer
}

// Run plays the demo. The error says which step did not hold.
func Run(ctx context.Context, opts Options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dir, err := os.MkdirTemp("", "dsh-agentlink-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		return err
	}

	host := dshtest.New(dshtest.Options{Cwd: dir})
	if err := host.Start(); err != nil {
		return fmt.Errorf("start the scripted host: %w", err)
	}
	defer host.Close()

	server, err := client.NewStdioMCPClientWithOptions(opts.Executable, []string{
		"DSH_HOST_URL=" + host.URL(), "DSH_BRIDGE_HOME=" + filepath.Join(dir, "bridge"), "DSH_LOG=error",
		"DSH_BRIDGE_AGENT_PRESET=", "DSH_ALLOW_REMOTE_HOST=", "DSH_HOST_VERSION=", "DSH_REQUEST_TIMEOUT_MS=", "DSH_BRIDGE_TIME_ZONE=UTC",
	}, []string{"serve"}, transport.WithCommandStderrWriter(opts.Log))
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	about, err := server.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: "2025-06-18", ClientInfo: mcp.Implementation{Name: "dsh-agentlink-demo", Version: "1"}}})
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	p := &player{ctx: ctx, server: server, out: opts.Out, project: project}
	p.say("A scripted host runs at %s, and %s %s is its bridge.\n", host.URL(), about.ServerInfo.Name, about.ServerInfo.Version)
	if err := p.play(); err != nil {
		return err
	}
	p.say("\nAll %d calls held.\n", p.calls)
	return nil
}

// player makes the calls and checks the answers.
type player struct {
	ctx     context.Context
	server  *client.Client
	out     io.Writer
	project string
	calls   int
}

func (p *player) say(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

// answer holds what the checks look at.
type answer struct {
	TaskID       string
	Accepted     bool
	Status       string
	Reason       string
	WasRunning   bool
	Released     bool
	FinalMessage struct{ Text string }
	Queue        struct{ Total int }
	Removed      []string
	Events       []struct{ Type, Text, Tool string }
	Model        string
	Workspace    struct{ Cwd string }
}

// call makes one call and prints it with its answer.
func (p *player) call(title, tool string, args map[string]any) (answer, error) {
	p.calls++
	request := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}}
	shown, err := json.Marshal(args)
	if err != nil {
		return answer{}, err
	}
	p.say("\n%d. %s\n   -> %s %s\n", p.calls, title, tool, shown)
	result, err := p.server.CallTool(p.ctx, request)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", tool, err)
	}
	text := ""
	if len(result.Content) == 1 {
		if block, ok := result.Content[0].(mcp.TextContent); ok {
			text = block.Text
		}
	}
	p.show(text)
	var a answer
	if result.IsError {
		return a, fmt.Errorf("%s failed: %s", tool, text)
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return a, fmt.Errorf("%s answered what is not JSON: %w", tool, err)
	}
	return a, nil
}

// shownWidth is how much of a field is printed.
const shownWidth = 110

// show prints an answer, a field a line and each item of its events, in the order in which the caller gets them.
func (p *player) show(text string) {
	line := func(name, value string) {
		if runes := []rune(value); len(runes) > shownWidth {
			value = string(runes[:shownWidth]) + "…"
		}
		p.say("   <- %s %s\n", name, value)
	}
	gjson.Parse(text).ForEach(func(name, value gjson.Result) bool {
		if name.String() != "events" {
			line(name.String()+":", value.Raw)
			return true
		}
		for _, event := range value.Array() {
			line("event:", event.Raw)
		}
		return true
	})
	p.say("      (%d bytes)\n", len(text))
}

// hold is a step's check.
func hold(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("the step did not hold: "+format, args...)
}

func (p *player) play() error {
	about, err := p.call("What would a task run on?", "dsh_host_status", map[string]any{})
	if err = errors.Join(err, hold(about.Model != "", "the host names no model")); err != nil {
		return err
	}
	task, err := p.call("Hand a task over.", "dsh_delegate", map[string]any{
		"title": "Greet", "cwd": p.project,
		"prompt": "Say hello. " + dshtest.Script(
			labmodel.Step{Tool: "bash", Args: json.RawMessage(`{"command":"echo hello","description":"Print a greeting"}`)},
			labmodel.Step{Say: "I printed hello, as you asked.", DelayMs: 60})})
	if err = errors.Join(err, hold(task.Accepted && task.Workspace.Cwd != "", "the task was not accepted")); err != nil {
		return err
	}
	id := task.TaskID
	waited, err := p.call("Wait for its end, skipping mere progress.", "dsh_wait", map[string]any{"taskId": id, "until": "attention"})
	if err = errors.Join(err, hold(waited.Status == "turn_completed" && waited.FinalMessage.Text != "", "the turn did not complete: %s", waited.Status)); err != nil {
		return err
	}
	tail, err := p.call("Read what happened.", "dsh_tail", map[string]any{"taskId": id})
	if err = errors.Join(err, hold(tail.has("tool/call", "bash") && tail.has("turn/end", ""), "the tail lacks the tool call or the turn's end")); err != nil {
		return err
	}
	if err := p.continueAndStop(id); err != nil {
		return err
	}
	released, err := p.call("The work is accepted: give the directory back.", "dsh_release_workspace", map[string]any{"taskId": id})
	return errors.Join(err, hold(released.Released, "the workspace was not released"))
}

// continueAndStop follows the task up with a long turn and a queued message, and stops both.
func (p *player) continueAndStop(id string) error {
	long, err := p.call("Go on, with something that takes long.", "dsh_followup", map[string]any{"taskId": id,
		"prompt": "Count. " + dshtest.Script(labmodel.Step{Say: "one ", Repeat: 600, DelayMs: 50})})
	if err = errors.Join(err, hold(long.Accepted, "the follow-up was not accepted")); err != nil {
		return err
	}
	if _, err := p.call("Queue another message behind it.", "dsh_followup", map[string]any{"taskId": id, "prompt": "And then stop."}); err != nil {
		return err
	}
	status, err := p.call("How does it stand?", "dsh_status", map[string]any{"taskId": id})
	if err = errors.Join(err, hold(status.Status == "running" && status.Queue.Total == 1, "it is %s with %d queued", status.Status, status.Queue.Total)); err != nil {
		return err
	}
	canceled, err := p.call("Stop the turn.", "dsh_cancel", map[string]any{"taskId": id})
	if err = errors.Join(err, hold(canceled.WasRunning, "nothing ran")); err != nil {
		return err
	}
	cleared, err := p.call("Take the queued message back.", "dsh_cancel", map[string]any{"taskId": id, "scope": "queue"})
	if err = errors.Join(err, hold(len(cleared.Removed) == 1, "%d messages were removed", len(cleared.Removed))); err != nil {
		return err
	}
	end, err := p.call("Is it still?", "dsh_wait", map[string]any{"taskId": id, "timeoutSec": 5})
	return errors.Join(err, hold(end.Status == "canceled", "it is %s", end.Status))
}

func (a *answer) has(kind, tool string) bool {
	for _, e := range a.Events {
		if e.Type == kind && (tool == "" || e.Tool == tool) {
			return true
		}
	}
	return false
}
