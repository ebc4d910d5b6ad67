// Package architecture holds no code: its tests keep the promises of docs/architecture.md about the tree itself.
package architecture

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "dsh-agentlink"

// mayImport are the project's own packages that a package may import. Imports go one way; ledger and claims know nothing
// of the wire, internal/dsh nothing of tasks, and the bridge sees a host only through internal/dsh.
var mayImport = map[string][]string{
	"":                     {"internal/cli"},
	"bridge":               {"claims", "internal/config", "internal/dsh", "internal/home", "internal/outcome", "internal/requests", "internal/tasks", "ledger", "mux"},
	"claims":               {"internal/home", "internal/tasks"},
	"ledger":               {},
	"mux":                  {"internal/dsh", "ledger"},
	"bench":                {"bench/internal/plain", "bridge", "internal/dshtest", "internal/home", "internal/labmodel", "internal/scenario/livehost", "internal/tasks", "ledger"},
	"bench/internal/bare":  {"bench/internal/plain"},
	"bench/internal/plain": {},

	"internal/architecture":      {},
	"internal/callers":           {},
	"internal/cli":               {"bridge", "internal/config", "internal/demo", "internal/dsh", "internal/home", "internal/lifetime", "internal/operator", "internal/repair", "internal/setup", "internal/stdio", "internal/tasks", "internal/watch", "internal/words"},
	"internal/config":            {"internal/dsh"},
	"internal/demo":              {"internal/dshtest", "internal/labmodel", "internal/words"},
	"internal/dsh":               {},
	"internal/dshtest":           {"internal/labmodel"},
	"internal/flow":              {},
	"internal/readme":            {},
	"internal/release":           {"internal/cli", "internal/config"},
	"internal/home":              {},
	"internal/labmodel":          {},
	"internal/lifetime":          {},
	"internal/operator":          {"bridge", "claims", "internal/config", "internal/dsh", "internal/home", "internal/tasks", "ledger"},
	"internal/outcome":           {"internal/dsh"},
	"internal/repair":            {"bridge", "claims", "internal/dsh", "internal/home", "internal/operator", "internal/tasks", "ledger", "mux"},
	"internal/requests":          {"internal/home", "internal/tasks"},
	"internal/scenario":          {},
	"internal/scenario/livehost": {"internal/labmodel"},
	"internal/setup":             {},
	"internal/sim":               {"internal/dsh", "ledger", "mux"},
	"internal/stdio":             {"bridge"},
	"internal/tasks":             {"internal/home"},
	"internal/watch":             {"internal/dsh", "internal/home", "internal/operator", "internal/words", "ledger"},
	"internal/words":             {"internal/operator", "ledger"},
}

func TestImportsGoOneWay(t *testing.T) {
	for _, p := range packages(t) {
		allowed, known := mayImport[p.name]
		if !known {
			t.Errorf("package %q is new: say in mayImport what it may import, and in docs/architecture.md what it is for", p.name)
			continue
		}
		for _, imported := range p.imports {
			if !slices.Contains(allowed, imported) {
				t.Errorf("%s imports %s, which it may not", p.name, imported)
			}
		}
	}
}

// No package is a heap of things that belong nowhere.
func TestNamesOfPackages(t *testing.T) {
	for _, p := range packages(t) {
		switch filepath.Base(p.name) {
		case "util", "utils", "common", "helpers", "misc", "shared", "base":
			t.Errorf("%s says nothing of what is in it", p.name)
		}
	}
}

func TestPackagesAreOnTheMap(t *testing.T) {
	doc, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages(t) {
		if p.name == "" || strings.HasPrefix(p.name, "bench/internal") || p.name == "internal/scenario/livehost" {
			continue
		}
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(p.name) + `/? `).Match(doc) {
			t.Errorf("docs/architecture.md does not say what %s is for", p.name)
		}
	}
}

// maxLines is where a file is asked what is hiding in it.
const maxLines = 450

func TestFilesHoldOneIdea(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		data, err := os.ReadFile(path)
		if n := bytes.Count(data, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines", path, n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stdout belongs to JSON-RPC: nothing that a server runs may print there by itself.
func TestNothingPrintsToStdout(t *testing.T) {
	prints := regexp.MustCompile(`\bfmt\.Print(ln|f)?\(|\bprintln\(|\bos\.Stdout\b`)
	for _, dir := range []string{"bridge", "mux", "ledger", "claims", "internal/dsh", "internal/home", "internal/tasks", "internal/requests", "internal/outcome", "internal/config", "internal/lifetime", "internal/stdio"} {
		files, err := filepath.Glob("../../" + dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if at := prints.Find(data); at != nil {
				t.Errorf("%s: %s", file, at)
			}
		}
	}
}

type listed struct {
	name    string
	imports []string // of the project
}

// packages lists the project's packages, by their path below the module.
func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, module+"/...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	below := func(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, module), "/") }
	var all []listed
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		p := listed{name: below(words[0])}
		for _, imported := range words[1:] {
			if imported == module || strings.HasPrefix(imported, module+"/") {
				p.imports = append(p.imports, below(imported))
			}
		}
		all = append(all, p)
	}
	return all
}
