package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// The two READMEs have the same headings in levels, the same blocks, the same tables and the same links.
func TestLanguagesAreInStep(t *testing.T) {
	english, chinese := page(t, "README.md"), page(t, "README.zh-CN.md")
	if diff := cmp.Diff(levels(english), levels(chinese)); diff != "" {
		t.Errorf("headings (-en +zh):\n%s", diff)
	}
	if diff := cmp.Diff(codes(english), codes(chinese)); diff != "" {
		t.Errorf("blocks (-en +zh):\n%s", diff)
	}
	if diff := cmp.Diff(shapes(english), shapes(chinese)); diff != "" {
		t.Errorf("tables (-en +zh):\n%s", diff)
	}
	if diff := cmp.Diff(others(english.links), others(chinese.links)); diff != "" {
		t.Errorf("links (-en +zh):\n%s", diff)
	}
}

// Names, values and commands stand in backquotes; a translation has the same ones, section by section.
func TestLanguagesNameTheSame(t *testing.T) {
	english, chinese := quoted(t, "README.md"), quoted(t, "README.zh-CN.md")
	if diff := cmp.Diff(english, chinese); diff != "" {
		t.Errorf("what stands in backquotes, by section (-en +zh):\n%s", diff)
	}
}

// The translation is one: it is written in Chinese, section by section.
func TestChineseIsChinese(t *testing.T) {
	for _, heading := range page(t, "README.zh-CN.md").headings[1:] {
		if !strings.ContainsFunc(heading, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("%s", heading)
		}
	}
}

func levels(d document) []int {
	var all []int
	for _, h := range d.headings {
		level, _, _ := strings.Cut(h, " ")
		all = append(all, len(level))
	}
	return all
}

func codes(d document) []string {
	var all []string
	for _, b := range d.blocks {
		all = append(all, b.info+"\n"+b.text)
	}
	return all
}

// shapes are tables with their first columns, and how many columns there are; heads are words of a language.
func shapes(d document) [][]string {
	var all [][]string
	for _, table := range d.tables {
		shape := []string{strings.Repeat("|", len(table[0]))}
		for _, row := range table[1:] {
			shape = append(shape, row[0]+strings.Repeat("|", len(row)))
		}
		all = append(all, shape)
	}
	return all
}

// others are the links without those from one language to the other.
func others(links []string) []string {
	return slices.DeleteFunc(slices.Clone(links), func(l string) bool { return strings.HasPrefix(l, "README") })
}

// quoted lists what stands in backquotes in each section, sorted.
func quoted(t *testing.T, name string) [][]string {
	t.Helper()
	text, err := os.ReadFile(root + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	prose := regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(string(text), "")
	var all [][]string
	for _, section := range regexp.MustCompile(`(?m)^## `).Split(prose, -1) {
		found := regexp.MustCompile("`[^`\n]+`").FindAllString(section, -1)
		slices.Sort(found)
		all = append(all, slices.Compact(found))
	}
	return all
}

// Every link of the pages leads somewhere: to a file of the repository, and to a heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, name := range pages {
		for _, link := range page(t, name).links {
			if strings.Contains(link, "://") {
				continue
			}
			path, anchor, _ := strings.Cut(link, "#")
			target := name
			if path != "" {
				target = filepath.Join(filepath.Dir(name), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", name, link, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(page(t, target)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", name, link)
			}
		}
	}
}

// anchors are the headings of a page as a link names them.
func anchors(d document) []string {
	var all []string
	for _, h := range d.headings {
		_, title, _ := strings.Cut(h, " ")
		var b strings.Builder
		for _, r := range strings.ToLower(title) {
			switch {
			case r == ' ':
				b.WriteByte('-')
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
				b.WriteRune(r)
			}
		}
		all = append(all, b.String())
	}
	return all
}
