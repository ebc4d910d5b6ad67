package dsh

import (
	"encoding/json"
	"slices"
	"strings"
	"unsafe"
)

// cutEnvelope cuts the value out of the answer to the call with that rpcId, as the host writes it: the result last in the
// envelope, and the value last in the result. A page of history is most of an answer, and is not walked over for that.
//
// When the value that it returns is valid JSON, then so is the answer, for everything around it was looked at; and there
// is no other way to read it. ok is false for anything but a success of that form.
func cutEnvelope(answer, rpcID string) (value string, ok bool) {
	const shut = "}}"
	w := walker{text: answer}
	var kind, echoed string
	success := 0
	for begun := false; w.more('{', '}', begun); begun = true {
		switch w.name() {
		case "type":
			kind = w.first(kind)
		case "rpcId":
			echoed = w.first(echoed)
		case "result":
			for begun := false; w.more('{', '}', begun); begun = true {
				switch w.name() {
				case "ok":
					success++
					w.odd = w.odd || w.value() != "true"
				case "value":
					w.space()
					value, ok = strings.CutSuffix(w.text[w.at:], shut)
					// Blanks behind the value are no part of it.
					ok = ok && !w.odd && kind == "server-response" && echoed == rpcID && ValidID(rpcID) && success == 1 && strings.TrimSpace(value) == value
					return value, ok
				default:
					return "", false
				}
			}
			return "", false
		default:
			return "", false
		}
	}
	return "", false
}

// sampled is how many elements of a list are read before the number of all of them is guessed.
const sampled = 32

// alike is how many elements the rest of the text has, if they are like the n that were read since from.
func (w *walker) alike(from, n int) int { return n * (len(w.text) - w.at) / (w.at - from) }

// walkHistory reads a page in one pass. ok is false for a page that is not of the plain form, whatever is the matter
// with it. The bodies of the events share the memory of text, which is valid JSON.
func walkHistory(text string) (page HistoryPage, ok bool) {
	w := walker{text: text}
	types := map[string]string{} // a page has a dozen
	var hasMore, events bool
	for begun := false; w.more('{', '}', begun); begun = true {
		switch w.name() {
		case "events":
			w.odd = w.odd || events
			events = true
			walkEvents(&w, types, &page)
		case "hasMore":
			w.odd = w.odd || hasMore
			hasMore = true
			switch w.value() {
			case "true":
				page.HasMore = true
			case "false":
			default:
				w.odd = true
			}
		default:
			w.value()
		}
		if w.odd {
			return HistoryPage{}, false
		}
	}
	if w.odd || !events || !hasMore {
		return HistoryPage{}, false
	}
	return page, true
}

func walkEvents(w *walker, types map[string]string, page *HistoryPage) {
	from := w.at
	for begun := false; w.more('[', ']', begun); begun = true {
		var e Event
		found := false
		for begun := false; w.more('{', '}', begun); begun = true {
			if w.name() != "event" {
				w.value()
				continue
			}
			w.odd = w.odd || found
			found = true
			e = walkEvent(w, types)
		}
		n := len(page.Events)
		if w.odd || !found || (n > 0 && e.Seq != page.Events[n-1].Seq+1) {
			w.odd = true
			return
		}
		page.Events = append(page.Events, e)
		if n+1 == sampled {
			page.Events = slices.Grow(page.Events, w.alike(from, sampled))
		}
	}
}

// walkEvent reads one event. types holds the names of types that were met.
func walkEvent(w *walker, types map[string]string) (e Event) {
	var kind, seq, time, data bool
	for begun := false; w.more('{', '}', begun); begun = true {
		switch w.name() {
		case "type":
			name := w.str()
			known, ok := types[name]
			if !ok {
				known = strings.Clone(name)
				types[known] = known
			}
			w.odd = w.odd || kind || name == ""
			e.Type, kind = known, true
		case "seq":
			w.odd = w.odd || seq
			e.Seq, seq = w.digits(), true
		case "time":
			w.odd = w.odd || time
			e.Time, time = w.digits(), true
		case "data":
			raw := w.value()
			w.odd = w.odd || data || raw == "null" || raw == ""
			if !w.odd {
				e.Data = json.RawMessage(unsafe.Slice(unsafe.StringData(raw), len(raw)))
			}
			data = true
		default:
			w.value()
		}
		if w.odd {
			return Event{}
		}
	}
	w.odd = w.odd || !kind || !seq || !time || !data
	return e
}
