package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"golang.org/x/term"
)

// screen is where a command shows what it found: one JSON document, or text with aligned columns. The first failed
// write ends up in err, and nothing is written after it.
type screen struct {
	out    io.Writer
	json   bool
	colour bool
	now    time.Time
	err    error
}

func newScreen(out io.Writer, asJSON bool) *screen {
	return &screen{out: out, json: asJSON, colour: hasColour(out), now: time.Now()}
}

// hasColour reports whether out is a terminal whose user has not asked for none.
func hasColour(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// show writes the answer as JSON or by readable, and returns problem, which the answer has told in full.
func (s *screen) show(answer any, readable func(), problem error) error {
	if s.json {
		s.document(answer)
	} else {
		readable()
	}
	return errors.Join(s.err, problem)
}

// document writes one line of JSON.
func (s *screen) document(v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		s.err = errors.Join(s.err, err)
		return
	}
	s.write(escaped(b.String()))
}

func (s *screen) write(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.out, text)
	}
}

// line writes one line of text.
func (s *screen) line(format string, args ...any) {
	s.write(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
}

// The colours of words.
type tint int

const (
	plain tint = iota
	faint
	bold
	good
	careful
	bad
	asking
)

var styles = map[tint]lipgloss.Style{
	faint:   lipgloss.NewStyle().Faint(true),
	bold:    lipgloss.NewStyle().Bold(true),
	good:    lipgloss.NewStyle().Foreground(lipgloss.Green),
	careful: lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	bad:     lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true),
	asking:  lipgloss.NewStyle().Foreground(lipgloss.Magenta).Bold(true),
}

// paint colours a word for a terminal that wants it. The word has to be visible already.
func (s *screen) paint(t tint, word string) string {
	if !s.colour || t == plain || word == "" {
		return word
	}
	return styles[t].Render(word)
}

// cell is one field of a table.
type cell struct {
	text string
	tint tint
}

func text(s string) cell { return cell{text: s} }

func tinted(t tint, s string) cell { return cell{text: s, tint: t} }

// table writes rows in aligned columns under a head. What the cells hold is made visible.
func (s *screen) table(head []string, rows [][]cell) {
	widths := make([]int, len(head))
	for i, h := range head {
		widths[i] = lipgloss.Width(h)
	}
	for _, row := range rows {
		for i := range row {
			row[i].text = visible(row[i].text)
			widths[i] = max(widths[i], lipgloss.Width(row[i].text))
		}
	}
	first := make([]cell, len(head))
	for i, h := range head {
		first[i] = tinted(faint, h)
	}
	for _, row := range append([][]cell{first}, rows...) {
		var b strings.Builder
		for i, c := range row {
			b.WriteString(s.paint(c.tint, c.text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-lipgloss.Width(c.text)+2))
			}
		}
		s.line("%s", b.String())
	}
}

// pair is a line of a sheet.
type pair struct {
	name string
	cell cell
}

// sheet writes names and values in two columns, leaving out those without a value.
func (s *screen) sheet(pairs []pair) {
	width := 0
	for _, p := range pairs {
		if p.cell.text != "" {
			width = max(width, len(p.name))
		}
	}
	for _, p := range pairs {
		if p.cell.text == "" {
			continue
		}
		for i, line := range lines(p.cell.text) {
			name := p.name
			if i > 0 {
				name = ""
			}
			s.line("%s  %s", s.paint(faint, fmt.Sprintf("%-*s", width, name)), s.paint(p.cell.tint, line))
		}
	}
}

// harmful reports whether a character would do something to a terminal, or would make a text look like another.
func harmful(r rune) bool {
	const joiner, nonJoiner = '\u200d', '\u200c' // which many scripts need
	return unicode.IsControl(r) || (unicode.Is(unicode.Cf, r) && r != joiner && r != nonJoiner) || r == '\u2028' || r == '\u2029'
}

// visible turns a text into one line in which nothing is hidden.
func visible(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, harmful) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !harmful(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// lines splits a text at its line ends and makes each line visible.
func lines(text string) []string {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	split := strings.Split(strings.ReplaceAll(text, "\t", "    "), "\n")
	for i := range split {
		split[i] = visible(split[i])
	}
	return split
}

// escaped writes what is harmful in a JSON document as escapes, which mean the same there.
func escaped(document string) string {
	if !strings.ContainsFunc(strings.TrimSuffix(document, "\n"), harmful) {
		return document
	}
	var b strings.Builder
	for _, r := range strings.TrimSuffix(document, "\n") {
		switch {
		case !harmful(r):
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			const base, half, mask = 0x10000, 10, 0x3ff
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+((r-base)>>half), 0xdc00+((r-base)&mask))
		}
	}
	return b.String() + "\n"
}

// clip cuts a text to a width in columns.
func clip(text string, width int) string {
	text = visible(text)
	if lipgloss.Width(text) <= width {
		return text
	}
	runes := []rune(text)
	for len(runes) > 0 && lipgloss.Width(string(runes)) >= width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// age says how long ago a time was, in its largest unit; empty for none.
func (s *screen) age(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return ""
	}
	switch d := max(0, s.now.Sub(t)); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// clock writes a time for a person, in the machine's zone.
func clock(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return ""
	}
	return t.Local().Format(time.DateTime)
}
