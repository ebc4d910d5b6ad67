package dsh

import "strings"

// walker goes through a JSON text once, from front to back. It is for the two places where an answer's or a stream's
// every byte is passed: pages of history and the headers of frames. Reading member by member (see object) walks over
// the same bytes once for every member.
//
// It knows the plain forms only. What is odd in any way, well-formed or not, sets odd, and the caller reads the text
// again with care; so it decides nothing about what is accepted, and never names a fault. It ends on any text.
type walker struct {
	text string
	at   int
	odd  bool
}

// space passes blanks and returns the byte behind them, 0 at the end.
func (w *walker) space() byte {
	for ; w.at < len(w.text); w.at++ {
		switch c := w.text[w.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// take passes one byte that has to be there.
func (w *walker) take(c byte) {
	if w.space() != c {
		w.odd = true
		return
	}
	w.at++
}

// more enters an object or an array, or goes on to its next element, and reports whether there is one. begun is false
// at the opening bracket.
func (w *walker) more(open, shut byte, begun bool) bool {
	if !begun {
		w.take(open)
		if !w.odd && w.space() == shut {
			w.at++
			return false
		}
		return !w.odd
	}
	switch w.space() {
	case ',':
		w.at++
		return true
	case shut:
		w.at++
	default:
		w.odd = true
	}
	return false
}

// name reads the name of a member, up to its value.
func (w *walker) name() string {
	name := w.str()
	w.take(':')
	return name
}

// str reads a string without escapes. It shares the memory of the text.
func (w *walker) str() string {
	w.take('"')
	if w.odd {
		return ""
	}
	n := strings.IndexByte(w.text[w.at:], '"')
	if n < 0 || strings.IndexByte(w.text[w.at:w.at+n], '\\') >= 0 {
		w.odd = true
		return ""
	}
	s := w.text[w.at : w.at+n]
	w.at += n + 1
	return s
}

// first reads a string without escapes into a member that has nothing yet. An empty one is odd, for it could not be
// told from none.
func (w *walker) first(old string) string {
	s := w.str()
	w.odd = w.odd || old != "" || s == ""
	return s
}

// maxDigits keeps numbers far inside 64 bits, and inside what a float holds exactly.
const maxDigits = 15

// digits reads a whole number without a sign.
func (w *walker) digits() int64 {
	w.space()
	n, from := int64(0), w.at
	for ; w.at < len(w.text) && '0' <= w.text[w.at] && w.text[w.at] <= '9'; w.at++ {
		if w.at-from == maxDigits {
			w.odd = true
			return 0
		}
		n = n*10 + int64(w.text[w.at]-'0')
	}
	if w.at == from || (w.text[from] == '0' && w.at > from+1) || (w.at < len(w.text) && strings.IndexByte(".eE", w.text[w.at]) >= 0) {
		w.odd = true
	}
	return n
}

// value passes a value and returns it as it stands. What is inside an object or an array is not looked at.
func (w *walker) value() string {
	first := w.space()
	from := w.at
	switch first {
	case '{', '[':
		w.nested()
	case '"':
		w.at++
		w.quoted()
	case 0, ',', ':', '}', ']':
		w.odd = true
	default:
		for w.at < len(w.text) && strings.IndexByte(",:}] \t\n\r", w.text[w.at]) < 0 {
			w.at++
		}
	}
	return w.text[from:w.at]
}

// nested passes an object or an array, brackets of both kinds taken for one.
func (w *walker) nested() {
	for depth := 0; w.at < len(w.text); {
		c := w.text[w.at]
		w.at++
		switch c {
		case '"':
			w.quoted()
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return
			}
		}
	}
	w.odd = true
}

// quoted passes the rest of a string, with escapes in it.
func (w *walker) quoted() {
	for from := w.at; ; {
		n := strings.IndexByte(w.text[w.at:], '"')
		if n < 0 {
			w.at, w.odd = len(w.text), true
			return
		}
		w.at += n + 1
		slashes := 0
		for i := w.at - 2; i >= from && w.text[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 0 {
			return
		}
	}
}
