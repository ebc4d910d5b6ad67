package words

import (
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
		if got := Visible(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestLinesKeepTheirEnds(t *testing.T) {
	if diff := cmp.Diff([]string{"a", "", `    b\x1b`}, Lines("a\r\n\n\tb\x1b\n\n")); diff != "" {
		t.Error(diff)
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"", "a\x1b[0m", "\u202e", "\xff", "é\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Visible(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, Harmful) {
			t.Errorf("%q became %q", s, got)
		}
		if again := Visible(got); again != got {
			t.Errorf("%q became %q and then %q", s, got, again)
		}
	})
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"short", 10, "short"}, {"exactly", 7, "exactly"}, {"too long", 4, "too…"}, {"工工工", 4, "工…"}, {"a\nb", 9, `a\nb`}} {
		if got := Clip(c.text, c.width); got != c.want {
			t.Errorf("%q at %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestAge(t *testing.T) {
	now := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	for stamp, want := range map[string]string{
		"": "", "nonsense": "", "2026-01-09T23:59:57Z": "3s", "2026-01-09T23:30:00Z": "30m", "2026-01-09T12:00:00Z": "12h",
		"2026-01-01T00:00:00Z": "9d", "2027-01-01T00:00:00Z": "0s",
	} {
		if got := Age(now, stamp); got != want {
			t.Errorf("%s: %q, want %q", stamp, got, want)
		}
	}
}
