package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"dsh-agentlink/internal/watch"
)

// errNoTerminal says what to use where nobody looks.
var errNoTerminal = errors.New("watch needs a terminal to draw on; elsewhere use dsh-agentlink tasks --json, or dsh-agentlink tail TASK -f")

func watchCommand(std streams) *cobra.Command {
	return &cobra.Command{
		Use: "watch", Short: "Watch all tasks in a view that keeps itself current",
		Long: "Shows the tasks of the home, those that wait for an answer first, and follows what happens; enter opens the tail of a task, ? names the keys.\n" +
			"It answers nothing and changes nothing. A host that goes away is shown as such, and is there again when it comes back.\n" +
			"A status with a ? behind it is the last known one; one with a + is the host's, and no bridge has recorded yet how the task got there.\n" +
			"NO_COLOR is honoured. For scripts there is dsh-agentlink tasks --json.",
		Example: "  dsh-agentlink watch",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if !isTerminal(std.in) || !isTerminal(std.out) || os.Getenv("TERM") == "dumb" {
				return usageError{errNoTerminal}
			}
			return withPlace(func(ctx context.Context, p place) error {
				return watch.Run(ctx, watch.Options{Operator: p.operator, Host: p.host, HostURL: p.hostURL, Home: p.home, In: std.in, Out: std.out})
			})
		},
	}
}

// isTerminal reports whether a stream is one.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
