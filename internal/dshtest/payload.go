package dshtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// failure is a refusal of the host, as the wire carries it.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details any    `json:"details"`
}

func badRequest(message string, issues []any) *failure {
	return &failure{Code: "bad-request", Message: message, Details: object{"issues": issues}}
}

func sessionNotFound(id, suffix string) *failure {
	return &failure{
		Code:    "session-not-found",
		Message: "session " + quote(id) + " not found" + suffix,
		Details: object{"sessionId": id},
	}
}

func quote(s string) string { return `"` + s + `"` }

// Whether a member has to be there.
const (
	required = true
	optional = false
)

// fields reads the members of a JSON object and collects what is wrong with them, in the words a real host uses.
type fields struct {
	object map[string]json.RawMessage
	path   []any
	issues []any
}

// parseFields reads raw as an object at path.
func parseFields(raw json.RawMessage, path []any) fields {
	f := fields{path: path}
	if kindOf(raw) != "object" || json.Unmarshal(raw, &f.object) != nil {
		f.object = nil
		f.issues = append(f.issues, wrongType("object", raw, pathOf(path)))
	}
	return f
}

// kindOf names the JSON type of a value, in JavaScript's terms.
func kindOf(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "undefined"
	}
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

func wrongType(want string, raw json.RawMessage, path []any) object {
	return object{
		"expected": want, "code": "invalid_type", "path": path,
		"message": "Invalid input: expected " + want + ", received " + kindOf(raw),
	}
}

// pathOf is a path in a form that is never null on the wire.
func pathOf(path []any, more ...any) []any {
	return append(append([]any{}, path...), more...)
}

func (f *fields) at(name string) []any { return pathOf(f.path, name) }

func (f *fields) complain(issue object) { f.issues = append(f.issues, issue) }

// missing reports whether a member is not there, which is an issue only when it has to be.
func (f *fields) missing(name, want string, must bool) bool {
	if _, ok := f.object[name]; ok {
		return false
	}
	if must {
		f.complain(wrongType(want, nil, f.at(name)))
	}
	return true
}

// text reads a string.
func (f *fields) text(name string, must bool) string {
	var s string
	if !f.missing(name, "string", must) && (kindOf(f.object[name]) != "string" || json.Unmarshal(f.object[name], &s) != nil) {
		f.complain(wrongType("string", f.object[name], f.at(name)))
	}
	return s
}

// name reads a string that must not be empty when it is there.
func (f *fields) name(member string, must bool) string {
	before := len(f.issues)
	s := f.text(member, must)
	if _, there := f.object[member]; there && s == "" && len(f.issues) == before {
		f.complain(object{
			"origin": "string", "code": "too_small", "minimum": 1, "inclusive": true, "path": f.at(member),
			"message": "Too small: expected string to have >=1 characters",
		})
	}
	return s
}

// constant checks a member that can have one value only.
func (f *fields) constant(name, want string) {
	var s string
	if json.Unmarshal(f.object[name], &s) != nil || s != want {
		f.complain(object{
			"code": "invalid_value", "values": []string{want}, "path": f.at(name),
			"message": "Invalid input: expected " + quote(want),
		})
	}
}

// present checks that a member is there, whatever it is.
func (f *fields) present(name string) {
	if _, ok := f.object[name]; !ok {
		f.complain(object{
			"code": "invalid_type", "expected": "nonoptional", "path": f.at(name),
			"message": "Invalid input: expected nonoptional, received undefined",
		})
	}
}

// integer reads a whole number of at least least; ok is false when it is not there.
func (f *fields) integer(name string, least int64) (n int64, ok bool) {
	if f.missing(name, "number", optional) {
		return 0, false
	}
	raw := f.object[name]
	if kindOf(raw) != "number" {
		f.complain(wrongType("number", raw, f.at(name)))
		return 0, false
	}
	x, err := strconv.ParseFloat(string(bytes.TrimSpace(raw)), 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		f.complain(object{
			"expected": "int", "format": "safeint", "code": "invalid_type", "path": f.at(name),
			"message": "Invalid input: expected int, received number",
		})
		return 0, false
	}
	if n = int64(x); n < least {
		// A least of 1 is "positive" to the host, and said in those terms.
		issue := object{"origin": "number", "code": "too_small", "minimum": 0, "inclusive": least <= 0, "path": f.at(name)}
		issue["message"] = "Too small: expected number to be >=0"
		if least > 0 {
			issue["message"] = "Too small: expected number to be >0"
		}
		f.complain(issue)
	}
	return n, true
}

// choice reads a string that is one of a few, as the host words a union.
func (f *fields) choice(name string, of ...string) string {
	var s string
	if json.Unmarshal(f.object[name], &s) == nil {
		for _, one := range of {
			if s == one {
				return s
			}
		}
	}
	var errors []any
	for _, one := range of {
		errors = append(errors, []any{object{
			"code": "invalid_value", "values": []string{one}, "path": []any{}, "message": "Invalid input: expected " + quote(one),
		}})
	}
	f.complain(object{"code": "invalid_union", "errors": errors, "path": f.at(name), "message": "Invalid input"})
	return ""
}

// list reads an array.
func (f *fields) list(name string) []json.RawMessage {
	if f.missing(name, "array", required) {
		return nil
	}
	var items []json.RawMessage
	if kindOf(f.object[name]) != "array" || json.Unmarshal(f.object[name], &items) != nil {
		f.complain(wrongType("array", f.object[name], f.at(name)))
	}
	return items
}

// blocks reads a message's content, which is a list of text blocks.
func (f *fields) blocks(name string) []object {
	content := []object{}
	for i, raw := range f.list(name) {
		block := parseFields(raw, pathOf(f.path, name, i))
		if block.object != nil {
			block.constant("type", "text")
			content = append(content, object{"type": "text", "text": block.text("text", required)})
		}
		f.issues = append(f.issues, block.issues...)
	}
	return content
}

// discriminator reads the member that says which shape of an object this is.
func (f *fields) discriminator(name string, of ...string) string {
	var s string
	if json.Unmarshal(f.object[name], &s) == nil {
		for _, one := range of {
			if s == one {
				return s
			}
		}
	}
	f.complain(object{
		"code": "invalid_union", "errors": []any{}, "note": "No matching discriminator", "discriminator": name,
		"options": of, "path": f.at(name),
		"message": fmt.Sprintf("Invalid discriminator value. Expected '%s'", strings.Join(of, "' | '")),
	})
	return ""
}
