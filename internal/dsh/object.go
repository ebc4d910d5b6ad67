package dsh

import (
	"encoding/json"
	"strconv"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// object is one JSON object of the wire while it is decoded. Its readers take one member each and keep, for the whole
// answer, the first member that is not what the wire promises; unknown members are never looked at. Strings are
// cloned, so that what is kept of an answer does not keep all of it in memory.
//
// Reading member by member rather than by reflection is what makes a history of 30 MB cheap, and what lets a refusal
// name the very member ("items[3].sessionId is missing").
type object struct {
	json   gjson.Result
	path   string // where json is in the answer, for messages; empty at the top
	prefix string // where the object is in json: empty, or a path that ends with a dot
	bad    *string
}

// root starts decoding value. What bad points at becomes the first fault, and stays empty when there is none.
func root(value gjson.Result, bad *string) object {
	o := object{json: value, bad: bad}
	if !value.IsObject() {
		o.fault("", "the value is not an object")
	}
	return o
}

// refusal returns the first fault as a Malformed error, or nil.
func refusal(method, bad string) error {
	if bad == "" {
		return nil
	}
	return &Error{Kind: Malformed, Method: method, Message: bad}
}

func (o object) fault(name, what string) {
	if *o.bad == "" {
		*o.bad = strings.TrimSpace(o.at(name) + " " + what)
	}
}

func (o object) at(name string) string {
	if o.path == "" || name == "" {
		return o.path + o.prefix + name
	}
	return o.path + "." + o.prefix + name
}

// member returns a member, with null taken as absent.
func (o object) member(name string) (gjson.Result, bool) {
	r := o.json.Get(o.prefix + name)
	return r, r.Exists() && r.Type != gjson.Null
}

// need returns a member that the wire promises.
func (o object) need(name string) (gjson.Result, bool) {
	r, ok := o.member(name)
	if !ok {
		o.fault(name, "is missing")
	}
	return r, ok
}

func (o object) asText(name string, r gjson.Result) string {
	if r.Type != gjson.String {
		o.fault(name, "is not a string")
		return ""
	}
	return strings.Clone(r.Str)
}

func (o object) text(name string) string {
	r, ok := o.need(name)
	if !ok {
		return ""
	}
	return o.asText(name, r)
}

func (o object) optText(name string) string {
	r, ok := o.member(name)
	if !ok {
		return ""
	}
	return o.asText(name, r)
}

// id reads a required string that has to pass ValidID.
func (o object) id(name string) string {
	r, ok := o.need(name)
	if !ok {
		return ""
	}
	id := o.asText(name, r)
	if r.Type == gjson.String && !ValidID(id) {
		o.fault(name, "is not a valid id")
		return ""
	}
	return id
}

func (o object) flag(name string) bool {
	r, ok := o.need(name)
	if ok && !r.IsBool() {
		o.fault(name, "is not a boolean")
	}
	return r.Type == gjson.True
}

func (o object) optFlag(name string) bool {
	r, ok := o.member(name)
	if ok && !r.IsBool() {
		o.fault(name, "is not a boolean")
	}
	return r.Type == gjson.True
}

// integer reads a required whole number.
func (o object) integer(name string) int64 {
	r, ok := o.need(name)
	if !ok {
		return 0
	}
	n, ok := whole(r)
	if !ok {
		o.fault(name, "is not an integer")
	}
	return n
}

// millis reads a required time stamp, which for files on disk has a fraction.
func (o object) millis(name string) int64 {
	r, ok := o.need(name)
	if ok && r.Type != gjson.Number {
		o.fault(name, "is not a number")
	}
	return millisOf(r)
}

func (o object) optMillis(name string) int64 {
	r, ok := o.member(name)
	if ok && r.Type != gjson.Number {
		o.fault(name, "is not a number")
	}
	return millisOf(r)
}

// raw copies a required member as it was sent.
func (o object) raw(name string) json.RawMessage {
	r, _ := o.need(name)
	return copyRaw(r)
}

// within returns the object that is the member of that name. It takes no step of its own, which would cost one more
// walk over all of it: when it is not there, its members are what is missing.
func (o object) within(name string) object {
	o.prefix += name + "."
	return o
}

// list calls each for every element of a required array of objects, until there is a fault.
func (o object) list(name string, each func(object)) {
	r, ok := o.need(name)
	if !ok {
		return
	}
	if !r.IsArray() {
		o.fault(name, "is not an array")
		return
	}
	i := 0
	r.ForEach(func(_, element gjson.Result) bool {
		e := object{json: element, path: o.at(name) + "[" + strconv.Itoa(i) + "]", bad: o.bad}
		if element.IsObject() {
			each(e)
		} else {
			e.fault("", "is not an object")
		}
		i++
		return *o.bad == ""
	})
}

// whole returns r as an integer; a fraction, an exponent or a value beyond 64 bits is none.
func whole(r gjson.Result) (int64, bool) {
	if r.Type != gjson.Number {
		return 0, false
	}
	n, err := strconv.ParseInt(r.Raw, 10, 64)
	return n, err == nil
}

// millisOf returns a time stamp as whole milliseconds, 0 for what cannot be one.
func millisOf(r gjson.Result) int64 {
	if r.Type != gjson.Number || !(r.Num >= 0 && r.Num < 1<<53) {
		return 0
	}
	return int64(r.Num)
}

func copyRaw(r gjson.Result) json.RawMessage {
	if r.Raw == "" {
		return nil
	}
	return json.RawMessage(r.Raw)
}

// Validation recurses into arrays and objects, and a stack that overflows cannot be recovered from: 64 MiB of "[" must
// not end the process. A text with at most maxBrackets of them is not deep enough to matter (100 MB of stack at the
// very worst, for a host that means harm), and counting is nearly free. Beyond that the depth itself is measured, and
// the bound is that of encoding/json.
const (
	maxBrackets = 400_000
	maxNesting  = 10_000
)

// validJSON reports whether text is one JSON value that is safe to walk.
func validJSON(text string) bool {
	if strings.Count(text, "[")+strings.Count(text, "{") > maxBrackets && nesting(text) > maxNesting {
		return false
	}
	return gjson.Valid(text)
}

// nesting returns how deep text is nested, up to where it stops being JSON.
func nesting(text string) int {
	depth, deepest := 0, 0
	for w := (walker{text: text}); w.at < len(text); {
		c := text[w.at]
		w.at++
		switch c {
		case '"':
			w.quoted()
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		}
	}
	return deepest
}

// stringOf views b as a string without copying it, for answers of up to 64 MiB. Nobody may write to b afterwards.
func stringOf(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
