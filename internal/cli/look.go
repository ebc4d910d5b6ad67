package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/spf13/cobra"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/lifetime"
	"dsh-agentlink/internal/operator"
)

// lookCommands show what there is and change nothing.
func lookCommands(std streams) []*cobra.Command {
	return []*cobra.Command{doctorCommand(std), tasksCommand(std), showCommand(std), tailCommand(std), locksCommand(std), claimsCommand(std), ledgersCommand(std)}
}

// locksCommand lists the locks when it is called without one of its subcommands.
func locksCommand(std streams) *cobra.Command {
	var all bool
	c := lookCommand(std, look{
		use: "locks", short: "List the locks of the home that are not free, and who holds them",
		long: "Lists the locks that are held, that a process holds which is stopped or hangs, and the lock folders of a TypeScript bridge.\n" +
			"A lock is never broken into: when its holder ends, it is free.",
		example: "  dsh-agentlink locks\n  dsh-agentlink locks --all --json",
		run: func(ctx context.Context, o *operator.Operator, s *screen, _ []string) error {
			answer, err := o.Locks(ctx, all)
			if err != nil {
				return err
			}
			return s.show(answer, func() { showLocks(s, answer) }, problems(answer.Problems, "lock"))
		},
	})
	c.Flags().BoolVar(&all, "all", false, "list the free ones as well")
	return c
}

// claimsCommand lists the claims when it is called without one of its subcommands.
func claimsCommand(std streams) *cobra.Command {
	return lookCommand(std, look{
		use: "claims", short: "List which task has claimed which folder",
		long:    "Lists the workspace claims, and says of each whether the host still knows its session.",
		example: "  dsh-agentlink claims\n  dsh-agentlink claims --json",
		run: func(ctx context.Context, o *operator.Operator, s *screen, _ []string) error {
			answer, err := o.Claims(ctx)
			if err != nil {
				return err
			}
			return s.show(answer, func() { showClaims(s, answer) }, problems(answer.Problems, "claim"))
		},
	})
}

// ledgersCommand lists the ledgers when it is called without one of its subcommands.
func ledgersCommand(std streams) *cobra.Command {
	return lookCommand(std, look{
		use: "ledgers", short: "Read every ledger of the home and say whether it is sound",
		long:    "Reads the ledger of every task from its beginning, without taking its lock and without writing to it.",
		example: "  dsh-agentlink ledgers\n  dsh-agentlink ledgers --json",
		run: func(_ context.Context, o *operator.Operator, s *screen, _ []string) error {
			answer, err := o.Ledgers()
			if err != nil {
				return err
			}
			return s.show(answer, func() { showLedgers(s, answer) }, problems(answer.Problems, "ledger"))
		},
	})
}

func tasksCommand(std streams) *cobra.Command {
	var limit int
	c := lookCommand(std, look{
		use: "tasks", short: "List the tasks of the home and how they stand",
		long: "Lists the tasks, latest first. While the host is away it tells what the ledgers know, and says so:\n" +
			"a status with a ? behind it is the last known one. One with a + is the host's, and no bridge has recorded yet how the task got there.",
		example: "  dsh-agentlink tasks\n  dsh-agentlink tasks --limit 0 --json",
		run: func(ctx context.Context, o *operator.Operator, s *screen, _ []string) error {
			if limit < 0 {
				return usageError{fmt.Errorf("--limit %d: give 0 for all tasks, or how many at most", limit)}
			}
			answer, err := o.Tasks(ctx, limit)
			if err != nil {
				return err
			}
			return s.show(answer, func() { showTasks(s, answer) }, problems(answer.Problems, "task"))
		},
	})
	c.Flags().IntVar(&limit, "limit", 50, "how many tasks at most, 0 for all")
	return c
}

func showCommand(std streams) *cobra.Command {
	return lookCommand(std, look{
		use: "show TASK", short: "Show everything that is known of a task", takesTask: true,
		long:    "Shows how a task stands, with its last message, what is asked, its files, its ledger and its claim. TASK is its id or the beginning of it.",
		example: "  dsh-agentlink show dsh_0a1b2c3d4e5f\n  dsh-agentlink show 0a1b --json",
		run: func(ctx context.Context, o *operator.Operator, s *screen, args []string) error {
			sheet, err := o.Show(ctx, args[0])
			if err != nil {
				return err
			}
			var problem error
			if sheet.Problem != "" {
				problem = errors.New("the task has a problem")
			}
			return s.show(sheet, func() { showSheet(s, sheet) }, problem)
		},
	})
}

// look is a command that only looks.
type look struct {
	use, short, long, example string
	takesTask                 bool // one argument, which run gets as a whole task id
	run                       func(ctx context.Context, o *operator.Operator, s *screen, args []string) error
}

// lookCommand makes the command, with what all of them share: --json, the environment, the end at a signal.
func lookCommand(std streams, l look) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: l.use, Short: l.short, Long: l.long, Example: l.example, Args: noArgs}
	if l.takesTask {
		c.Args = oneTask
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.RunE = func(_ *cobra.Command, args []string) error {
		return withOperator(func(ctx context.Context, o *operator.Operator) error {
			if l.takesTask {
				id, err := o.Resolve(args[0])
				if err != nil {
					if _, wrong := errors.AsType[*operator.TaskError](err); wrong {
						return usageError{err}
					}
					return err
				}
				args[0] = id
			}
			return unread(l.run(ctx, o, newScreen(std.out, asJSON), args))
		})
	}
	return c
}

func oneTask(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 1:
		return nil
	case 0:
		return usageError{fmt.Errorf("%s needs the id of a task, or the beginning of it; dsh-agentlink tasks lists them", cmd.Name())}
	}
	return usageError{fmt.Errorf("%s takes one task, got %q", cmd.Name(), args)}
}

// place is the home and the host that the environment names, and an operator that looks at both.
type place struct {
	home     *home.Home
	host     dsh.Host
	hostURL  string
	operator *operator.Operator
}

// withOperator runs f over the home and the host that the environment names, until it is done or a signal comes.
func withOperator(f func(context.Context, *operator.Operator) error) error {
	return withPlace(func(ctx context.Context, p place) error { return f(ctx, p.operator) })
}

// withPlace is withOperator for who needs more than that.
func withPlace(f func(context.Context, place) error) error {
	cfg, h, err := load()
	if err != nil {
		return err
	}
	ctx, stop := lifetime.Context(context.Background())
	defer stop()
	client := dsh.New(cfg.HostURL, dsh.Options{RequestTimeout: cfg.RequestTimeout})
	defer client.CloseIdle()
	url := cfg.HostURL.String()
	return f(ctx, place{home: h, host: client, hostURL: url,
		operator: operator.New(operator.Options{Home: h, Host: client, HostURL: url, LedgerMaxBytes: cfg.LedgerMaxBytes})})
}

// problems is the error of a list in which something is wrong: the list has said what.
func problems(n int, noun string) error {
	switch n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("1 %s has a problem", noun)
	}
	return fmt.Errorf("%s have a problem", plural(n, noun))
}

// unread forgives that nobody reads the output any more, as with `| head`.
func unread(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}
