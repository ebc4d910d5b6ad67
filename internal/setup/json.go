package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonTable is the member of Claude Code's files that has the servers.
const jsonTable = "mcpServers"

// emptyJSON is what a removal leaves of a file that had nothing but an entry.
const emptyJSON = "{\n  \"mcpServers\": {}\n}\n"

// blank reports whether a file has nothing in it, which Claude Code takes for no configuration.
func blank(data []byte) bool {
	_, text := withoutBOM(data)
	return len(bytes.TrimSpace(text)) == 0
}

// parseJSON decodes a text as Claude Code does: strictly, so that a comment or a comma too many is an error.
func parseJSON(data []byte) (map[string]any, error) {
	document := map[string]any{}
	if blank(data) {
		return document, nil
	}
	_, text := withoutBOM(data)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a float64 would not tell two large numbers apart
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, jsonError(text, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: something stands behind the end of the document", line(text, decoder.InputOffset()))
	}
	document, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("the document is no object")
	}
	if servers, ok := document[jsonTable]; ok {
		if _, ok := servers.(map[string]any); !ok {
			return nil, fmt.Errorf("%s is no object", jsonTable)
		}
	}
	return document, nil
}

func jsonError(text []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("line %d: %w (comments and trailing commas are no JSON, and Claude Code reads none)", line(text, syntax.Offset), err)
	}
	return err
}

func line(text []byte, offset int64) int {
	return bytes.Count(text[:min(max(offset, 0), int64(len(text)))], []byte("\n")) + 1
}

// jsonObject is an object of a text, with the bytes it takes.
type jsonObject struct {
	at      span // with its braces
	members []hujson.ObjectMember
}

func objectOf(v hujson.Value) jsonObject {
	o := jsonObject{at: span{v.StartOffset, v.EndOffset}}
	if object, ok := v.Value.(*hujson.Object); ok {
		o.members = object.Members
	}
	return o
}

func nameOf(m hujson.ObjectMember) string {
	if literal, ok := m.Name.Value.(hujson.Literal); ok {
		return literal.String()
	}
	return ""
}

// jsonObjects finds the root of a valid text without a mark, and the servers in it, nil when it has none.
func jsonObjects(text []byte) (root jsonObject, servers *jsonObject, err error) {
	value, err := hujson.Parse(text)
	if err != nil {
		return root, nil, err
	}
	root = objectOf(value)
	for _, m := range root.members {
		if nameOf(m) != jsonTable {
			continue
		}
		if servers != nil {
			return root, nil, fmt.Errorf("%s is given twice", jsonTable)
		}
		o := objectOf(m.Value)
		servers = &o
	}
	return root, servers, nil
}

// text is the bytes of the object's members that have one of the names, as they stand.
func (o jsonObject) named(names ...string) []span {
	var spans []span
	for _, m := range o.members {
		if slices.Contains(names, nameOf(m)) {
			spans = append(spans, span{m.Name.StartOffset, m.Value.EndOffset})
		}
	}
	return spans
}

// cutNamed is the spans that take the named members out.
func (o jsonObject) cutNamed(names ...string) []span {
	all := make([]span, len(o.members))
	for i, m := range o.members {
		all[i] = span{m.Name.StartOffset, m.Value.EndOffset}
	}
	out := func(i int) bool { return slices.Contains(names, nameOf(o.members[i])) }
	if len(all) > 0 && len(o.named(names...)) == len(all) {
		return []span{{o.at.start + 1, o.at.end - 1}}
	}
	return cutMembers(all, out)
}

// removeJSON takes entries out of a valid text. Servers that are left empty go too, unless nothing else is there.
func removeJSON(data []byte, names ...string) ([]byte, error) {
	if blank(data) {
		return data, nil
	}
	mark, text := withoutBOM(data)
	root, servers, err := jsonObjects(text)
	if err != nil {
		return nil, err
	}
	if servers == nil || len(servers.named(names...)) == 0 {
		return data, nil
	}
	spans := servers.cutNamed(names...)
	if len(servers.named(names...)) == len(servers.members) && len(root.members) > 1 {
		spans = root.cutNamed(jsonTable)
	}
	return slices.Concat(mark, cut(text, spans)), nil
}

// addJSON puts an entry into a valid text that has none of that name.
func addJSON(data []byte, name string, entry any) ([]byte, error) {
	mark, text := withoutBOM(data)
	if blank(data) {
		text = []byte("{}\n")
	}
	root, servers, err := jsonObjects(text)
	if err != nil {
		return nil, err
	}
	style := styleOf(text, root)
	if servers != nil {
		text, err = style.append(text, *servers, name, entry, 1)
	} else {
		text, err = style.append(text, root, jsonTable, map[string]any{name: entry}, 0)
	}
	return slices.Concat(mark, text), err
}

// jsonStyle is how a text is laid out.
type jsonStyle struct {
	lines       bool // each member on a line of its own
	unit, colon string
	eol         string
}

// styleOf takes the layout from the first member of the root.
func styleOf(text []byte, root jsonObject) jsonStyle {
	s := jsonStyle{lines: true, unit: "  ", colon: " ", eol: lineEnd(text)}
	if len(root.members) == 0 {
		return s
	}
	first := root.members[0]
	before := string(first.Name.BeforeExtra)
	s.lines = strings.Contains(before, "\n")
	s.unit = before[strings.LastIndexByte(before, '\n')+1:]
	s.colon = string(first.Value.BeforeExtra)
	return s
}

// append adds a member behind the last one of an object, whose members are depth levels inside the root's.
func (s jsonStyle) append(text []byte, o jsonObject, name string, value any, depth int) ([]byte, error) {
	before, after := "", "" // what stands between the brackets and the member
	if s.lines {
		after = s.eol + strings.Repeat(s.unit, depth)
		before = after + s.unit
	}
	at := o.at.start + 1
	if n := len(o.members); n > 0 {
		last := o.members[n-1]
		before, after = string(last.Name.BeforeExtra), ""
		at = last.Value.EndOffset
		s.lines = strings.Contains(before, "\n")
	}
	member, err := s.member(name, value, before[strings.LastIndexByte(before, '\n')+1:])
	if err != nil {
		return nil, err
	}
	if len(o.members) > 0 {
		return insert(text, at, ","+before+member), nil
	}
	return slices.Concat(text[:at], []byte(before+member+after), text[o.at.end-1:]), nil
}

// member is a member whose name stands behind that indentation.
func (s jsonStyle) member(name string, value any, indentation string) (string, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if s.lines {
		encoder.SetIndent(indentation, s.unit)
	}
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	text := strings.TrimSuffix(b.String(), "\n")
	// A string in JSON has no line end in it, so that these are all the layout's.
	return fmt.Sprintf("%q:%s%s", name, s.colon, strings.ReplaceAll(text, "\n", s.eol)), nil
}
