package setup

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// What Codex is told about the bridge. A call waits for 30 seconds at most, but one that allows something may ask a
// person first, who needs longer than Codex would wait by itself.
const (
	codexStartupSec = 20
	codexToolSec    = 600
)

// Codex plans to put the bridge into the config.toml at path.
func Codex(path string, server Server, replace bool) (*Plan, error) {
	f, document, err := readCodex(path)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Caller: "codex", Entry: codexEntry(server).tables}
	if plan.Previous, err = codexPrevious(f); err != nil {
		return nil, err
	}
	good := satisfies(codexServers(document)[Name], codexValue(server))
	if replace {
		good = same(codexServers(document)[Name], codexValue(server))
	}
	write, err := decide(plan.Previous, good, replace)
	if err != nil {
		return nil, err
	}
	if !write {
		plan.Previous = nil
		plan.Changes = []Change{{Path: path, Action: Keep, Before: f.data, After: f.data, seen: f}}
		return plan, nil
	}
	after, err := removeTOML(f.data, names...)
	if err == nil {
		after, err = addTOML(after, codexEntry(server))
	}
	return plan.codex(f, document, after, err, names, codexValue(server))
}

// RemoveCodex plans to take the bridge out of the config.toml at path.
func RemoveCodex(path string) (*Plan, error) {
	f, document, err := readCodex(path)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Caller: "codex"}
	entries, err := codexText(f, Name)
	if err != nil {
		return nil, err
	}
	if entries == "" {
		plan.Changes = []Change{{Path: path, Action: Keep, Before: f.data, After: f.data, seen: f}}
		return plan, nil
	}
	plan.Entry = entries
	after, err := removeTOML(f.data, Name)
	return plan.codex(f, document, after, err, []string{Name}, nil)
}

// codex checks what was spliced and makes it the plan's change: all but the entries is as before, and ours is as wanted.
func (p *Plan) codex(f file, before map[string]any, after []byte, err error, names []string, want any) (*Plan, error) {
	verify := func(data []byte) error {
		now, err := parseTOML(data)
		if err != nil {
			return err
		}
		if !same(without(before, tomlTable, names), without(now, tomlTable, names)) {
			return fmt.Errorf("something besides the entry would change")
		}
		if have, ok := codexServers(now)[Name]; ok != (want != nil) || ok && !same(have, want) {
			return fmt.Errorf("the entry would not be what it has to be")
		}
		return nil
	}
	if err == nil {
		err = verify(after)
	}
	if err != nil {
		return nil, &RefusedError{f.path, "has a form that cannot be edited safely: " + err.Error(), "edit it by hand (--print on another CODEX_HOME shows the entry)"}
	}
	p.Changes = []Change{changeOf(f, after, verify)}
	return p, nil
}

// changeOf is the change of a file to another content. A file that is left with nothing in it is removed.
func changeOf(f file, after []byte, verify func([]byte) error) Change {
	c := Change{Path: f.path, Action: Modify, Before: f.data, After: after, seen: f, verify: verify}
	switch {
	case !f.exists:
		c.Action = Create
	case len(after) == 0 || string(after) == emptyJSON:
		c.Action, c.After = Remove, nil
	}
	return c
}

func readCodex(path string) (file, map[string]any, error) {
	f, err := readFile(path, 0o600)
	if err != nil {
		return f, nil, err
	}
	document, err := parseTOML(f.data)
	if err != nil {
		return f, nil, &RefusedError{path, "cannot be parsed as TOML 1.0: " + err.Error(), "mend it, or edit it by hand"}
	}
	return f, document, nil
}

func codexServers(document map[string]any) map[string]any {
	servers, _ := document[tomlTable].(map[string]any)
	return servers
}

// codexPrevious lists the entries that are there.
func codexPrevious(f file) ([]Previous, error) {
	var list []Previous
	for _, name := range names {
		text, err := codexText(f, name)
		if err != nil {
			return nil, err
		}
		if text != "" {
			list = append(list, Previous{Path: f.path, Name: name, Text: text})
		}
	}
	return list, nil
}

// codexText is an entry as it stands in the file, empty when there is none.
func codexText(f file, name string) (string, error) {
	_, text := withoutBOM(f.data)
	spans, _, err := tomlSpans(text, name)
	var b strings.Builder
	for _, s := range spans {
		b.Write(text[s.start:s.end])
	}
	return b.String(), err
}

// codexValue is the entry as Codex reads it.
func codexValue(server Server) map[string]any {
	value := map[string]any{
		"command": server.Command, "startup_timeout_sec": int64(codexStartupSec), "tool_timeout_sec": int64(codexToolSec),
		"tools": map[string]any{"dsh_resolve_approval": map[string]any{"approval_mode": "prompt"}},
	}
	if len(server.Env) > 0 {
		env := map[string]any{}
		for name, v := range server.Env {
			env[name] = v
		}
		value["env"] = env
	}
	return value
}

// codexEntry is the entry as it is written.
func codexEntry(server Server) tomlEntry {
	var tables, inline strings.Builder
	fmt.Fprintf(&tables, "[%s.%s]\ncommand = %s\nstartup_timeout_sec = %d\ntool_timeout_sec = %d\n",
		tomlTable, Name, tomlString(server.Command), codexStartupSec, codexToolSec)
	fmt.Fprintf(&inline, "%s = { command = %s, startup_timeout_sec = %d, tool_timeout_sec = %d",
		Name, tomlString(server.Command), codexStartupSec, codexToolSec)
	if len(server.Env) > 0 {
		fmt.Fprintf(&tables, "\n[%s.%s.env]\n", tomlTable, Name)
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(server.Env)) {
			pair := name + " = " + tomlString(server.Env[name])
			fmt.Fprintln(&tables, pair)
			pairs = append(pairs, pair)
		}
		fmt.Fprintf(&inline, ", env = { %s }", strings.Join(pairs, ", "))
	}
	fmt.Fprintf(&tables, "\n[%s.%s.tools.dsh_resolve_approval]\napproval_mode = \"prompt\"\n", tomlTable, Name)
	inline.WriteString(", tools = { dsh_resolve_approval = { approval_mode = \"prompt\" } } }")
	return tomlEntry{tables: tables.String(), inline: inline.String()}
}

// tomlString writes a basic string. What is not printable is escaped, so that the text stays on one line.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "\\U%08X", r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
