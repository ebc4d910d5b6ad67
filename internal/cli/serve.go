package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"dsh-agentlink/bridge"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/lifetime"
	"dsh-agentlink/internal/stdio"
)

// shutdownLimit is when a shutdown that hangs is cut off.
const shutdownLimit = 1500 * time.Millisecond

// greeting is how long a client may take for its first requests before the connection is begun regardless.
const greeting = 100 * time.Millisecond

// serve runs the server until its input ends, it is told to end, or its parent is gone.
func serve(std streams) error {
	cfg, h, err := load()
	if err != nil {
		return err
	}
	ctx, stop := lifetime.Context(context.Background())
	defer stop()
	log := logger(std.err, cfg.LogLevel)
	client := dsh.New(cfg.HostURL, dsh.Options{RequestTimeout: cfg.RequestTimeout, Log: log})
	b := bridge.New(bridge.Options{
		Host: client, HostURL: cfg.HostURL.String(), Home: h,
		AgentPreset: cfg.AgentPreset, TimeZone: cfg.TimeZone, HostVersion: cfg.HostVersion, Version: version(),
		LockTimeout: cfg.LockTimeout, LedgerMaxBytes: cfg.LedgerMaxBytes, ApprovalConfirm: cfg.ApprovalConfirm, ApprovalTimeout: cfg.ApprovalTimeout, Log: log,
	})
	serving, end := context.WithCancel(ctx)
	defer end()
	disarm := lifetime.Guard(serving, shutdownLimit, os.Exit)
	defer disarm()
	b.StartSoon(greeting)
	err = stdio.Serve(serving, b, version(), std.in, std.out, log)
	end() // whatever ended it, the shutdown is on its way now
	b.Close()
	client.CloseIdle()
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func logger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}
