package readme

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// elision stands for any number of lines.
const elision = "…"

// varying is what is another each time: ids, ports, process numbers, counts and times.
var varying = regexp.MustCompile(`dsh_[0-9a-f]{12}|[0-9]+(\.[0-9]+)?`)

func steady(line string) string { return varying.ReplaceAllString(strings.TrimRight(line, " "), "#") }

// compare holds a printed text against the one that a page says is printed. It returns nil when they agree in all but
// what varies and what the page leaves out.
func compare(said, printed string) error {
	lines := strings.Split(strings.TrimRight(printed, "\n"), "\n")
	at, anywhere := 0, false
	for wanted := range strings.Lines(strings.TrimRight(said, "\n")) {
		wanted = strings.TrimRight(wanted, "\n")
		if strings.TrimSpace(wanted) == elision {
			anywhere = true
			continue
		}
		found := -1
		for i := at; i < len(lines) && (anywhere || i == at); i++ {
			if steady(lines[i]) == steady(wanted) {
				found = i
				break
			}
		}
		if found < 0 {
			return fmt.Errorf("the page says %q, which is not printed there", wanted)
		}
		at, anywhere = found+1, false
	}
	if !anywhere && at < len(lines) {
		return fmt.Errorf("%q is printed and not on the page", lines[at])
	}
	return nil
}

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		said, printed string
		same          bool
	}{
		{"a\nb\n", "a\nb\n", true},
		{"a\n", "a\nb\n", false},
		{"a\n…\n", "a\nb\n", true},
		{"…\nb\n", "a\nb\n", true},
		{"a\n…\nc\n", "a\nb\nb\nc\n", true},
		{"a\n…\nc\n", "a\nb\n", false},
		{"a\nc\n", "a\nb\nc\n", false},
		{"b\na\n", "a\nb\n", false},
		{"took 2.1 s, 27 events of dsh_37ec16ecef8f\n", "took 3.0 s, 9 events of dsh_000000000000\n", true},
		{"…\n", "", true},
		{"a\n", "", false},
	} {
		if err := compare(tt.said, tt.printed); (err == nil) != tt.same {
			t.Errorf("%q and %q: %v", tt.said, tt.printed, err)
		}
	}
}
