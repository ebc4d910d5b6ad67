package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"dsh-agentlink/internal/demo"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/lifetime"
)

func demoCommand(std streams) *cobra.Command {
	opts := demo.Options{Out: std.out, Log: std.err, Colour: hasColour(std.out)}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play a supervised task, against the built-in scripted host or your own; needs no DSH",
		Long: "Plays a supervisor and the person behind it: a task is delegated, asks, is answered, refused and allowed something,\n" +
			"goes on while its bridge is killed and started again, and is accepted. Every step is checked.\n" +
			"Without --host it takes seconds and needs nothing but this program. With it, your host's model is asked for two\n" +
			"short turns that only look, and a session stays in the host's list. Files are written to a temporary folder only.",
		Example: "  dsh-agentlink demo\n  dsh-agentlink demo --host http://127.0.0.1:3080",
		RunE: func(*cobra.Command, []string) error {
			if opts.Scripted && opts.HostURL == "" {
				return usageError{errors.New("--lab is for a host; name it with --host URL")}
			}
			if opts.HostURL != "" {
				u, err := dsh.ParseURL(opts.HostURL, true)
				if err != nil {
					return usageError{err}
				}
				if _, err := dsh.ParseURL(opts.HostURL, false); err != nil {
					return usageError{fmt.Errorf("--host %s is not this machine, where the demo's files are", u)}
				}
				opts.HostURL = u.String()
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			opts.Executable = self
			ctx, stop := lifetime.Context(context.Background())
			defer stop()
			return demo.Run(ctx, opts)
		},
	}
	c.Flags().StringVar(&opts.HostURL, "host", "", "play it on the host at this `URL`, which has to be on this machine")
	c.Flags().BoolVar(&opts.Scripted, "lab", false, "with --host: its model plays LAB scripts (internal/labmodel), so play everything")
	return c
}
