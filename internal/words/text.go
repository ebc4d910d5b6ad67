package words

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
)

// Harmful reports whether a character would do something to a terminal, or would make a text look like another.
func Harmful(r rune) bool {
	const joiner, nonJoiner = '\u200d', '\u200c' // which many scripts need
	return unicode.IsControl(r) || (unicode.Is(unicode.Cf, r) && r != joiner && r != nonJoiner) || r == '\u2028' || r == '\u2029'
}

// Visible turns a text into one line in which nothing is hidden.
func Visible(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, Harmful) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !Harmful(r):
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

// Lines splits a text at its line ends and makes each line visible.
func Lines(text string) []string {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	split := strings.Split(strings.ReplaceAll(text, "\t", "    "), "\n")
	for i := range split {
		split[i] = Visible(split[i])
	}
	return split
}

// Clip cuts a text to a width in columns.
func Clip(text string, width int) string {
	text = Visible(text)
	if lipgloss.Width(text) <= width {
		return text
	}
	runes := []rune(text)
	for len(runes) > 0 && lipgloss.Width(string(runes)) >= width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
