package bridge

import (
	"fmt"
	"unicode/utf8"
)

// shorten cuts the middle out of a text longer than limit bytes, and returns its full length in characters when it did,
// else 0. The ends of a text say most: the beginning what it is, the end how it came out.
func shorten(text string, limit int) (short string, chars int) {
	if len(text) <= limit {
		return text, 0
	}
	chars = utf8.RuneCountInString(text)
	head, tail := limit*2/3, limit/3
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	from := len(text) - tail
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	cut := utf8.RuneCountInString(text[head:from])
	return text[:head] + fmt.Sprintf(" …[%d characters cut]… ", cut) + text[from:], chars
}
