package dsh

import (
	"iter"
	"math"
	"strings"

	"github.com/tidwall/gjson"
)

// The lenient readers of event bodies: a value of another type is the zero value.

func body(e Event) gjson.Result { return gjson.Parse(stringOf(e.Data)) }

// stringIn clones, so that an id that is kept does not keep the whole event in memory.
func stringIn(r gjson.Result) string {
	if r.Type != gjson.String {
		return ""
	}
	return strings.Clone(r.Str)
}

func idIn(r gjson.Result) string {
	if id := stringIn(r); ValidID(id) {
		return id
	}
	return ""
}

func intIn(r gjson.Result) int {
	n, ok := whole(r)
	if !ok || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int(n)
}

// elements yields the elements of an array, and nothing of what is none.
func elements(r gjson.Result) iter.Seq[gjson.Result] {
	return func(yield func(gjson.Result) bool) {
		if r.IsArray() {
			r.ForEach(func(_, element gjson.Result) bool { return yield(element) })
		}
	}
}

// textBlocks joins the text blocks of a content list, as the host does where it shows one.
func textBlocks(content gjson.Result) string {
	var text strings.Builder
	for block := range elements(content) {
		if block.Get("type").Str == "text" {
			if t := block.Get("text"); t.Type == gjson.String {
				text.WriteString(t.Str)
			}
		}
	}
	return text.String()
}
