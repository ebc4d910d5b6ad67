package dsh

import (
	"encoding/json"
	"strings"
)

// walkFrame reads the header of a frame in one pass, and of a frame that nobody reads no more than its beginning. ok is
// false for a frame that is not of the plain form, whatever is the matter with it, and for the rare kinds.
func walkFrame(data []byte) (f Frame, ok bool) {
	w := walker{text: stringOf(data)}
	var rpcID string
	var from, to int
	for begun := false; w.more('{', '}', begun); begun = true {
		switch w.name() {
		case "rpcId":
			rpcID = w.first(rpcID)
		case "payload":
			w.odd = w.odd || to > 0
			w.space()
			from = w.at
			if walkPayload(&w, &f) && ValidID(rpcID) && ValidID(f.SessionID) {
				f.RPCID, f.SessionID = strings.Clone(rpcID), strings.Clone(f.SessionID)
				return f, true
			}
			to = w.at
		default:
			w.value()
		}
		if w.odd {
			return Frame{}, false
		}
	}
	if w.odd || to == 0 || f.Kind == "" || !ValidID(rpcID) || !ValidID(f.SessionID) || (f.Kind == FrameEvent) != (f.EventType != "") ||
		f.unread() || !validJSON(w.text) {
		return Frame{}, false
	}
	f.RPCID, f.SessionID = strings.Clone(rpcID), strings.Clone(f.SessionID)
	f.Payload = json.RawMessage(data[from:to:to])
	return f, true
}

// unread reports whether a frame is one of those that nobody reads.
func (f Frame) unread() bool {
	return f.Kind == FrameProjection || (f.Kind == FrameEvent && f.EventType == EventChunk)
}

// walkPayload reads what routing needs of a payload. It stops where it is known that nobody reads the frame, and
// returns true then. f.SessionID shares the memory of the text.
func walkPayload(w *walker, f *Frame) (unread bool) {
	events := 0
	for begun := false; w.more('{', '}', begun); begun = true {
		switch w.name() {
		case "type":
			f.Kind = kindOf(w.first(string(f.Kind)))
			// Its seq is read with care, since it can be negative.
			w.odd = w.odd || f.Kind == FrameSubscribed
		case "sessionId":
			f.SessionID = w.first(f.SessionID)
		case "event":
			events++
			w.odd = w.odd || events > 1 || f.Kind != FrameEvent
			if !w.odd {
				walkHeader(w, f)
			}
			if !w.odd && f.EventType == EventChunk && f.SessionID != "" {
				return true
			}
		default:
			w.value()
		}
		if w.odd {
			return false
		}
		if f.Kind == FrameProjection && f.SessionID != "" {
			return true
		}
	}
	return false
}

// walkHeader reads the type and the seq of an event. It stops behind them when it is a chunk.
func walkHeader(w *walker, f *Frame) {
	seq, kind := false, false
	for begun := false; w.more('{', '}', begun); begun = true {
		switch w.name() {
		case "type":
			w.odd = w.odd || kind
			if f.EventType = w.str(); f.EventType == EventChunk {
				f.EventType = EventChunk // and not a part of the frame
			} else {
				f.EventType = strings.Clone(f.EventType)
			}
			kind = true
		case "seq":
			w.odd = w.odd || seq
			f.Seq = w.digits()
			seq = true
		default:
			w.value()
		}
		if w.odd || (seq && f.EventType == EventChunk) {
			return
		}
	}
	w.odd = w.odd || !seq || f.EventType == ""
}

// kindOf is the kind of that name, without the memory that the name lies in.
func kindOf(name string) FrameKind {
	switch k := FrameKind(name); k {
	case FrameEvent:
		return FrameEvent
	case FrameProjection:
		return FrameProjection
	}
	return FrameKind(strings.Clone(name))
}
