package setup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// words are the names that a caller can meet: tools, their arguments and the values of these, codes of failures, and
// the fields of answers.
func words(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	files, err := filepath.Glob("../../bridge/testdata/tools/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tool schemas: %v", err)
	}
	for _, file := range files {
		var tool struct {
			Name        string
			InputSchema struct {
				Properties map[string]struct{ Enum []string }
			}
		}
		if err := json.Unmarshal([]byte(read(t, file)), &tool); err != nil {
			t.Fatal(err)
		}
		all[tool.Name] = true
		for name, property := range tool.InputSchema.Properties {
			all[name] = true
			for _, value := range property.Enum {
				all[value] = true
			}
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(read(t, "../../docs/errors.md"), -1) {
		all[row[1]] = true
	}
	answers, err := filepath.Glob("../../bridge/testdata/answers/*.json")
	if err != nil || len(answers) == 0 {
		t.Fatalf("no answers: %v", err)
	}
	for _, file := range answers {
		for _, field := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(read(t, file), -1) {
			all[field[1]] = true
		}
	}
	return all
}

func TestSkillNamesWhatExists(t *testing.T) {
	known := words(t)
	// Reasons of dsh_wait, and parts of an error; no golden answer holds them all.
	for _, word := range []string{"attention", "terminal", "timeout", "availability", "message", "hint", "outcome", "unknown"} {
		known[word] = true
	}
	var missing []string
	for _, quoted := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(string(skill), -1) {
		for _, word := range regexp.MustCompile(`[A-Za-z_]\w*(?:-\w+)*\*?`).FindAllString(quoted[1], -1) {
			if !known[word] && word != "dsh_*" && !strings.HasPrefix(quoted[1], "dsh-agentlink ") {
				missing = append(missing, word)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("the skill names what does not exist: %q", missing)
	}
}

func TestSkillNamesTheToolsOfSupervision(t *testing.T) {
	for _, name := range []string{"dsh_host_status", "dsh_delegate", "dsh_wait", "dsh_tail", "dsh_status", "dsh_list", "dsh_answer_question",
		"dsh_resolve_approval", "dsh_followup", "dsh_cancel", "dsh_release_workspace"} {
		if !strings.Contains(string(skill), "`"+name+"`") {
			t.Errorf("the skill does not name %s", name)
		}
	}
}

// Claude Code reads the name and the description from the head, and shows the description cut at 1,024 characters.
func TestSkillHead(t *testing.T) {
	head := regexp.MustCompile(`(?s)\A---\nname: dsh-agentlink\ndescription: ([^\n]+)\n---\n`).FindSubmatch(markedSkill())
	if head == nil || len(head[1]) > 1024 || strings.ContainsAny(string(head[1]), "\":") {
		t.Errorf("the head is not what Claude Code reads: %.200q", skill)
	}
	if !pristine(markedSkill()) {
		t.Error("a skill that was just installed counts as edited")
	}
	if info, err := os.Stat("skill.md"); err != nil || info.Size() > 6000 {
		t.Errorf("the skill has %d bytes; an agent reads all of it: %v", info.Size(), err)
	}
}
