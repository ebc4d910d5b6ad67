// Package cli is the command line of dsh-agentlink: the server by default, and what a person runs.
package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dsh-agentlink/internal/config"
)

// Exit codes of the process.
const (
	exitOK      = 0
	exitProblem = 1 // something is wrong, and was said
	exitUsage   = 2 // the command line or the environment is wrong
)

// usageError is a mistake in how the program was called.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }

// streams are the standard streams of the process.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Main runs one command line and returns the exit code.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	root := Command(in, out, errOut)
	root.SetArgs(args)
	err := root.Execute()
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintln(errOut, "dsh-agentlink:", err)
		return exitUsage
	}
	fmt.Fprintln(errOut, "dsh-agentlink:", err)
	return exitProblem
}

// groups are the commands that help shows together; the others come last.
var groups = []struct {
	title    string
	commands []string
}{
	{"Set up:", []string{"setup", "doctor", "demo", "import"}},
	{"Look, changing nothing:", []string{"tasks", "show", "tail", "watch", "locks", "claims", "ledgers"}},
	{"Serve an agent:", []string{"serve"}},
}

// Command is the whole command line.
func Command(in io.Reader, out, errOut io.Writer) *cobra.Command {
	std := streams{in, out, errOut}
	root := &cobra.Command{
		Use:   "dsh-agentlink",
		Short: "Hand whole tasks to a DeepSeek Harness host, and stay in charge",
		Long: "dsh-agentlink is a local STDIO MCP server. A supervising agent (Codex, Claude Code) starts it and hands tasks to a\n" +
			"DeepSeek Harness (DSH) web host that runs already. Without a command it serves.\n\nEnvironment:\n" + environment(),
		SilenceErrors: true, SilenceUsage: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknown(cmd, args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return serve(std) },
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.CompletionOptions.HiddenDefaultCmd = true // releases hold the files that it makes
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(serveCommand(std), demoCommand(std), versionCommand(std))
	root.AddCommand(lookCommands(std)...)
	root.AddCommand(watchCommand(std))
	repairCommands(std, root)
	root.AddCommand(setupCommands(std)...)
	root.SetHelpCommand(helpCommand(root))
	root.InitDefaultHelpCmd()
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
	}
	for _, sub := range root.Commands() {
		if sub.Args == nil && sub.Name() != "help" {
			sub.Args = noArgs
		}
		for _, g := range groups {
			if slices.Contains(g.commands, sub.Name()) {
				sub.GroupID = g.title
			}
		}
	}
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, got %q", cmd.Name(), args)}
	}
	return nil
}

func unknown(root *cobra.Command, word string) error {
	return usageError{fmt.Errorf("there is no command %q; the commands are %s", word, strings.Join(names(root), ", "))}
}

// helpCommand is cobra's, but for a wrong word, which is an error here as everywhere.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Explain a command",
		RunE: func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 || (about == root && len(args) > 0) {
				return unknown(root, args[0])
			}
			return about.Help()
		},
	}
}

func names(root *cobra.Command) []string {
	var list []string
	for _, sub := range root.Commands() {
		if !sub.Hidden {
			list = append(list, sub.Name())
		}
	}
	return list
}

func environment() string {
	width := 0
	for _, v := range config.Variables {
		width = max(width, len(v.Name))
	}
	var b strings.Builder
	for _, v := range config.Variables {
		fmt.Fprintf(&b, "  %-*s  %s", width, v.Name, v.Help)
		if v.Default != "" {
			fmt.Fprintf(&b, " (%s)", v.Default)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func serveCommand(std streams) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Serve MCP on standard input and output (the default)",
		RunE:  func(*cobra.Command, []string) error { return serve(std) },
	}
}

func versionCommand(std streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(std.out, versionLine())
			return err
		},
	}
}
