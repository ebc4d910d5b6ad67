package operator

import (
	"context"
	"regexp"
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

// typeScriptName matches the folder of a TypeScript bridge's package, or its script: those are the names by which it is
// known in callers' configurations.
var typeScriptName = regexp.MustCompile(`^(dsh[-_])?agentlink([-_](mcp|bridge|server|ts))?(\.[cm]?[jt]s)?$|^dsh[-_]collab([-_](mcp|bridge|server|ts))?(\.[cm]?[jt]s)?$`)

// TypeScriptBridges finds the processes of this user that look like a TypeScript bridge: a Node program whose script has
// one of its names.
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
		if err == nil && isTypeScriptBridge(args) {
			found = append(found, describeProcess(ctx, p))
		}
	}
	return found
}

// isTypeScriptBridge looks at the script of a Node command line and at nothing behind it: an agent that runs on Node, too,
// is told of the bridge in its arguments, and this program's own name is one of them.
func isTypeScriptBridge(args []string) bool {
	path := strings.FieldsFunc(nodeScript(args), func(r rune) bool { return r == '/' || r == '\\' })
	for i, element := range slices.Backward(path) {
		if element == "node_modules" {
			path = path[i:] // what is installed there is not what the folder around it is called
			break
		}
	}
	return slices.ContainsFunc(path, typeScriptName.MatchString)
}

// nodeScript is the script that a Node command line runs; empty when it runs none.
func nodeScript(args []string) string {
	for i := 1; i < len(args); i++ {
		switch arg := args[i]; {
		case slices.Contains(nodeValues, arg):
			i++ // its value
		case arg == "--":
			if i+1 < len(args) {
				return args[i+1]
			}
		case arg == "-e", arg == "--eval", arg == "-p", arg == "--print":
			return ""
		case !strings.HasPrefix(arg, "-"):
			return arg
		}
	}
	return ""
}

// nodeValues are the options of Node that mostly have their value behind them, as an argument of its own.
var nodeValues = []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions", "--env-file"}
