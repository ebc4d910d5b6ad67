package words

import (
	"strings"

	"charm.land/lipgloss/v2"
)

// Tint is the colour of a word, by what it means.
type Tint int

// The tints.
const (
	Plain Tint = iota
	Faint
	Bold
	Good
	Careful
	Bad
	Asking // somebody has to answer
)

var styles = map[Tint]lipgloss.Style{
	Faint:   lipgloss.NewStyle().Faint(true),
	Bold:    lipgloss.NewStyle().Bold(true),
	Good:    lipgloss.NewStyle().Foreground(lipgloss.Green),
	Careful: lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	Bad:     lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true),
	Asking:  lipgloss.NewStyle().Foreground(lipgloss.Magenta).Bold(true),
}

// Paint colours a word, which has to be visible already.
func Paint(t Tint, word string) string {
	if t == Plain || word == "" {
		return word
	}
	return styles[t].Render(word)
}

// Span is a piece of a line in one colour. Its text is visible, in the sense of [Visible].
type Span struct {
	Text string
	Tint Tint
}

// Line is one line of text.
type Line []Span

// String returns the line without its colours.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Painted returns the line in its colours.
func (l Line) Painted() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(Paint(s.Tint, s.Text))
	}
	return b.String()
}
