package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/lifetime"
	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/repair"
)

// repairing is the flags and surroundings of a command that changes something.
type repairing struct {
	std  streams
	yes  bool
	json bool
}

// errProblem ends a command that has said already what is wrong.
var errProblem = errors.New("there is something that was not mended; see above")

// command completes a command that changes something: its flags, and what it works on.
func (r *repairing) command(cmd *cobra.Command, run func(ctx context.Context, r *repairing, m *mender, args []string) error) *cobra.Command {
	cmd.Flags().BoolVar(&r.yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&r.json, "json", false, "report as JSON; needs --yes where there is something to ask")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		m, err := newMender()
		if err != nil {
			return err
		}
		defer m.client.CloseIdle()
		ctx, stop := lifetime.Context(context.Background())
		defer stop()
		return run(ctx, r, m, args)
	}
	return cmd
}

// mender is what repairs work on.
type mender struct {
	*repair.Repair
	look   *operator.Operator
	client *dsh.Client
}

func newMender() (*mender, error) {
	cfg, h, err := load()
	if err != nil {
		return nil, err
	}
	client := dsh.New(cfg.HostURL, dsh.Options{RequestTimeout: cfg.RequestTimeout})
	return &mender{
		Repair: repair.New(repair.Options{Home: h, Host: client, HostURL: cfg.HostURL.String(), LockTimeout: cfg.LockTimeout, LedgerMaxBytes: cfg.LedgerMaxBytes}),
		look:   operator.New(operator.Options{Home: h, Host: client, HostURL: cfg.HostURL.String(), LedgerMaxBytes: cfg.LedgerMaxBytes}),
		client: client,
	}, nil
}

// task finds the task that a word names.
func (m *mender) task(word string) (string, error) {
	id, err := m.look.Resolve(word)
	if _, wrong := errors.AsType[*operator.TaskError](err); wrong {
		return "", usageError{err}
	}
	return id, err
}

// agreed asks the person; what is to be done has to be in the question.
func (r *repairing) agreed(question string, args ...any) (bool, error) {
	if r.yes {
		return true, nil
	}
	if in, ok := r.std.in.(*os.File); r.json || !ok || !term.IsTerminal(int(in.Fd())) {
		return false, usageError{fmt.Errorf("this would ask: %s\nNobody can be asked here; give --yes to agree", fmt.Sprintf(question, args...))}
	}
	fmt.Fprintf(r.std.out, question+" [y/N] ", args...)
	answer, err := bufio.NewReader(r.std.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	fmt.Fprintln(r.std.out, "Nothing was changed.")
	return false, nil
}

// tell shows a report; nothing is what to say when there was nothing to do.
func (r *repairing) tell(report repair.Report, failed error, nothing string) error {
	if r.json {
		if err := json.NewEncoder(r.std.out).Encode(report); err != nil {
			return err
		}
	} else {
		if failed != nil {
			nothing = "" // it is not known
		}
		tellLines(r.std.out, report, nothing)
	}
	if failed != nil {
		return failed
	}
	if len(report.Problems) > 0 {
		return errProblem
	}
	return nil
}

func tellLines(out io.Writer, report repair.Report, nothing string) {
	for _, s := range report.Done {
		line := s.Did
		if s.TaskID != "" {
			line = s.TaskID + ": " + line
		}
		fmt.Fprintln(out, line)
		if s.Path != "" {
			fmt.Fprintln(out, "  "+s.Path)
		}
		if s.Kept != "" {
			fmt.Fprintln(out, "  kept as "+s.Kept)
		}
	}
	for _, p := range report.Problems {
		fmt.Fprintln(out, "PROBLEM: "+p.What)
		if p.Help != "" {
			fmt.Fprintln(out, "  "+p.Help)
		}
	}
	if len(report.Done) == 0 && len(report.Problems) == 0 && nothing != "" {
		fmt.Fprintln(out, nothing)
	}
}

// taskArg is the one argument of most of these commands.
func taskArg(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s takes one task, got %q; dsh-agentlink tasks lists them", cmd.CommandPath(), args)}
	}
	return nil
}

func locksRecoverCommand(std streams) *cobra.Command {
	return (&repairing{std: std}).command(&cobra.Command{
		Use:   "recover [TASK|registry|launch]",
		Short: "Free what dead processes left behind; name live ones",
		Long: "Takes each lock itself, which proves that no live process holds it, clears the note of a dead owner, and cuts a torn\n" +
			"line off the ledger behind it. A lock that a live process holds is never broken: the process is named, and how to end\n" +
			"it. The lock folder of a TypeScript bridge is moved aside.",
		Example: "  dsh-agentlink locks recover\n  dsh-agentlink locks recover dsh_37ec16ecef8f --yes",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s takes one task, \"registry\" or \"launch\", got %q", cmd.CommandPath(), args)}
			}
			return nil
		},
	}, func(ctx context.Context, r *repairing, m *mender, args []string) error {
		locks, err := m.locks(ctx, strings.Join(args, ""))
		if err != nil || len(locks) == 0 {
			return cmp.Or(err, r.tell(repair.Report{Done: []repair.Step{}}, nil, "There is no lock."))
		}
		if folders := folderPaths(locks); len(folders) > 0 {
			yes, err := r.agreed("Move aside %s, which would break into the work of a TypeScript bridge that still runs on this home; clear the notes of dead owners, cut torn lines?", strings.Join(folders, ", "))
			if err != nil || !yes {
				return err
			}
		} else if yes, err := r.agreed("Take %d locks for a moment each, clear the notes of dead owners, and cut torn lines off ledgers?", len(locks)); err != nil || !yes {
			return err
		}
		report, err := m.RecoverLocks(ctx, locks)
		return r.tell(report, err, fmt.Sprintf("All %d locks are free and clean.", len(locks)))
	})
}

// locks are those that a word means; all of them for none.
func (m *mender) locks(ctx context.Context, word string) ([]operator.Lock, error) {
	answer, err := m.look.Locks(ctx, true)
	if err != nil {
		return nil, err
	}
	id := ""
	if word != "" && word != operator.LockRegistry && word != operator.LockLaunch {
		if id, err = m.task(word); err != nil {
			return nil, err
		}
	}
	var wanted []operator.Lock
	for _, l := range answer.Locks {
		if word == "" || l.Kind == word || (id != "" && l.TaskID == id) {
			wanted = append(wanted, l)
		}
	}
	return wanted, nil
}

func folderPaths(locks []operator.Lock) (paths []string) {
	for _, l := range locks {
		if l.State == operator.LockFolder {
			paths = append(paths, l.Path)
		}
	}
	return paths
}

func claimsReleaseCommand(std streams) *cobra.Command {
	return (&repairing{std: std}).command(&cobra.Command{
		Use:     "release TASK",
		Short:   "End a task's claim on its directory",
		Long:    "Works without the host, and for claims whose session is gone. It stops nothing: a task that runs goes on.",
		Example: "  dsh-agentlink claims release dsh_37ec16ecef8f",
		Args:    taskArg,
	}, func(ctx context.Context, r *repairing, m *mender, args []string) error {
		id, err := m.task(args[0])
		if err != nil {
			return err
		}
		runs := ""
		if m.Runs(ctx, id) {
			runs = " It is at work now, and will go on writing there."
		}
		if yes, err := r.agreed("End the claim of task %s?%s", id, runs); err != nil || !yes {
			return err
		}
		report, err := m.ReleaseClaim(ctx, id)
		return r.tell(report, err, "")
	})
}

func ledgersRecoverCommand(std streams) *cobra.Command {
	above := int64(0)
	cmd := &cobra.Command{
		Use:   "recover TASK",
		Short: "Build a damaged ledger anew from the host's history",
		Long: "Keeps the damaged files under other names beside it, begins a new ledger whose cursors go on above all old ones, and\n" +
			"fills it from the host's history. Needs the host. Bridges that run take the new ledger up by themselves.",
		Example: "  dsh-agentlink ledgers recover dsh_37ec16ecef8f",
		Args:    taskArg,
	}
	cmd.Flags().Int64Var(&above, "above", 0, "a cursor that the ledger is known to have had; one that ends before it is damaged")
	return (&repairing{std: std}).command(cmd, func(ctx context.Context, r *repairing, m *mender, args []string) error {
		id, err := m.task(args[0])
		if err != nil {
			return err
		}
		if yes, err := r.agreed("Put a new ledger in the place of that of task %s if it is damaged? Its cursors given until now expire.", id); err != nil || !yes {
			return err
		}
		report, err := m.RecoverLedger(ctx, id, above)
		return r.tell(report, err, "The ledger is sound. Nothing was changed.")
	})
}

func ledgersCompactCommand(std streams) *cobra.Command {
	return (&repairing{std: std}).command(&cobra.Command{
		Use:     "compact TASK",
		Short:   "Move all but a ledger's last records into its checkpoint",
		Long:    "Bridges do this by themselves past DSH_LEDGER_MAX_BYTES. Older cursors expire.",
		Example: "  dsh-agentlink ledgers compact dsh_37ec16ecef8f",
		Args:    taskArg,
	}, func(ctx context.Context, r *repairing, m *mender, args []string) error {
		id, err := m.task(args[0])
		if err != nil {
			return err
		}
		if yes, err := r.agreed("Compact the ledger of task %s? Its older cursors expire.", id); err != nil || !yes {
			return err
		}
		report, err := m.CompactLedger(ctx, id)
		return r.tell(report, err, "There is nothing to compact.")
	})
}

// repairCommands change what is on disk, each after asking. Those that mend what another command shows go below it in
// root.
func repairCommands(std streams, root *cobra.Command) {
	root.AddCommand(importCommand(std))
	for _, sub := range []struct {
		parent string
		cmd    *cobra.Command
	}{
		{"locks", locksRecoverCommand(std)}, {"claims", claimsReleaseCommand(std)},
		{"ledgers", ledgersRecoverCommand(std)}, {"ledgers", ledgersCompactCommand(std)},
	} {
		i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == sub.parent })
		root.Commands()[i].AddCommand(sub.cmd)
	}
}
