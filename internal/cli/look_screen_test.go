package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestNothingIsHidden(t *testing.T) {
	for text, want := range map[string]string{
		"plain":              "plain",
		"größer 工 👩‍💻":       "größer 工 👩‍💻",
		"\x1b[2J":            `\x1b[2J`,
		"a\nb\tc\r":          `a\nb\tc\r`,
		"\u009b31m":          `\x9b31m`,
		"\u202egpj.exe":      `\u202egpj.exe`,
		"a\u2028b":           `a\u2028b`,
		"\x7f\x00":           `\x7f\x00`,
		"\xff\xfe":           `\xff\xfe`,
		"\U000e0041":         `\U000e0041`,
		"a \ufffd stays":     "a \ufffd stays",
		"\ufeffmark at once": `\ufeffmark at once`,
	} {
		if got := visible(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestLinesKeepTheirEnds(t *testing.T) {
	if diff := cmp.Diff([]string{"a", "", `    b\x1b`}, lines("a\r\n\n\tb\x1b\n\n")); diff != "" {
		t.Error(diff)
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a\x1b[0m", "\u202e", "\xff", "é\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := visible(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, harmful) {
			t.Errorf("%q became %q", s, got)
		}
		if again := visible(got); again != got {
			t.Errorf("%q became %q and then %q", s, got, again)
		}
	})
}

func FuzzEscaped(f *testing.F) {
	for _, s := range []string{"", "a\x1b\u009b", "\u202e\U000e0041", "\xff", "<&>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var out bytes.Buffer
		scr := newScreen(&out, true)
		scr.document(map[string]string{"text": s})
		text, ok := strings.CutSuffix(out.String(), "\n")
		if !ok || strings.ContainsFunc(text, harmful) {
			t.Errorf("%q became %q", s, text)
		}
		var back map[string]string
		if err := json.Unmarshal([]byte(text), &back); err != nil || back["text"] != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
			t.Errorf("%q came back as %q, %v", s, back["text"], err)
		}
	})
}

func TestTableAlignsWideCharacters(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out, false)
	s.table([]string{"A", "B"}, [][]cell{{text("工工"), text("x")}, {text("a"), text("y")}})
	if diff := cmp.Diff("A     B\n工工  x\na     y\n", out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"short", 10, "short"}, {"exactly", 7, "exactly"}, {"too long", 4, "too…"}, {"工工工", 4, "工…"}, {"a\nb", 9, `a\nb`}} {
		if got := clip(c.text, c.width); got != c.want {
			t.Errorf("%q at %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestAge(t *testing.T) {
	s := &screen{now: time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)}
	for stamp, want := range map[string]string{
		"": "", "nonsense": "", "2026-01-09T23:59:57Z": "3s", "2026-01-09T23:30:00Z": "30m", "2026-01-09T12:00:00Z": "12h",
		"2026-01-01T00:00:00Z": "9d", "2027-01-01T00:00:00Z": "0s",
	} {
		if got := s.age(stamp); got != want {
			t.Errorf("%s: %q, want %q", stamp, got, want)
		}
	}
}

// Colour belongs to the screen alone: a table with it is the table without it, painted.
func TestColourChangesNoColumn(t *testing.T) {
	var bare, painted bytes.Buffer
	rows := func() [][]cell { return [][]cell{{tinted(bad, "x"), text("1")}, {tinted(good, "long"), text("2")}} }
	newScreen(&bare, false).table([]string{"A", "B"}, rows())
	s := newScreen(&painted, false)
	s.colour = true
	s.table([]string{"A", "B"}, rows())
	if !strings.Contains(painted.String(), "\x1b[") || strings.Contains(bare.String(), "\x1b") {
		t.Errorf("%q and %q", bare.String(), painted.String())
	}
	var plain strings.Builder
	for i, part := range strings.Split(painted.String(), "\x1b[") {
		if i > 0 {
			_, part, _ = strings.Cut(part, "m")
		}
		plain.WriteString(part)
	}
	if diff := cmp.Diff(bare.String(), plain.String()); diff != "" {
		t.Error(diff)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestAFailedWriteIsToldOnce(t *testing.T) {
	s := newScreen(full{}, false)
	err := s.show(nil, func() { s.line("a"); s.line("b") }, nil)
	if err == nil || err.Error() != "no room" {
		t.Errorf("got %v", err)
	}
}
