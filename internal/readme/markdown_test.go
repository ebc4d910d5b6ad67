package readme

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// document is what the tests look at in a page.
type document struct {
	headings []string // "## Title"
	blocks   []block
	tables   [][][]string // tables, rows without the ruler, cells
	links    []string     // targets, in order
}

// block is a fenced block: the words behind its fence, and its text.
type block struct {
	info string
	text string
	line int
}

var (
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	rule       = regexp.MustCompile(`^\|[-:| ]+\|$`)
)

// parse reads the part of Markdown that the pages are written in.
func parse(text string) document {
	var d document
	var open *block
	inTable := false
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if info, fence := strings.CutPrefix(line, "```"); fence {
			if open == nil {
				open = &block{info: info, line: number}
			} else {
				d.blocks = append(d.blocks, *open)
				open = nil
			}
			continue
		}
		if open != nil {
			open.text += line + "\n"
			continue
		}
		for _, m := range linkTarget.FindAllStringSubmatch(line, -1) {
			d.links = append(d.links, m[1])
		}
		if strings.HasPrefix(line, "#") {
			d.headings = append(d.headings, line)
		}
		row := strings.HasPrefix(line, "|")
		if row && !inTable {
			d.tables = append(d.tables, nil)
		}
		if row && !rule.MatchString(line) {
			last := len(d.tables) - 1
			d.tables[last] = append(d.tables[last], cells(line))
		}
		inTable = row
	}
	return d
}

func cells(line string) []string {
	var all []string
	for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
		all = append(all, strings.TrimSpace(cell))
	}
	return all
}

// root is the repository, seen from here.
const root = "../.."

func page(t *testing.T, name string) document {
	t.Helper()
	text, err := os.ReadFile(root + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return parse(string(text))
}

func TestParse(t *testing.T) {
	got := parse("# A [b](c.md)\n\n| x | y |\n| --- | --- |\n| `1` | [l](m) |\n\n```sh run\n# no heading\n| no | table |\n```\n| z |\n")
	want := document{
		headings: []string{"# A [b](c.md)"},
		blocks:   []block{{info: "sh run", text: "# no heading\n| no | table |\n", line: 7}},
		tables:   [][][]string{{{"x", "y"}, {"`1`", "[l](m)"}}, {{"z"}}},
		links:    []string{"c.md", "m"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(document{}, block{})); diff != "" {
		t.Error(diff)
	}
}
