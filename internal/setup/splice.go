package setup

import (
	"bytes"
	"slices"
)

// bom is the mark that some editors put before a text. Both callers read past it.
var bom = []byte("\xef\xbb\xbf")

// span is a range of bytes.
type span struct{ start, end int }

// cut returns data without the spans, which are in order and apart.
func cut(data []byte, spans []span) []byte {
	rest := make([]byte, 0, len(data))
	at := 0
	for _, s := range spans {
		rest = append(rest, data[at:s.start]...)
		at = s.end
	}
	return append(rest, data[at:]...)
}

func insert(data []byte, at int, text string) []byte {
	return slices.Concat(data[:at], []byte(text), data[at:])
}

// cutMembers is the spans that take those members out of a list that commas separate, with the comma that each brings.
// It undoes exactly what appending a member did.
func cutMembers(members []span, out func(i int) bool) []span {
	var spans []span
	for i := 0; i < len(members); i++ {
		if !out(i) {
			continue
		}
		first := i
		for i+1 < len(members) && out(i+1) {
			i++
		}
		switch {
		case first > 0:
			spans = append(spans, span{members[first-1].end, members[i].end})
		case i+1 < len(members):
			spans = append(spans, span{members[0].start, members[i+1].start})
		default:
			spans = append(spans, span{members[0].start, members[i].end})
		}
	}
	return spans
}

// lineEnd is the line end that a text uses.
func lineEnd(data []byte) string {
	if i := bytes.IndexByte(data, '\n'); i > 0 && data[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// withoutBOM splits the mark off. What is returned of data is its own copy where there was one, so that offsets in it
// count from the text.
func withoutBOM(data []byte) (mark, text []byte) {
	if rest, ok := bytes.CutPrefix(data, bom); ok {
		return bom, bytes.Clone(rest)
	}
	return nil, data
}
