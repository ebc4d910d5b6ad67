package setup

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlTable is the table of Codex's file that has the servers.
const tomlTable = "mcp_servers"

// parseTOML decodes a text, which tells duplicate keys and everything else that makes it invalid.
func parseTOML(data []byte) (map[string]any, error) {
	_, text := withoutBOM(data)
	document := map[string]any{}
	if err := toml.Unmarshal(text, &document); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			return nil, fmt.Errorf("line %d, column %d: %w", row, column, err)
		}
		return nil, err
	}
	if servers, ok := document[tomlTable]; ok {
		if _, ok := servers.(map[string]any); !ok {
			return nil, fmt.Errorf("%s is no table", tomlTable)
		}
	}
	return document, nil
}

// tomlItem is one expression of a text: the header of a table, or a key with its value.
type tomlItem struct {
	path  []string // from the root
	lines span     // all of its lines, with the last line's end
	// inline are the members of mcp_servers = { … }, with their paths; open is the offset behind the brace, 0 for every
	// other expression.
	inline []tomlItem
	open   int
}

func (i tomlItem) of(name string) bool {
	return len(i.path) >= 2 && i.path[0] == tomlTable && i.path[1] == name
}

// tomlItems lists the expressions of a valid text without a mark, in their order.
func tomlItems(text []byte) ([]tomlItem, error) {
	var parser unstable.Parser
	parser.Reset(text)
	var items []tomlItem
	var table []string
	for parser.NextExpression() {
		node := parser.Expression()
		keys, first, last := tomlKeys(node)
		if len(keys) == 0 {
			continue
		}
		item := tomlItem{path: keys}
		end := last
		switch node.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = keys
			end += bytes.IndexByte(text[last:], ']') + 1
			if node.Kind == unstable.ArrayTable {
				end++
			}
		case unstable.KeyValue:
			item.path = slices.Concat(table, keys)
			value := valueStart(text, last)
			end = skipValue(text, value)
			if len(item.path) == 1 && item.path[0] == tomlTable && text[value] == '{' {
				item.open = value + 1
				item.inline = tomlMembers(text, node.Value())
			}
		default:
			continue
		}
		item.lines = wholeLines(text, first, end)
		items = append(items, item)
	}
	return items, parser.Error()
}

// tomlMembers lists the members of the inline table of the servers. Their lines are their own bytes.
func tomlMembers(text []byte, table *unstable.Node) []tomlItem {
	var members []tomlItem
	for children := table.Children(); children.Next(); {
		keys, first, last := tomlKeys(children.Node())
		members = append(members, tomlItem{
			path:  append([]string{tomlTable}, keys...),
			lines: span{first, skipValue(text, valueStart(text, last))},
		})
	}
	return members
}

// tomlKeys is the dotted key of an expression and the bytes it takes.
func tomlKeys(node *unstable.Node) (keys []string, first, last int) {
	for key := node.Key(); key.Next(); {
		raw := key.Node().Raw
		if len(keys) == 0 {
			first = int(raw.Offset)
		}
		last = int(raw.Offset + raw.Length)
		keys = append(keys, string(key.Node().Data))
	}
	return keys, first, last
}

// tomlSpans is the bytes of an entry, wherever the text has parts of it: own as they stand, spans as they are taken out,
// which is with the comma of an inline member. Comments between two parts belong to them.
func tomlSpans(text []byte, name string) (own, spans []span, err error) {
	items, err := tomlItems(text)
	if err != nil {
		return nil, nil, err
	}
	joined := false // whether the expression before belongs to the entry
	for _, item := range items {
		if !item.of(name) {
			joined = false
			members := make([]span, len(item.inline))
			for i, m := range item.inline {
				members[i] = m.lines
				if m.of(name) {
					own = append(own, m.lines)
				}
			}
			spans = append(spans, cutMembers(members, func(i int) bool { return item.inline[i].of(name) })...)
			continue
		}
		if joined {
			spans[len(spans)-1].end = item.lines.end
			own[len(own)-1].end = item.lines.end
		} else {
			spans = append(spans, item.lines)
			own = append(own, item.lines)
		}
		joined = true
	}
	return own, spans, nil
}

// removeTOML takes entries out of a valid text.
func removeTOML(data []byte, names ...string) ([]byte, error) {
	mark, text := withoutBOM(data)
	for _, name := range names {
		_, spans, err := tomlSpans(text, name)
		if err != nil {
			return nil, err
		}
		for i := range spans {
			spans[i] = withSeparator(text, spans[i])
		}
		text = cut(text, spans)
	}
	return slices.Concat(mark, text), nil
}

// withSeparator extends a span by the empty line that sets it apart from what is before, where something else does so
// for what is behind.
func withSeparator(text []byte, s span) span {
	if s.start == 0 || text[s.start-1] != '\n' {
		return s // inside a line
	}
	if s.end == len(text) || startsWithLineEnd(text[s.end:]) {
		if before := withoutLineEnd(text[:s.start]); len(before) == 0 || before[len(before)-1] == '\n' {
			s.start = len(before)
		}
	}
	if s.end == len(text) && text[s.end-1] != '\n' {
		s.start = len(withoutLineEnd(text[:s.start]))
	}
	return s
}

func startsWithLineEnd(text []byte) bool {
	return bytes.HasPrefix(text, []byte("\n")) || bytes.HasPrefix(text, []byte("\r\n"))
}

func withoutLineEnd(text []byte) []byte {
	rest, ok := bytes.CutSuffix(text, []byte("\n"))
	if !ok {
		return text
	}
	return bytes.TrimSuffix(rest, []byte("\r"))
}

// tomlEntry is an entry in its two forms: as tables for the end of a text, its lines ending in \n, and as a member of an
// inline table.
type tomlEntry struct{ tables, inline string }

// addTOML puts an entry into a valid text that has none of that name.
func addTOML(data []byte, entry tomlEntry) ([]byte, error) {
	mark, text := withoutBOM(data)
	items, err := tomlItems(text)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if item.open == 0 {
			continue
		}
		if n := len(item.inline); n > 0 {
			text = insert(text, item.inline[n-1].lines.end, ", "+entry.inline)
		} else {
			text = insert(text, item.open, entry.inline)
		}
		return slices.Concat(mark, text), nil
	}
	eol := lineEnd(text)
	block := strings.ReplaceAll(entry.tables, "\n", eol)
	switch {
	case len(text) == 0:
	case text[len(text)-1] == '\n':
		block = eol + block
	default:
		block = eol + eol + strings.TrimSuffix(block, eol)
	}
	return slices.Concat(mark, text, []byte(block)), nil
}
