package dshtest

import (
	"encoding/json"
	"strconv"
	"strings"

	"dsh-agentlink/internal/labmodel"
)

// Types of events that the host itself looks for in a log.
const (
	eventTurnStart  = "turn/start"
	eventTurnEnd    = "turn/end"
	eventStepStart  = "step/start"
	eventStepEnd    = "step/end"
	eventUser       = "user/message"
	eventAssistant  = "assistant/message"
	eventChunk      = "assistant/chunk"
	eventToolCall   = "tool/call"
	eventToolResult = "tool/result"
	eventSpliced    = "agent/inbox/spliced"
	eventTitle      = "session/title"
	eventEndSeed    = "session/end-seed"
	eventHeader     = "request/header"
)

// Modes of a subagent's session.
const (
	modeOneShot     = "one-shot"
	modeContinuable = "continuable"
)

// session is one session: its durable log, and what a running host holds of it beside the log.
type session struct {
	id, cwd, preset string
	parent          string // parent session's id, of a subagent or a fork
	origin          string // "subagent", or empty
	mode, label     string // of a subagent
	createdAt       int64
	promptedAt      int64 // time of the last user/message that was a prompt; 0 when there was none
	turns           int   // number of the last turn
	title           string
	titled          bool
	aim             *pursuit        // nil without a goal
	goal            json.RawMessage // its projection, as of its last change
	records         []record
	saved           *checkpoint
	pinned          bool   // a header said that the reasoning effort is settled
	header          bool   // the log holds a request/header
	snapshot        bool   // the log holds the host's context message
	reply           string // the last words of the model in the turn that runs or ran last
	outcome         string // kind of the end of the last turn
	conversation    labmodel.Conversation

	cold bool // the session was let go of, by a process that ended or by the end of a subagent's work

	// Gone when the host's process is, or when a subagent's work is done.
	attached bool
	turn     *turn // nil when none runs
	inbox    inbox
	jobs     []*job
	requests int   // model requests since it was attached
	armed    bool  // rounds of the goal begin by themselves
	titleOf  int64 // seq of the message that a title is being made for; 0 when none is
}

// checkpoint is what session.list knows of a cold session without reading its log.
type checkpoint struct {
	lastSeq   int64
	title     string
	titled    bool
	goal      json.RawMessage
	updatedAt int64
}

// record is one durable event. Its members are kept encoded: logs are long, and are read far more often than written.
type record struct {
	kind string
	seq  int64
	time int64
	data json.RawMessage
	// tail is the encoded rest of the event behind its data, each member with a comma in front.
	tail []byte
	// view is the host's presentation of the event, for tool calls and results.
	view json.RawMessage
	// first is the seq of the oldest event of the message that this event completes: its own, unless it is grouped
	// with those that it was made of.
	first   int64
	grouped bool
}

// appendTo appends the record's event to b as JSON.
func (r *record) appendTo(b []byte) []byte {
	b = append(b, `{"type":`...)
	b = strconv.AppendQuote(b, r.kind)
	b = append(b, `,"seq":`...)
	b = strconv.AppendInt(b, r.seq, 10)
	b = append(b, `,"time":`...)
	b = strconv.AppendInt(b, r.time, 10)
	b = append(b, `,"data":`...)
	b = append(b, r.data...)
	b = append(b, r.tail...)
	return append(b, '}')
}

func (s *session) lastSeq() int64 { return int64(len(s.records)) - 1 }

func (s *session) subagent() bool { return s.origin != "" }

// blank says that nothing was ever said in the session.
func (s *session) blank() bool { return s.turns == 0 }

func (s *session) updatedAt() int64 { return max(s.createdAt, s.promptedAt) }

// add appends an event to the log without telling anybody.
func (s *session) add(r record) *record {
	r.seq = int64(len(s.records))
	if r.time == 0 {
		r.time = now()
	}
	if n := len(s.records); n > 0 {
		r.time = max(r.time, s.records[n-1].time)
	}
	if !r.grouped {
		r.first = r.seq
	}
	s.records = append(s.records, r)
	return &s.records[r.seq]
}

// note is add for an event that is nothing but a type and data.
func (s *session) note(kind string, data any) *record {
	return s.add(record{kind: kind, data: encode(data)})
}

// checkpoint saves what session.list shows of the session once it is cold.
func (s *session) checkpoint() {
	s.saved = &checkpoint{
		lastSeq: s.lastSeq(), title: s.title, titled: s.titled, goal: s.goal, updatedAt: s.updatedAt(),
	}
}

// goCold forgets what only a running process holds.
func (s *session) goCold() {
	s.attached, s.turn, s.jobs, s.requests, s.titleOf, s.armed = false, nil, nil, 0, 0, false
	s.inbox = inbox{}
	s.cold = true
}

// emit appends an event to the log and streams it.
func (h *Host) emit(s *session, kind string, data any) int64 {
	return h.publish(s, s.note(kind, data))
}

// emitMessage is emit for an event that belongs to the conversation and was made of the events in sources.
func (h *Host) emitMessage(s *session, kind string, data any, sources []int64, view any) int64 {
	return h.publish(s, s.add(messageRecord(kind, data, sources, view)))
}

// messageRecord makes the record of an event that belongs to the conversation.
func messageRecord(kind string, data any, sources []int64, view any) record {
	r := record{kind: kind, data: encode(data)}
	if len(sources) > 0 {
		r.tail = append(r.tail, `,"sourceEventSeqs":[`...)
		for i, seq := range sources {
			if i > 0 {
				r.tail = append(r.tail, ',')
			}
			r.tail = strconv.AppendInt(r.tail, seq, 10)
		}
		r.tail = append(r.tail, ']')
		r.first, r.grouped = sources[0], true
	}
	r.tail = append(r.tail, `,"surfaceOp":"append"`...)
	if view != nil {
		r.view = encode(view)
	}
	return r
}

// emitView is emit for an event with a presentation.
func (h *Host) emitView(s *session, kind string, data, view any) int64 {
	r := record{kind: kind, data: encode(data)}
	if view != nil {
		r.view = encode(view)
	}
	return h.publish(s, s.add(r))
}

// publish streams an event that is in the log already.
func (h *Host) publish(s *session, r *record) int64 {
	h.notify()
	if h.life == nil || len(h.life.clients) == 0 {
		return r.seq
	}
	if h.opts.StatsFrames {
		h.project(s, "sessionStats", object{"turns": s.turns, "steps": r.seq}, r.seq)
	}
	b := make([]byte, 0, len(r.data)+len(r.tail)+len(r.view)+200)
	b = append(b, `{"type":"session/event","sessionId":`...)
	b = append(b, encode(s.id)...)
	b = append(b, `,"event":`...)
	b = r.appendTo(b)
	if r.view != nil {
		b = append(append(b, `,"view":`...), r.view...)
	}
	h.send(kindEvent, r.kind, newID(), append(b, '}'))
	return r.seq
}

// project streams a projection of the session.
func (h *Host) project(s *session, key string, value any, seq int64) {
	h.frame(kindProjection, object{"sessionId": s.id, "key": key, "value": value, "seq": seq})
}

// setTitle records a new title.
func (h *Host) setTitle(s *session, title string, messages []int64, source object) int64 {
	s.title, s.titled = title, true
	h.project(s, "title", title, s.lastSeq()+1)
	return h.emit(s, eventTitle, object{"title": title, "messageSeqs": messages, "source": source})
}

// shorten makes a title of a text, as a host does before its model has made one.
func shorten(text string, words, chars int) string {
	fields := strings.Fields(text)
	if words > 0 && len(fields) > words {
		fields = fields[:words]
	}
	runes := []rune(strings.Join(fields, " "))
	if len(runes) > chars {
		runes = runes[:chars]
	}
	return strings.TrimSpace(string(runes))
}
