package setup

import "bytes"

// The functions below find where things end in a text that is known to be valid TOML. They stop at its end whatever it
// holds.

// valueStart is where the value behind a key begins.
func valueStart(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '=') {
		i++
	}
	return i
}

// skipValue is the end of the value that begins at i.
func skipValue(text []byte, i int) int {
	if i >= len(text) {
		return i
	}
	switch text[i] {
	case '"', '\'':
		return skipString(text, i)
	case '[', '{':
		return skipBrackets(text, i)
	}
	end := i
	for end < len(text) && !bytes.ContainsRune([]byte(",]}#\r\n"), rune(text[end])) {
		end++
	}
	return i + len(bytes.TrimRight(text[i:end], " \t"))
}

func skipBrackets(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"', '\'':
			i = skipString(text, i)
			continue
		case '#':
			i += lineLength(text[i:])
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		i++
		if depth == 0 {
			break
		}
	}
	return i
}

func skipString(text []byte, i int) int {
	quote := text[i]
	long := bytes.HasPrefix(text[i:], []byte{quote, quote, quote})
	i++
	if long {
		i += 2
	}
	for i < len(text) {
		switch {
		case quote == '"' && text[i] == '\\':
			i += 2
			continue
		case text[i] != quote:
			i++
			continue
		case !long:
			return i + 1
		}
		// Up to two quotes may stand before the three that end a long string.
		run := 0
		for i < len(text) && text[i] == quote {
			run++
			i++
		}
		if run >= 3 {
			return i
		}
	}
	return min(i, len(text))
}

// lineLength counts to the end of the line, which is not counted.
func lineLength(text []byte) int {
	if n := bytes.IndexByte(text, '\n'); n >= 0 {
		return n
	}
	return len(text)
}

// wholeLines extends a range to whole lines, with the last one's end.
func wholeLines(text []byte, start, end int) span {
	start = bytes.LastIndexByte(text[:start], '\n') + 1
	end += lineLength(text[end:])
	return span{start, min(end+1, len(text))}
}
