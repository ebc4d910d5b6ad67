package flow

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// Measures in pixels. A letter's width is a guess that holds for the common sans-serif fonts.
const (
	margin     = 8
	boxWidth   = 150
	boxHeight  = 104
	gapWidth   = 136
	arrowRight = 42 // below the box's top
	arrowLeft  = 64
	lineHeight = 14
	letter     = 7
	bold       = 8
	padding    = 12
)

// style follows the reader's light or dark page.
const style = `<style>
text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;text-anchor:middle;fill:#1f2328}
.title{font-size:14px;font-weight:600}
.does,.label{font-size:11.5px;fill:#59636e}
rect{fill:#f6f8fa;stroke:#8c959f;rx:8}
line{stroke:#59636e;stroke-width:1.3;marker-end:url(#tip)}
marker path{fill:#59636e}
@media (prefers-color-scheme:dark){
text{fill:#f0f6fc}
.does,.label{fill:#9198a1}
rect{fill:#151b23;stroke:#656c76}
line{stroke:#9198a1}
marker path{fill:#9198a1}
}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>
`

// SVG draws the picture. The same picture gives the same bytes.
func (p Picture) SVG() string {
	var b strings.Builder
	n := len(p.Boxes)
	width := 2*margin + n*boxWidth + max(0, n-1)*gapWidth
	height := 2*margin + boxHeight
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n%s", html.EscapeString(p.sentence()), style)
	for i, box := range p.Boxes {
		left := margin + i*(boxWidth+gapWidth)
		box.draw(&b, left)
		if i == n-1 {
			continue
		}
		right := left + boxWidth
		if box.ToRight != "" {
			lines := wrap(box.ToRight, gapWidth/letter)
			arrow(&b, right, right+gapWidth, margin+arrowRight)
			texts(&b, "label", right+gapWidth/2, margin+arrowRight-6-(len(lines)-1)*lineHeight, lines)
		}
		if box.FromRight != "" {
			arrow(&b, right+gapWidth, right, margin+arrowLeft)
			texts(&b, "label", right+gapWidth/2, margin+arrowLeft+lineHeight, wrap(box.FromRight, gapWidth/letter))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// sentence tells the picture to those who do not see it.
func (p Picture) sentence() string {
	var parts []string
	for i, box := range p.Boxes {
		parts = append(parts, box.Title+": "+box.Does)
		if i == len(p.Boxes)-1 {
			break
		}
		next := p.Boxes[i+1].Title
		if box.ToRight != "" {
			parts = append(parts, fmt.Sprintf("%s to %s: %s", box.Title, next, box.ToRight))
		}
		if box.FromRight != "" {
			parts = append(parts, fmt.Sprintf("%s to %s: %s", next, box.Title, box.FromRight))
		}
	}
	return strings.Join(parts, ". ") + "."
}

func (box Box) draw(b *strings.Builder, left int) {
	fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", left, margin, boxWidth, boxHeight)
	title := wrap(box.Title, (boxWidth-padding)/bold)
	does := wrap(box.Does, (boxWidth-padding)/letter)
	const titleHeight, between = 17, 4
	whole := len(title)*titleHeight + between + len(does)*lineHeight
	y := margin + (boxHeight-whole)/2 + titleHeight - 3
	for i, line := range title {
		texts(b, "title", left+boxWidth/2, y+i*titleHeight, []string{line})
	}
	texts(b, "does", left+boxWidth/2, y+len(title)*titleHeight+between-2, does)
}

func arrow(b *strings.Builder, from, to, y int) {
	const short = 6 // of the box at either end
	if from < to {
		from, to = from+short, to-short
	} else {
		from, to = from-short, to+short
	}
	fmt.Fprintf(b, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", from, y, to, y)
}

func texts(b *strings.Builder, class string, x, y int, lines []string) {
	for i, line := range lines {
		fmt.Fprintf(b, "<text class=\"%s\" x=\"%d\" y=\"%d\">%s</text>\n", class, x, y+i*lineHeight, html.EscapeString(line))
	}
}

// wrap breaks a text at its spaces into lines of at most so many letters; a longer word has a line of its own.
func wrap(text string, letters int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		if last := len(lines) - 1; last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= letters {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}
