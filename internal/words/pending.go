package words

import (
	"fmt"
	"strings"

	"dsh-agentlink/internal/operator"
)

// Pending writes a request that waits for a person so that it cannot be overlooked.
func Pending(p operator.Pending) []Line {
	waits := fmt.Sprintf(">> %s %s waits", strings.ToUpper(p.Type), p.RequestID)
	if p.AgeSec > 0 {
		waits += fmt.Sprintf(" since %ds", p.AgeSec)
	}
	if p.Answer != "" {
		waits += "; an answer went out, its outcome is " + p.Answer
	}
	b := block{lines: []Line{{{Visible(waits), Asking}}}}
	if p.ToolName != "" {
		b.paragraph("   ", "tool "+p.ToolName)
	}
	if p.Reason != "" {
		b.paragraph("   ", "because "+p.Reason)
	}
	if p.Command != "" {
		first, rest, more := strings.Cut(p.Command, "\n")
		b.line("   $ " + Visible(first))
		if more {
			b.paragraph("     ", rest)
		}
	}
	for _, q := range p.Questions {
		b.paragraph("   ", q.Question)
		if q.Detail != "" {
			b.paragraph("     ", q.Detail)
		}
		for _, o := range q.Options {
			option := "- " + o.Label
			if o.Description != "" {
				option += ": " + o.Description
			}
			b.paragraph("     ", option)
		}
	}
	if p.Unavailable != "" {
		b.paragraph("   ", p.Unavailable)
	}
	return b.lines
}

// block is a text that grows.
type block struct{ lines []Line }

func (b *block) line(visible string) { b.lines = append(b.lines, Line{{visible, Plain}}) }

// paragraph adds a text, each line behind an indent.
func (b *block) paragraph(indent, text string) {
	for _, line := range Lines(text) {
		b.line(indent + line)
	}
}
