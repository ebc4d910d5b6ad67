package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every scenario that the comparison names is there.
func TestComparisonNamesScenarios(t *testing.T) {
	doc, err := os.ReadFile("../../docs/comparison.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../scenario/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`name: "([^"]*)"`).FindAllSubmatch(data, -1) {
			known[string(name[1])] = true
		}
	}
	named := 0
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || strings.HasPrefix(cells[1], " ---") {
			continue
		}
		for _, name := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(cells[5], -1) {
			named++
			if !known[name[1]] {
				t.Errorf("there is no scenario %q", name[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("%d scenarios are named; is the table read at all?", named)
	}
}
