package operator

import (
	"context"
	"slices"
	"strings"

	"github.com/shirou/gopsutil/v4/process"

	"dsh-agentlink/ledger"
)

// ProcessOf looks a process up by its id. The arguments of its command line are not looked at.
func ProcessOf(ctx context.Context, pid int) Process { return processOf(ctx, pid) }

// Inspect looks at a task's ledger without changing it. Without a root it takes the ledger's own word for it.
func (o *Operator) Inspect(taskID, root string) (ledger.Inspection, error) {
	return ledger.Inspect(o.ledgerOptions(taskID, root))
}

// typeScriptNames are the names by which a TypeScript bridge is started: its package, and its entry in callers'
// configurations.
var typeScriptNames = []string{"agentlink", "dsh-collab", "dsh_collab"}

// TypeScriptBridges finds the processes of this user that look like a TypeScript bridge: a Node program with one of
// its names on the command line.
func TypeScriptBridges(ctx context.Context) []Process {
	ctx, cancel := context.WithTimeout(ctx, processLimit)
	defer cancel()
	all, err := process.ProcessesWithContext(ctx)
	if err != nil {
		return nil
	}
	var found []Process
	for _, p := range all {
		if !ownProcess(ctx, p) || !strings.HasPrefix(programName(ctx, p), "node") {
			continue
		}
		args, err := p.CmdlineSliceWithContext(ctx)
		if err == nil && slices.ContainsFunc(args, isTypeScriptBridge) {
			found = append(found, describeProcess(ctx, p))
		}
	}
	return found
}

func isTypeScriptBridge(arg string) bool {
	return slices.ContainsFunc(typeScriptNames, func(name string) bool { return strings.Contains(arg, name) })
}
