package setup

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed skill.md
var skill []byte

// ClaudePlaces are the files that Claude Code reads.
type ClaudePlaces struct {
	Servers string      // the file with mcpServers
	Skill   string      // the skill's SKILL.md
	Mode    fs.FileMode // for a Servers file that is made

	dir, user string // of a project: its directory, and the user's own file
}

// ClaudeProject are the files of the project in dir, an absolute path. home and configDir are as for [ClaudeUser].
func ClaudeProject(dir, home, configDir string) ClaudePlaces {
	return ClaudePlaces{
		Servers: filepath.Join(dir, ".mcp.json"), Skill: skillPath(filepath.Join(dir, ".claude")), Mode: 0o644,
		dir: dir, user: ClaudeUser(home, configDir).Servers,
	}
}

// ClaudeUser are the files of the user whose home is given. configDir is CLAUDE_CONFIG_DIR, empty when it is not set.
func ClaudeUser(home, configDir string) ClaudePlaces {
	if configDir != "" {
		return ClaudePlaces{Servers: filepath.Join(configDir, ".claude.json"), Skill: skillPath(configDir), Mode: 0o600}
	}
	return ClaudePlaces{Servers: filepath.Join(home, ".claude.json"), Skill: skillPath(filepath.Join(home, ".claude")), Mode: 0o600}
}

func skillPath(dir string) string { return filepath.Join(dir, "skills", "dsh-agentlink", "SKILL.md") }

// claudeEntry is an entry of mcpServers, in the order in which Claude Code writes it.
type claudeEntry struct {
	Type    string            `json:"type"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
}

// Claude plans to put the bridge and its skill into Claude Code's files.
func Claude(places ClaudePlaces, server Server, replace bool) (*Plan, error) {
	plan := &Plan{Caller: "claude"}
	servers, err := plan.claudeServers(places, server, replace)
	if err != nil {
		return nil, err
	}
	text, err := planSkill(places.Skill, replace)
	if err != nil {
		return nil, err
	}
	plan.Changes = []Change{servers, text}
	plan.Notes = shadows(places)
	return plan, nil
}

// shadows tells of entries that Claude Code would take instead of a project's: those that it keeps in the user's file
// for that one directory, which is where "claude mcp add" puts them.
func shadows(places ClaudePlaces) []string {
	if places.dir == "" {
		return nil
	}
	f, err := readFile(places.user, 0o600)
	if err != nil {
		return nil // the file is not ours to judge here
	}
	document, err := parseJSON(f.data)
	if err != nil {
		return nil
	}
	projects, _ := document["projects"].(map[string]any)
	project, _ := projects[places.dir].(map[string]any)
	servers, _ := project[jsonTable].(map[string]any)
	var notes []string
	for _, name := range names {
		if _, ok := servers[name]; ok {
			notes = append(notes, fmt.Sprintf("%s has %s for this directory alone, beside the project's: claude mcp remove --scope local %s", places.user, name, name))
		}
	}
	return notes
}

func (p *Plan) claudeServers(places ClaudePlaces, server Server, replace bool) (Change, error) {
	f, document, err := readClaude(places)
	if err != nil {
		return Change{}, err
	}
	entry := claudeEntry{Type: "stdio", Command: server.Command, Args: []string{}, Env: server.Env}
	member, err := jsonStyle{lines: true, unit: "  ", colon: " ", eol: "\n"}.member(Name, entry, "")
	if err != nil {
		return Change{}, err
	}
	p.Entry = member + "\n"
	if p.Previous, err = claudePrevious(f, names...); err != nil {
		return Change{}, refuseForm(f, err)
	}
	want := claudeValue(entry)
	good := satisfies(claudeServers(document)[Name], want)
	if replace {
		good = same(claudeServers(document)[Name], want)
	}
	write, err := decide(p.Previous, good, replace)
	if err != nil {
		return Change{}, err
	}
	if !write {
		p.Previous = nil
		return Change{Path: f.path, Action: Keep, Before: f.data, After: f.data, seen: f}, nil
	}
	after, err := removeJSON(f.data, names...)
	if err == nil {
		after, err = addJSON(after, Name, entry)
	}
	return claudeChange(f, document, after, err, names, want)
}

// RemoveClaude plans to take the bridge and its skill out of Claude Code's files. A skill that was edited stays.
func RemoveClaude(places ClaudePlaces) (*Plan, error) {
	plan := &Plan{Caller: "claude"}
	f, document, err := readClaude(places)
	if err != nil {
		return nil, err
	}
	entries, err := claudePrevious(f, Name)
	if err != nil {
		return nil, refuseForm(f, err)
	}
	servers := Change{Path: f.path, Action: Keep, Before: f.data, After: f.data, seen: f}
	if len(entries) > 0 {
		plan.Entry = entries[0].Text + "\n"
		after, err := removeJSON(f.data, Name)
		if servers, err = claudeChange(f, document, after, err, []string{Name}, nil); err != nil {
			return nil, err
		}
	}
	text, err := readFile(places.Skill, 0o644)
	if err != nil {
		return nil, err
	}
	taken := Change{Path: text.path, Action: Keep, Before: text.data, After: text.data, seen: text}
	switch {
	case text.exists && pristine(text.data):
		taken.Action, taken.After, taken.ours = Remove, nil, true
	case text.exists:
		plan.Notes = append(plan.Notes, text.path+" was edited and stays; remove it by hand when it is not wanted")
	}
	plan.Changes = []Change{servers, taken}
	return plan, nil
}

func claudeChange(f file, before map[string]any, after []byte, err error, names []string, want any) (Change, error) {
	verify := func(data []byte) error {
		now, err := parseJSON(data)
		if err != nil {
			return err
		}
		if !same(without(before, jsonTable, names), without(now, jsonTable, names)) {
			return fmt.Errorf("something besides the entry would change")
		}
		if have, ok := claudeServers(now)[Name]; ok != (want != nil) || ok && !same(have, want) {
			return fmt.Errorf("the entry would not be what it has to be")
		}
		return nil
	}
	if err == nil {
		err = verify(after)
	}
	if err != nil {
		return Change{}, refuseForm(f, err)
	}
	return changeOf(f, after, verify), nil
}

func refuseForm(f file, err error) error {
	return &RefusedError{f.path, "has a form that cannot be edited safely: " + err.Error(), "edit it by hand"}
}

func readClaude(places ClaudePlaces) (file, map[string]any, error) {
	f, err := readFile(places.Servers, places.Mode)
	if err != nil {
		return f, nil, err
	}
	document, err := parseJSON(f.data)
	if err != nil {
		return f, nil, &RefusedError{f.path, "cannot be parsed: " + err.Error(), "mend it, or edit it by hand"}
	}
	return f, document, nil
}

func claudeServers(document map[string]any) map[string]any {
	servers, _ := document[jsonTable].(map[string]any)
	return servers
}

// claudePrevious lists the entries of those names that are there.
func claudePrevious(f file, names ...string) ([]Previous, error) {
	if blank(f.data) {
		return nil, nil
	}
	_, text := withoutBOM(f.data)
	_, servers, err := jsonObjects(text)
	if err != nil || servers == nil {
		return nil, err
	}
	var list []Previous
	for _, name := range names {
		for _, s := range servers.named(name) {
			list = append(list, Previous{Path: f.path, Name: name, Text: string(text[s.start:s.end])})
		}
	}
	return list, nil
}

// claudeValue is the entry as Claude Code reads it.
func claudeValue(e claudeEntry) map[string]any {
	value := map[string]any{"type": e.Type, "command": e.Command, "args": []any{}}
	if len(e.Env) > 0 {
		env := map[string]any{}
		for name, v := range e.Env {
			env[name] = v
		}
		value["env"] = env
	}
	return value
}

// skillMark begins the last line of the skill. The digest behind it is of all before the line, and tells a skill that
// was only installed, by whatever version, from one that a person made theirs.
const skillMark = "<!-- installed by dsh-agentlink setup, "

// markedSkill is the skill as it is installed.
func markedSkill() []byte { return slices.Concat(skill, []byte(markLine(skill))) }

func markLine(text []byte) string {
	digest := sha256.Sum256(text)
	return skillMark + hex.EncodeToString(digest[:8]) + " -->\n"
}

// pristine reports whether a skill is as some version installed it.
func pristine(data []byte) bool {
	at := bytes.LastIndex(data, []byte(skillMark))
	return at >= 0 && string(data[at:]) == markLine(data[:at])
}

func planSkill(path string, replace bool) (Change, error) {
	f, err := readFile(path, 0o644)
	if err != nil {
		return Change{}, err
	}
	want := markedSkill()
	c := Change{Path: path, Action: Modify, Before: f.data, After: want, seen: f, ours: pristine(f.data), verify: func([]byte) error { return nil }}
	switch {
	case !f.exists:
		c.Action = Create
	case bytes.Equal(f.data, want):
		c.Action = Keep
	case !pristine(f.data) && !replace:
		return Change{}, &ConflictError{Previous: []Previous{{Path: path, Name: "another skill", Text: strings.TrimRight(string(f.data), "\n")}}}
	}
	return c, nil
}
