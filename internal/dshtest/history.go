package dshtest

import "encoding/json"

// defaultPage is how many messages a history page has when the caller does not say.
const defaultPage = 50

// window is the part of a history that is asked for.
type window struct {
	before   int64
	bounded  bool // before was given
	messages int64
	plain    bool // without the host's presentations
}

func readWindow(req *request) window {
	w := window{messages: defaultPage}
	w.before, w.bounded = req.payload.integer("beforeSeq", 0)
	if n, ok := req.payload.integer("maxMessages", 1); ok {
		w.messages = n
	}
	return w
}

func history(h *Host, req request) (any, *failure) {
	window := readWindow(&req)
	s, f := h.find(&req)
	if f != nil {
		return nil, f
	}
	return h.page(s, window), nil
}

// page is a contiguous piece of a session's history. It is encoded later: the log only grows, so that the records
// seen now can be read without the lock.
func (h *Host) page(s *session, w window) func() json.RawMessage {
	s.repair()
	records := s.records
	if w.bounded && w.before < int64(len(records)) {
		records = records[:w.before]
	}
	from := pageStart(records, w.messages)
	var projections json.RawMessage
	if !w.bounded {
		projections = encode(s.projections(s.lastSeq(), s.title, s.titled, s.goal))
	}
	return func() json.RawMessage { return encodePage(records[from:], from > 0, !w.plain, projections) }
}

// pageStart is where a page begins that holds the last n messages, none of them in part. A page of fewer messages
// than n reaches down to the first event.
func pageStart(records []record, n int64) int64 {
	for i := len(records) - 1; i >= 0; i-- {
		if kind := records[i].kind; kind != eventUser && kind != eventAssistant {
			continue
		}
		if n--; n == 0 {
			return records[i].first
		}
	}
	return 0
}

func encodePage(records []record, more, views bool, projections json.RawMessage) json.RawMessage {
	size := 100 + len(projections)
	for i := range records {
		size += len(records[i].data) + len(records[i].tail) + len(records[i].view) + 100
	}
	b := append(make([]byte, 0, size), `{"events":[`...)
	for i := range records {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"event":`...)
		b = records[i].appendTo(b)
		if view := records[i].view; views && view != nil {
			b = append(append(b, `,"view":`...), view...)
		}
		b = append(b, '}')
	}
	if more {
		b = append(b, `],"hasMore":true`...)
	} else {
		b = append(b, `],"hasMore":false`...)
	}
	if projections != nil {
		b = append(append(b, `,"projections":`...), projections...)
	}
	return append(b, '}')
}

// fork makes a session that goes on from an earlier one: from its last completed turn, or from the one that holds an
// event.
func fork(h *Host, req request) (any, *failure) {
	at, given := req.payload.integer("atSeq", 0)
	s, f := h.find(&req)
	if f != nil {
		return nil, f
	}
	s.repair()
	unavailable := func(why string) *failure {
		return &failure{
			Code: "fork-unavailable", Message: "session " + quote(s.id) + " " + why, Details: object{"sessionId": s.id},
		}
	}
	if !given {
		at = -1
		for i := range s.records {
			if s.records[i].kind == eventTurnEnd {
				at = int64(i)
			}
		}
		if at < 0 {
			return nil, unavailable("has no completed turn to fork from")
		}
	}
	end, ok := turnAround(s.records, at)
	if !ok {
		return nil, unavailable("has not completed the turn containing event " + string(encode(at)))
	}
	child := h.newSession("session-"+newID(), s.cwd, s.preset)
	child.parent = s.id
	child.records = append([]record(nil), s.records[:end]...)
	child.promptedAt = s.promptedAt
	for i := range child.records {
		switch r := &child.records[i]; r.kind {
		case eventTurnStart:
			child.turns = int(r.number("turn"))
		case eventTitle:
			child.title, child.titled = r.member("title"), true
		case eventHeader:
			child.header = true
		}
	}
	child.snapshot = child.turns > 0
	child.recallGoal()
	child.cold = true
	h.attach(child)
	child.inbox = inbox{} // what waited at that point waits in the source alone
	return object{"sessionId": child.id}, nil
}

// turnAround is the end of the stretch of a log that reaches from its start over the turn around an event to just
// before the next turn. It reports false when that turn is not over.
func turnAround(records []record, at int64) (end int64, ok bool) {
	for i := range records {
		switch kind := records[i].kind; {
		case kind == eventTurnEnd && int64(i) >= at:
			ok = true
		case kind == eventTurnStart && ok:
			return int64(i), true
		}
	}
	return int64(len(records)), ok
}
