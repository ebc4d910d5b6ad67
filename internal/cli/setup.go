package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dsh-agentlink/internal/config"
	"dsh-agentlink/internal/setup"
)

// setupCommands write a caller's configuration.
func setupCommands(std streams) []*cobra.Command {
	remove := &cobra.Command{
		Use:   "remove",
		Short: "Take out again what setup wrote",
		Long:  "Take the entry out of a caller's configuration again, and the skill when nobody edited it.",
		Args:  oneOf("setup remove"),
		RunE:  func(cmd *cobra.Command, _ []string) error { return needsOneOf(cmd, "setup remove") },
	}
	remove.AddCommand(codexCommand(std, true), claudeCommand(std, true))
	root := &cobra.Command{
		Use:   "setup",
		Short: "Write the bridge into the configuration of Codex or Claude Code",
		Long: "Write the bridge into the configuration of a caller: this binary, and the DSH_* variables that are set now.\n" +
			"Everything else in the file stays as it is, a copy of it as it was is kept beside it, and what is there already\n" +
			"under that name is replaced only with --replace. docs/callers.md has the entries for other callers.",
		Args: oneOf("setup"),
		RunE: func(cmd *cobra.Command, _ []string) error { return needsOneOf(cmd, "setup") },
	}
	root.AddCommand(codexCommand(std, false), claudeCommand(std, false), remove)
	return []*cobra.Command{root}
}

func oneOf(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usageError{fmt.Errorf("%s knows no %q; it takes one of %s", name, args[0], strings.Join(names(cmd), ", "))}
		}
		return nil
	}
}

func needsOneOf(cmd *cobra.Command, name string) error {
	return usageError{fmt.Errorf("%s needs one of %s", name, strings.Join(names(cmd), ", "))}
}

// setupFlags are what the user asks of a setup or a removal.
type setupFlags struct {
	std                  streams
	env                  []string
	print, replace, json bool
}

func (f *setupFlags) add(cmd *cobra.Command, remove bool) {
	cmd.Args = noArgs
	cmd.Flags().BoolVar(&f.print, "print", false, "show what would change, and change nothing")
	cmd.Flags().BoolVar(&f.json, "json", false, "answer in JSON")
	if !remove {
		cmd.Flags().BoolVar(&f.replace, "replace", false, "replace an entry that is there already")
		cmd.Flags().StringArrayVar(&f.env, "env", nil, "set NAME=VALUE for the bridge, beside the DSH_* variables that are set now; NAME= leaves one out")
	}
}

func codexCommand(std streams, remove bool) *cobra.Command {
	f := setupFlags{std: std}
	cmd := &cobra.Command{
		Use:     "codex",
		Short:   "Set up Codex ($CODEX_HOME/config.toml, ~/.codex without CODEX_HOME)",
		Example: "  dsh-agentlink setup codex --print\n  dsh-agentlink setup codex --env DSH_HOST_URL=http://127.0.0.1:3080",
		RunE: func(*cobra.Command, []string) error {
			path, err := codexPath()
			if err != nil {
				return err
			}
			return f.run("restart Codex; codex mcp get "+setup.Name+" shows the entry", remove,
				func(server setup.Server) (*setup.Plan, error) { return setup.Codex(path, server, f.replace) },
				func() (*setup.Plan, error) { return setup.RemoveCodex(path) })
		},
	}
	if remove {
		cmd.Short, cmd.Example = "Take the entry out of Codex's configuration", "  dsh-agentlink setup remove codex --print"
	}
	f.add(cmd, remove)
	return cmd
}

func claudeCommand(std streams, remove bool) *cobra.Command {
	f := setupFlags{std: std}
	var project string
	var user bool
	cmd := &cobra.Command{
		Use:     "claude",
		Short:   "Set up Claude Code, for a project (.mcp.json) or for yourself, with a skill that teaches to supervise",
		Example: "  dsh-agentlink setup claude --user --print\n  dsh-agentlink setup claude --project .",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if user && cmd.Flags().Changed("project") {
				return usageError{errors.New("--user and --project exclude each other")}
			}
			places, err := claudePlaces(project, user)
			if err != nil {
				return err
			}
			next := "restart Claude Code; claude mcp get " + setup.Name + " shows whether it connects"
			if !user {
				next = "start claude in that directory, which asks once whether to trust the project's servers; claude mcp get " + setup.Name + " shows whether it connects"
			}
			return f.run(next, remove,
				func(server setup.Server) (*setup.Plan, error) { return setup.Claude(places, server, f.replace) },
				func() (*setup.Plan, error) { return setup.RemoveClaude(places) })
		},
	}
	if remove {
		cmd.Short, cmd.Example = "Take the entry and the skill out of Claude Code's configuration", "  dsh-agentlink setup remove claude --user"
	}
	cmd.Flags().StringVar(&project, "project", ".", "`directory` of the project")
	cmd.Flags().BoolVar(&user, "user", false, "for yourself, in all projects ($CLAUDE_CONFIG_DIR, ~ without it)")
	f.add(cmd, remove)
	return cmd
}

func codexPath() (string, error) {
	dir := os.Getenv("CODEX_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", usageError{fmt.Errorf("%w; set CODEX_HOME", err)}
		}
		dir = filepath.Join(home, ".codex")
	}
	return filepath.Abs(filepath.Join(dir, "config.toml"))
}

func claudePlaces(project string, user bool) (setup.ClaudePlaces, error) {
	home, err := os.UserHomeDir()
	configDir := os.Getenv("CLAUDE_CONFIG_DIR")
	if err != nil && configDir == "" {
		return setup.ClaudePlaces{}, usageError{fmt.Errorf("%w; set CLAUDE_CONFIG_DIR", err)}
	}
	if configDir != "" {
		if configDir, err = filepath.Abs(configDir); err != nil {
			return setup.ClaudePlaces{}, err
		}
	}
	if user {
		return setup.ClaudeUser(home, configDir), nil
	}
	dir, err := filepath.Abs(project)
	if err != nil {
		return setup.ClaudePlaces{}, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return setup.ClaudePlaces{}, usageError{fmt.Errorf("--project %q is no directory", project)}
	}
	return setup.ClaudeProject(dir, home, configDir), nil
}

// run plans, and does it unless it is only to be shown.
func (f *setupFlags) run(next string, remove bool, add func(setup.Server) (*setup.Plan, error), take func() (*setup.Plan, error)) error {
	var plan *setup.Plan
	var err error
	if remove {
		plan, err = take()
		next = ""
	} else {
		var server setup.Server
		if server, err = thisServer(f.env); err != nil {
			return err
		}
		plan, err = add(server)
	}
	if err != nil {
		return f.failed(err)
	}
	report := setupReport{Caller: plan.Caller, Print: f.print, Changed: plan.Changed(), Entry: plan.Entry, Previous: plan.Previous, Notes: plan.Notes}
	if f.print || !plan.Changed() {
		for _, c := range plan.Changes {
			report.Files = append(report.Files, setup.Applied{Path: c.Path, Action: c.Action})
		}
	} else {
		if report.Files, err = plan.Apply(time.Now()); err != nil {
			return errors.Join(report.partly(f.std.err), err)
		}
		report.Next = next
	}
	if f.json {
		return writeJSON(f.std.out, report)
	}
	return report.write(f.std.out, plan)
}

// failed is the end of a plan that could not be made: JSON where it is asked for, and the words for a person.
func (f *setupFlags) failed(err error) error {
	answer := map[string]any{"changed": false, "error": err.Error()}
	var conflict *setup.ConflictError
	var refused *setup.RefusedError
	switch {
	case errors.As(err, &conflict):
		answer["conflict"] = conflict.Previous
	case errors.As(err, &refused):
		answer["path"] = refused.Path
		err = fmt.Errorf("%w. Nothing was changed", err)
	}
	if f.json {
		return errors.Join(writeJSON(f.std.out, answer), err)
	}
	return err
}

// setupReport is what was done, or would be. Its JSON form is for scripts.
type setupReport struct {
	Caller   string           `json:"caller"`
	Print    bool             `json:"print,omitempty"` // nothing was done
	Changed  bool             `json:"changed"`
	Files    []setup.Applied  `json:"files"`
	Entry    string           `json:"entry,omitempty"`
	Previous []setup.Previous `json:"previous,omitempty"`
	Notes    []string         `json:"notes,omitempty"`
	Next     string           `json:"next,omitempty"`
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// done says what happened to a file, would says what --print would do to it.
var (
	done  = map[setup.Action]string{setup.Create: "created", setup.Modify: "changed", setup.Remove: "removed", setup.Keep: "unchanged"}
	would = map[setup.Action]string{setup.Create: "would create", setup.Modify: "would change", setup.Remove: "would remove", setup.Keep: "unchanged"}
)

func (r setupReport) write(w io.Writer, plan *setup.Plan) error {
	var b strings.Builder
	verbs := done
	if r.Print {
		verbs = would
		for _, c := range plan.Changes {
			text, ok := c.Diff()
			if !ok {
				text = plan.Entry
			}
			b.WriteString(text)
		}
	}
	for _, f := range r.Files {
		fmt.Fprintf(&b, "%s %s", verbs[f.Action], f.Path)
		if f.Backup != "" {
			fmt.Fprintf(&b, " (as it was: %s)", filepath.Base(f.Backup))
		}
		b.WriteByte('\n')
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	if r.Next != "" {
		fmt.Fprintf(&b, "next: %s\n", r.Next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// partly tells what was done before a file failed.
func (r setupReport) partly(w io.Writer) error {
	for _, f := range r.Files {
		if _, err := fmt.Fprintf(w, "%s %s\n", done[f.Action], f.Path); err != nil {
			return err
		}
	}
	return nil
}

// thisServer is this binary with the variables that are set now and those given.
func thisServer(given []string) (setup.Server, error) {
	command, err := os.Executable()
	if err == nil {
		command, err = filepath.EvalSymlinks(command)
	}
	if err != nil {
		return setup.Server{}, err
	}
	if filepath.Base(filepath.Dir(command)) == "exe" && strings.Contains(command, "go-build") {
		return setup.Server{}, usageError{fmt.Errorf("%s goes away with this command; build the binary (go build .) and run that one", command)}
	}
	env, err := serverEnv(given)
	return setup.Server{Command: command, Env: env}, err
}

func serverEnv(given []string) (map[string]string, error) {
	env := map[string]string{}
	known := map[string]bool{}
	for _, v := range config.Variables {
		known[v.Name] = true
		if value := os.Getenv(v.Name); value != "" {
			env[v.Name] = value
		}
	}
	for _, pair := range given {
		name, value, ok := strings.Cut(pair, "=")
		switch {
		case !ok || !validName(name):
			return nil, usageError{fmt.Errorf("--env %q is not NAME=VALUE", pair)}
		case strings.HasPrefix(name, "DSH_") && !known[name]:
			return nil, usageError{fmt.Errorf("--env %s: the bridge reads no such variable; dsh-agentlink help lists them", name)}
		case value == "":
			delete(env, name)
		default:
			env[name] = value
		}
	}
	// What the bridge would refuse at its start is refused here, where somebody reads it.
	if _, err := config.Load(func(name string) string {
		if known[name] || env[name] != "" {
			return env[name]
		}
		return os.Getenv(name)
	}); err != nil {
		return nil, usageError{fmt.Errorf("the bridge would not start with these variables:\n%w", err)}
	}
	return env, nil
}

// validName is narrower than what a system allows, so that a name needs no quotes in any file.
func validName(name string) bool {
	for i, c := range []byte(name) {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
