// Bare is the least that an MCP server made with mcp-go can be: one tool that does nothing. It is what the start of the
// bridge is measured against. With BARE_STREAM, the address of a host, it reads the host's stream besides and throws
// away what comes.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/coder/websocket"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	if host := os.Getenv("BARE_STREAM"); host != "" {
		go read(host)
	}
	s := server.NewMCPServer("bare", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("nothing"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("{}"), nil
	})
	if err := server.ServeStdio(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
