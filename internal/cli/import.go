package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"dsh-agentlink/internal/repair"
)

func importCommand(std streams) *cobra.Command {
	from := ""
	cmd := &cobra.Command{
		Use:   "import --from DIR",
		Short: "Take over the tasks and claims of a TypeScript bridge",
		Long: "Reads tasks/*.json and claims/*.json of a TypeScript bridge's home. Ledgers are built anew from the host's history. The\n" +
			"old home is left as it is; when both bridges share one, the old files are kept under other names.",
		Example: "  dsh-agentlink import --from ~/.dsh/collab",
		Args:    noArgs,
	}
	cmd.Flags().StringVar(&from, "from", "", "the home of the TypeScript bridge")
	return (&repairing{std: std}).command(cmd, func(ctx context.Context, r *repairing, m *mender, _ []string) error {
		if from == "" {
			return usageError{errors.New("import needs --from DIR, the home of the TypeScript bridge")}
		}
		dir, err := filepath.Abs(from)
		if err != nil {
			return usageError{err}
		}
		found, report, err := m.Scan(dir)
		if err != nil {
			return usageError{err}
		}
		fresh := 0
		for _, f := range found {
			if !f.Known() {
				fresh++
			}
		}
		if fresh == 0 {
			return r.tell(report, nil, fmt.Sprintf("There is nothing to take over; %d tasks are here already.", len(found)))
		}
		if yes, err := r.agreed("Take over %d tasks from %s?", fresh, dir); err != nil || !yes {
			return err
		}
		done, err := m.Import(ctx, found)
		report.Done = append(report.Done, done.Done...)
		report.Problems = append(report.Problems, done.Problems...)
		for _, id := range m.Missing(ctx, found) {
			report.Problems = append(report.Problems, repair.Problem{TaskID: id, What: "the host does not know the session of task " + id,
				Help: "Another host may run under this address. dsh-agentlink claims release " + id + " frees its directory."})
		}
		return r.tell(report, err, "")
	})
}
