package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// callLimit bounds one MCP call: a wait takes half a minute at most.
const callLimit = 60 * time.Second

// child is one MCP server in a process of its own. Its calls are made one at a time.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	calls int
}

// spawn starts an MCP server. It ends with ctx, whatever happens.
func spawn(ctx context.Context, binary string, env ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "DSH_LOG=error"}, env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 64<<10)}, nil
}

// rpc makes one JSON-RPC call and returns its result.
func (c *child) rpc(method string, params any) (json.RawMessage, error) {
	c.calls++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.calls, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	guard := time.AfterFunc(callLimit, func() { _ = c.cmd.Process.Kill() })
	defer guard.Stop()
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: the server is gone: %w", method, err)
		}
		var answer struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(line, &answer); err != nil {
			return nil, err
		}
		switch {
		case answer.ID != c.calls:
			continue // a notification
		case answer.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, answer.Error)
		}
		return answer.Result, nil
	}
}

// greet does what every client begins with, up to the list of tools.
func (c *child) greet() error {
	_, err := c.rpc("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "bench", "version": "1"}})
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		return err
	}
	_, err = c.rpc("tools/list", map[string]any{})
	return err
}

type args map[string]any

// tool calls a tool and returns the text of its answer, which is all that a model pays for.
func (c *child) tool(name string, arguments args) (string, error) {
	result, err := c.rpc("tools/call", map[string]any{"name": name, "arguments": arguments})
	if err != nil {
		return "", err
	}
	var answer struct {
		IsError bool `json:"isError"`
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(result, &answer); err != nil {
		return "", err
	}
	if len(answer.Content) != 1 {
		return "", fmt.Errorf("%s: %d blocks", name, len(answer.Content))
	}
	if text := answer.Content[0].Text; answer.IsError {
		return "", fmt.Errorf("%s: %s", name, text)
	}
	return answer.Content[0].Text, nil
}

// resident is the memory that the process has in RAM, in MB.
func (c *child) resident() (float64, error) {
	p, err := process.NewProcess(int32(c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	info, err := p.MemoryInfo()
	if err != nil {
		return 0, err
	}
	return float64(info.RSS) / (1 << 20), nil
}

// seconds is the CPU time that the process has used so far. Systems count it in hundredths of a second.
func (c *child) seconds() (float64, error) {
	p, err := process.NewProcess(int32(c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	times, err := p.Times()
	if err != nil {
		return 0, err
	}
	return times.User + times.System, nil
}

// end closes the server's input, waits for its end, and returns the CPU time of its whole life.
func (c *child) end() (time.Duration, error) {
	if c == nil {
		return 0, nil
	}
	guard := time.AfterFunc(5*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer guard.Stop()
	_ = c.in.Close() // closed already when end is called twice
	if err := c.cmd.Wait(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); ended {
			return 0, fmt.Errorf("the server: %w", err)
		}
		return 0, nil
	}
	return c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime(), nil
}
