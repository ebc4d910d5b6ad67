// Package stdio serves a bridge's tools as MCP over a pair of streams.
package stdio

import (
	"context"
	"io"
	"log/slog"
	"sync"

	"github.com/mark3labs/mcp-go/server"

	"dsh-agentlink/bridge"
)

const (
	// workers is how many tool calls run at a time. A wait occupies one for up to half a minute, so there have to be
	// far more of them than a supervisor has tasks; 100 is the library's limit.
	workers = 100
	// queued is how many calls may wait for a worker before the library serves them on its reading goroutine, where
	// a wait would keep everything else from being read.
	queued = 10_000
)

// Serve answers MCP requests on in and out until in ends or ctx is done. Only JSON-RPC goes to out.
func Serve(ctx context.Context, b *bridge.Bridge, version string, in io.Reader, out io.Writer, log *slog.Logger) error {
	mcpServer := server.NewMCPServer("dsh-agentlink", version,
		server.WithToolCapabilities(false),
		server.WithResourceCapabilities(true, false),
		server.WithPromptCapabilities(false),
		server.WithHooks(b.Hooks()),
		server.WithInstructions(bridge.Instructions),
	)
	b.Register(mcpServer)
	s := server.NewStdioServer(mcpServer)
	s.SetErrorLogger(slog.NewLogLogger(log.Handler(), slog.LevelWarn))
	server.WithWorkerPoolSize(workers)(s)
	server.WithQueueSize(queued)(s)
	return s.Listen(ctx, in, &lineWriter{w: out})
}

// lineWriter keeps lines whole that several goroutines of the library write at the same time.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
