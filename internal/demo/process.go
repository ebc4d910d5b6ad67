package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tidwall/gjson"
)

// process is one running bridge, and its client.
type process struct {
	client *client.Client
	cmd    *exec.Cmd
}

// person is who sits at the client and is asked before a call is allowed. The supervisor asks the bridge to allow only
// what the person has agreed to already, so that the answer is yes.
type person struct {
	mu    sync.Mutex
	shown string
}

// Elicit shows the person a text.
func (p *person) Elicit(_ context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = request.Params.Message
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept}}, nil
}

// wasShown is the last text that the person was shown.
func (p *person) wasShown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown
}

// startBridge starts this program as a server for one host and one home. Of the user's environment it gets all but
// what is meant for the user's own bridge.
func startBridge(ctx context.Context, opts Options, hostURL, home string, you *person) (*process, error) {
	p := &process{}
	command := func(_ context.Context, path string, _, args []string) (*exec.Cmd, error) {
		p.cmd = exec.Command(path, args...) // ends with its standard input, see end
		for _, pair := range os.Environ() {
			if !strings.HasPrefix(pair, "DSH_") {
				p.cmd.Env = append(p.cmd.Env, pair)
			}
		}
		p.cmd.Env = append(p.cmd.Env, "DSH_HOST_URL="+hostURL, "DSH_BRIDGE_HOME="+home, "DSH_LOG=error")
		return p.cmd, nil
	}
	stdio := transport.NewStdioWithOptions(opts.Executable, nil, []string{"serve"},
		transport.WithCommandFunc(command), transport.WithCommandStderrWriter(opts.Log))
	p.client = client.NewClient(stdio, client.WithElicitationHandler(you))
	if err := p.client.Start(ctx); err != nil {
		return nil, fmt.Errorf("start the bridge: %w", err)
	}
	if _, err := p.client.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: "2025-06-18", ClientInfo: mcp.Implementation{Name: "dsh-agentlink-demo", Version: "1"}}}); err != nil {
		return nil, fmt.Errorf("start the bridge: %w", err)
	}
	return p, nil
}

// kill ends the process with SIGKILL and returns its id.
func (p *process) kill() (int, error) {
	pid := p.cmd.Process.Pid
	if err := p.cmd.Process.Kill(); err != nil {
		return pid, fmt.Errorf("kill the bridge: %w", err)
	}
	_ = p.client.Close() // says that the process was killed
	return pid, nil
}

// end closes the bridge's standard input and waits for its end.
func (p *process) end() error {
	if p == nil || p.cmd.ProcessState != nil {
		return nil
	}
	if err := p.client.Close(); err != nil {
		return fmt.Errorf("the bridge did not end well: %w", err)
	}
	return nil
}

// call calls a tool. A failure of the tool is an error with its code, its message and what it says to do.
func (p *process) call(ctx context.Context, tool string, args map[string]any) (gjson.Result, error) {
	result, err := p.client.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}})
	if err != nil {
		return gjson.Result{}, fmt.Errorf("%s: %w", tool, err)
	}
	if len(result.Content) != 1 {
		return gjson.Result{}, fmt.Errorf("%s answered with %d blocks instead of one", tool, len(result.Content))
	}
	block, ok := result.Content[0].(mcp.TextContent)
	if !ok || !json.Valid([]byte(block.Text)) {
		return gjson.Result{}, fmt.Errorf("%s answered with something that is not JSON", tool)
	}
	answer := gjson.Parse(block.Text)
	if !result.IsError {
		return answer, nil
	}
	err = fmt.Errorf("%s: %s: %s", tool, answer.Get("error.code"), answer.Get("error.message"))
	if hint := answer.Get("error.hint").String(); hint != "" {
		err = fmt.Errorf("%w\n%s", err, hint)
	}
	return answer, err
}
