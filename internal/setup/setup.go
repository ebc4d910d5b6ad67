// Package setup writes the bridge into the configuration of a caller (Codex, Claude Code), and takes it out again.
//
// A caller's file belongs to its user. What is written is spliced into it as text: every byte outside the entry stays,
// down to the comments, the line ends and a missing newline at the end. A change is planned whole before anything is
// written; a plan is checked by parsing both texts and comparing all but the entry. A file that cannot be parsed, is a
// symbolic link or belongs to somebody else is refused.
package setup

import (
	"fmt"
	"strings"
)

// Name is what the entry is called in every caller's configuration.
const Name = "dsh_agentlink"

// names are the entries that would offer the same tools twice: ours, the spelling that earlier instructions used, and
// the TypeScript bridge's.
var names = []string{Name, "dsh-agentlink", "dsh_collab"}

// Server is how a caller starts the bridge.
type Server struct {
	Command string            // absolute path of the binary
	Env     map[string]string // what the bridge has to find in its environment
}

// Plan is what a setup or a removal does to files. Nothing is written before [Plan.Apply].
type Plan struct {
	Caller  string // "codex" or "claude"
	Changes []Change
	// Entry is the text of the entry that a setup writes or a removal takes out; empty when there is none.
	Entry string
	// Previous are the entries that a setup replaces.
	Previous []Previous
	// Notes are what a person should know besides.
	Notes []string
}

// Change is what happens to one file.
type Change struct {
	Path   string
	Action Action
	Before []byte // nil for a file that is created
	After  []byte // nil for a file that is removed

	seen   file
	ours   bool                    // all of the file is as it was installed, so that nothing of it needs a backup
	verify func(data []byte) error // whether what was written is what the caller has to read
}

// Action sorts changes.
type Action string

// The actions.
const (
	Create Action = "create"
	Modify Action = "modify"
	Remove Action = "remove"
	Keep   Action = "keep" // nothing to do
)

// Previous is an entry that is there already.
type Previous struct {
	Path string `json:"path"`
	Name string `json:"name"`
	Text string `json:"text"` // as it stands in the file
}

// Changed reports whether the plan does anything.
func (p *Plan) Changed() bool {
	for _, c := range p.Changes {
		if c.Action != Keep {
			return true
		}
	}
	return false
}

// RefusedError says why a file is left alone, and what a person can do.
type RefusedError struct {
	Path    string
	Problem string
	Fix     string
}

func (e *RefusedError) Error() string {
	s := e.Path + " " + e.Problem
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// ConflictError says that entries are there already that a setup would replace, and was not told to.
type ConflictError struct {
	Previous []Previous
}

func (e *ConflictError) Error() string {
	var b strings.Builder
	for _, p := range e.Previous {
		fmt.Fprintf(&b, "%s has %s already:\n%s\n", p.Path, p.Name, indent(p.Text))
	}
	b.WriteString("Nothing was changed. --replace puts the new entry in its place, --replace --print shows that first")
	return b.String()
}

func indent(text string) string {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	return "    " + strings.Join(lines, "\n    ")
}

// decide says whether a setup has to write: with every entry that is there already, whether ours is as it should be,
// and whether the user allowed to replace.
func decide(previous []Previous, good, replace bool) (write bool, err error) {
	switch {
	case len(previous) == 0:
		return true, nil
	case good && len(previous) == 1:
		return false, nil
	case !replace:
		return false, &ConflictError{Previous: previous}
	}
	return true, nil
}

// satisfies reports whether an entry that is there has all that the wanted one has. A caller or its user may have added
// to it (Codex keeps the answers to its own prompts there); the environment has to be the same, since a variable too
// many makes another bridge.
func satisfies(have, want any) bool {
	wanted, ok := want.(map[string]any)
	if !ok {
		return same(have, want)
	}
	got, ok := have.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range wanted {
		if key != "env" && !satisfies(got[key], value) {
			return false
		}
	}
	return same(orEmpty(got["env"]), orEmpty(wanted["env"]))
}

func orEmpty(env any) any {
	if env == nil {
		return map[string]any{}
	}
	return env
}
