package watch

import (
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"dsh-agentlink/internal/words"
)

// wrapAll breaks lines at a width and paints them.
func wrapAll(lines []words.Line, width int) []string {
	var all []string
	for _, line := range lines {
		for _, part := range wrap(line, width) {
			all = append(all, part.Painted())
		}
	}
	return all
}

// wrap breaks a line into lines of at most width columns; a character wider than that stands alone. What is broken off
// the last span goes on below that span's beginning, unless that leaves it less than half of the width.
func wrap(line words.Line, width int) []words.Line {
	indent := 0
	if len(line) > 0 {
		indent = lipgloss.Width(line[:len(line)-1].String())
	}
	if indent > width/2 {
		indent = 0
	}
	margin := words.Line{{Text: strings.Repeat(" ", indent)}}
	var all []words.Line
	var row words.Line
	empty, left := true, width
	for _, span := range line {
		for text := span.Text; text != ""; {
			part := fits(text, left)
			if part == "" && !empty {
				all, row = append(all, row), slices.Clone(margin)
				empty, left = true, width-indent
				continue
			}
			if part == "" {
				part = firstCluster(text)
			}
			row = append(row, words.Span{Text: part, Tint: span.Tint})
			left -= lipgloss.Width(part)
			text, empty = text[len(part):], false
		}
	}
	return append(all, row)
}

// fits is the beginning of a text that takes at most width columns.
func fits(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if part := ansi.Truncate(text, width, ""); strings.HasPrefix(text, part) {
		return part
	}
	return ""
}

// firstCluster is the first character as it is seen, with what combines with it.
func firstCluster(text string) string {
	if c, _ := ansi.FirstGraphemeCluster(text, ansi.GraphemeWidth); c != "" {
		return c
	}
	return text
}
