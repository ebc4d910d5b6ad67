package demo

import (
	"fmt"
	"io"

	"dsh-agentlink/internal/words"
)

// page is where the story is told. The first failed write ends up in err, and nothing is written after it.
type page struct {
	out    io.Writer
	colour bool
	number int // of the step
	err    error
}

func (p *page) say(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

func (p *page) paint(t words.Tint, text string) string {
	if !p.colour {
		return text
	}
	return words.Paint(t, text)
}

// step begins a step with what the supervisor, or somebody else, does.
func (p *page) step(what string) {
	p.number++
	p.say("%2d %s", p.number, p.paint(words.Bold, what))
}

// width is how much of a line is shown.
const width = 108

// sent shows what is called or typed.
func (p *page) sent(format string, args ...any) {
	p.say("   %s %s", p.paint(words.Faint, ">"), words.Clip(fmt.Sprintf(format, args...), width))
}

// got shows what came back, in words.
func (p *page) got(t words.Tint, format string, args ...any) {
	p.say("   %s %s", p.paint(words.Faint, "<"), p.paint(t, words.Clip(fmt.Sprintf(format, args...), width)))
}

// plural counts things.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
