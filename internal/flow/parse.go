// Package flow draws the picture of the READMEs from a text: boxes in a row, and what goes between neighbours.
//
// Each line of the text is one of
//
//	box NAME TITLE | WHAT IT DOES
//	NAME -> NAME WHAT GOES THERE
//
// Empty lines and lines that begin with # say nothing. Between two neighbours there is at most one arrow each way.
package flow

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Picture is what a text describes.
type Picture struct {
	// Boxes are from left to right.
	Boxes []Box
}

// Box is one party.
type Box struct {
	Title, Does string
	// ToRight and FromRight are what goes to the next box and comes from it; empty for nothing.
	ToRight, FromRight string
}

// maxBoxes is how many boxes a reader takes in, and a page holds.
const maxBoxes = 6

// Parse reads a text. The error names the line.
func Parse(text string) (Picture, error) {
	p := parser{at: map[string]int{}}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := p.line(line); err != nil {
			return Picture{}, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if len(p.picture.Boxes) == 0 {
		return Picture{}, fmt.Errorf("there is no box; write one like: box name Title | what it does")
	}
	return p.picture, nil
}

// parser knows the boxes by their names.
type parser struct {
	picture Picture
	at      map[string]int
}

func (p *parser) line(line string) error {
	if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return fmt.Errorf("%q has characters that cannot be drawn", line)
	}
	first, rest := word(line)
	if first == "box" {
		return p.box(rest)
	}
	arrow, rest := word(rest)
	target, label := word(rest)
	if arrow != "->" || label == "" {
		return fmt.Errorf("%q is neither \"box NAME TITLE | DOES\" nor \"NAME -> NAME LABEL\"", line)
	}
	return p.arrow(first, target, label)
}

func (p *parser) box(rest string) error {
	name, text := word(rest)
	title, does, found := strings.Cut(text, "|")
	title, does = strings.TrimSpace(title), strings.TrimSpace(does)
	if !found || title == "" || does == "" {
		return fmt.Errorf("box %q needs a title, a | and what it does", name)
	}
	if _, there := p.at[name]; there {
		return fmt.Errorf("there is a box %q already", name)
	}
	if len(p.picture.Boxes) == maxBoxes {
		return fmt.Errorf("box %q is one more than the %d that fit", name, maxBoxes)
	}
	p.at[name] = len(p.picture.Boxes)
	p.picture.Boxes = append(p.picture.Boxes, Box{Title: title, Does: does})
	return nil
}

func (p *parser) arrow(from, to, label string) error {
	for _, name := range []string{from, to} {
		if _, there := p.at[name]; !there {
			return fmt.Errorf("there is no box %q above this line", name)
		}
	}
	i, j := p.at[from], p.at[to]
	var place *string
	switch {
	case j == i+1:
		place = &p.picture.Boxes[i].ToRight
	case i == j+1:
		place = &p.picture.Boxes[j].FromRight
	default:
		return fmt.Errorf("%q and %q are not side by side", from, to)
	}
	if *place != "" {
		return fmt.Errorf("there is an arrow from %q to %q already", from, to)
	}
	*place = label
	return nil
}

// word cuts the first word off.
func word(text string) (first, rest string) {
	i := strings.IndexFunc(text, unicode.IsSpace)
	if i < 0 {
		return text, ""
	}
	return text[:i], strings.TrimSpace(text[i:])
}
