package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/words"
)

func FuzzEscaped(f *testing.F) {
	for _, s := range []string{"", "a\x1b\u009b", "\u202e\U000e0041", "\xff", "<&>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var out bytes.Buffer
		scr := newScreen(&out, true)
		scr.document(map[string]string{"text": s})
		text, ok := strings.CutSuffix(out.String(), "\n")
		if !ok || strings.ContainsFunc(text, words.Harmful) {
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

// Colour belongs to the screen alone: a table with it is the table without it, painted.
func TestColourChangesNoColumn(t *testing.T) {
	var bare, painted bytes.Buffer
	rows := func() [][]cell {
		return [][]cell{{tinted(words.Bad, "x"), text("1")}, {tinted(words.Good, "long"), text("2")}}
	}
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
