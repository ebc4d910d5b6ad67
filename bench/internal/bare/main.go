// Bare is the least that an MCP server made with mcp-go can be: one tool that does nothing. It is what the start of the
// bridge is measured against.
//
// With BARE_HOST, the address of a host, it has a second tool, which makes the calls of that host that it is given,
// throws away what comes, and answers how long that took. With BARE_STREAM it reads the host's stream besides.
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
		reader := plain.New(host)
		s.AddTool(mcp.NewTool("calls"), func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return calls(ctx, reader, request)
		})
	}
	if err := server.ServeStdio(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// calls makes the calls that are in the arguments.
func calls(ctx context.Context, host *plain.Reader, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct {
		Calls []plain.Call `json:"calls"`
	}
	if err := request.BindArguments(&args); err != nil {
		return nil, err
	}
	began := time.Now()
	err := host.PostAll(ctx, args.Calls)
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
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
