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

	"charm.land/lipgloss/v2"
	"golang.org/x/term"

	"dsh-agentlink/internal/words"
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

// paint colours a word for a terminal that wants it. The word has to be visible already.
func (s *screen) paint(t words.Tint, word string) string {
	if !s.colour {
		return word
	}
	return words.Paint(t, word)
}

// words writes a line that is in words already.
func (s *screen) words(l words.Line) {
	if s.colour {
		s.line("%s", l.Painted())
	} else {
		s.line("%s", l)
	}
}

// cell is one field of a table.
type cell struct {
	text string
	tint words.Tint
}

func text(s string) cell { return cell{text: s} }

func tinted(t words.Tint, s string) cell { return cell{text: s, tint: t} }

// table writes rows in aligned columns under a head. What the cells hold is made visible.
func (s *screen) table(head []string, rows [][]cell) {
	widths := make([]int, len(head))
	for i, h := range head {
		widths[i] = lipgloss.Width(h)
	}
	for _, row := range rows {
		for i := range row {
			row[i].text = words.Visible(row[i].text)
			widths[i] = max(widths[i], lipgloss.Width(row[i].text))
		}
	}
	first := make([]cell, len(head))
	for i, h := range head {
		first[i] = tinted(words.Faint, h)
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
		for i, line := range words.Lines(p.cell.text) {
			name := p.name
			if i > 0 {
				name = ""
			}
			s.line("%s  %s", s.paint(words.Faint, fmt.Sprintf("%-*s", width, name)), s.paint(p.cell.tint, line))
		}
	}
}

// escaped writes what is harmful in a JSON document as escapes, which mean the same there.
func escaped(document string) string {
	if !strings.ContainsFunc(strings.TrimSuffix(document, "\n"), words.Harmful) {
		return document
	}
	var b strings.Builder
	for _, r := range strings.TrimSuffix(document, "\n") {
		switch {
		case !words.Harmful(r):
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

// age says how long ago a time was.
func (s *screen) age(stamp string) string { return words.Age(s.now, stamp) }
