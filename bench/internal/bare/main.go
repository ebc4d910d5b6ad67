// Bare is the least that an MCP server made with mcp-go can be: one tool that does nothing. It is what the start of the
// bridge is measured against.
//
// With BARE_HOST, the address of a host, it has two more: "prepare" takes calls of that host and a text, and "calls" makes
// those calls, throws away what comes, and answers with the text, or with how long the calls took where there is none. With
// BARE_STREAM it reads the host's stream besides.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/coder/websocket"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"dsh-agentlink/bench/internal/plain"
)

func main() {
	if host := os.Getenv("BARE_STREAM"); host != "" {
		go read(host)
	}
	s := server.NewMCPServer("bare", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("nothing"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("{}"), nil
	})
	if host := os.Getenv("BARE_HOST"); host != "" {
		c := &caller{host: plain.New(host)}
		s.AddTool(mcp.NewTool("prepare"), c.prepare)
		s.AddTool(mcp.NewTool("calls"), c.calls)
	}
	if err := server.ServeStdio(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// caller makes calls of a host. It is used by one call at a time.
type caller struct {
	host  *plain.Reader
	ready plain.Prepared
}

func (c *caller) prepare(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if err := request.BindArguments(&c.ready); err != nil {
		return nil, err
	}
	return mcp.NewToolResultText("{}"), nil
}

func (c *caller) calls(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	began := time.Now()
	if err := c.host.PostAll(ctx, c.ready.Calls); err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	if c.ready.Text != "" {
		return mcp.NewToolResultText(c.ready.Text), nil
	}
	return mcp.NewToolResultText(time.Since(began).String()), nil
}

// read reads a host's stream until it ends.
func read(host string) {
	ctx := context.Background()
	conn, _, err := websocket.Dial(ctx, host+"/api/events.mux", &websocket.DialOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	conn.SetReadLimit(1 << 20)
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			return
		}
	}
}
