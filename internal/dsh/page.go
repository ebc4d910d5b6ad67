package dsh

import (
	"encoding/json"
	"slices"
	"strings"
	"unsafe"
)

// walkEnvelope takes the value out of the answer to the call with that rpcId, in one pass. ok is false for anything but
// a success of the plain form. answer is valid JSON.
func walkEnvelope(answer, rpcID string) (value string, ok bool) {
	w := walker{text: answer}
	var kind, echoed string
	results, success := 0, 0
	for begun := false; w.more('{', '}', begun); begun = true {
		switch w.name() {
		case "type":
			kind = w.first(kind)
		case "rpcId":
			echoed = w.first(echoed)
		case "result":
			results++
			for begun := false; w.more('{', '}', begun); begun = true {
				switch w.name() {
				case "ok":
					success++
					w.odd = w.odd || w.value() != "true"
				case "value":
					w.odd = w.odd || value != ""
					value = w.value()
				default:
					w.value()
				}
			}
		default:
			w.value()
		}
	}
	ok = !w.odd && kind == "server-response" && echoed == rpcID && results == 1 && success == 1 && value != ""
	return value, ok
}

// sampled is how many events of a page are read before the number of all of them is guessed.
const sampled = 32

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
			page.Events = slices.Grow(page.Events, sampled*(len(w.text)-from)/(w.at-from))
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
