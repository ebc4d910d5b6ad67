package dshtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/labmodel"
)

// newSession makes a session with an empty log that is not attached.
func (h *Host) newSession(id, cwd, preset string) *session {
	s := &session{id: id, cwd: cwd, preset: preset, createdAt: now()}
	h.sessions[id] = s
	h.order = append(h.order, s)
	return s
}

// attach makes a session live: from now on a new connection is told of it. A session that was cold is repaired and
// gets a mark in its log, and what waited in its inbox waits again.
func (h *Host) attach(s *session) {
	if s.attached || h.life == nil {
		return
	}
	if s.cold {
		s.repair()
		s.note(eventEndSeed, object{})
		s.recall()
	}
	s.attached, s.cold = true, false
	h.life.attached = append(h.life.attached, s)
	h.notify()
	h.frame(kindSubscribed, object{"sessionId": s.id, "lastSeq": s.lastSeq()})
}

// repair closes a turn that a dead host left open. It is done when the log is next read.
func (s *session) repair() {
	if s.attached {
		return
	}
	var turn, step, at int64
	var open []*record // tool calls without a result
	for i := range s.records {
		r := &s.records[i]
		switch r.kind {
		case eventTurnStart:
			turn, step = r.number("turn"), 0
		case eventTurnEnd:
			turn = 0
		case eventStepStart:
			step, at = r.number("step"), r.number("step")
		case eventStepEnd:
			step = 0
		case eventToolCall:
			open = append(open, r)
		case eventToolResult:
			id := r.member("message.source.callId")
			open = slices.DeleteFunc(open, func(call *record) bool { return call.member("callId") == id })
		}
	}
	if turn == 0 {
		return
	}
	died := s.records[len(s.records)-1].time
	for _, call := range slices.Clone(open) {
		r := interruptedResult(turn, at, call, s.lastSeq()+1)
		r.time = died
		s.add(r)
	}
	if step != 0 {
		s.add(record{kind: eventStepEnd, time: died, data: encode(object{"turn": turn, "step": step})})
	}
	s.add(record{kind: eventTurnEnd, time: died, data: encode(object{"turn": turn, "reason": object{"kind": endInterrupted}})})
}

// interruptedResult is the tool/result that stands for one that was never recorded.
func interruptedResult(turn, step int64, call *record, seq int64) record {
	const text = "The tool call was interrupted after it was recorded. Its outcome is unknown."
	id := call.member("callId")
	var view any
	if call.member("name") == "bash" {
		view = object{"for": "result", "view": console(text)}
	}
	return messageRecord(eventToolResult, object{
		"turn": turn, "step": step,
		"message": object{
			"id": fmt.Sprintf("interrupted-tool-result-%s-%d", id, seq), "role": "user",
			"source": object{"kind": "tool", "callId": id},
			"content": []object{{
				"type": "tool-result", "toolCallId": id, "isError": true, "content": textBlocks(text),
			}},
		},
		"error": object{"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"},
	}, []int64{call.seq}, view)
}

// number reads a whole number of the event's data.
func (r *record) number(name string) int64 { return gjson.GetBytes(r.data, name).Int() }

// member reads a string of the event's data.
func (r *record) member(name string) string { return gjson.GetBytes(r.data, name).String() }

// resultText is the text of a tool/result event.
func (r *record) resultText() string {
	var b strings.Builder
	for _, text := range gjson.GetBytes(r.data, "message.content.0.content.#.text").Array() {
		b.WriteString(text.String())
	}
	return b.String()
}

// recall rebuilds from the log what a resumed session needs to go on: its inbox and the conversation.
func (s *session) recall() {
	s.inbox, s.conversation = inbox{}, labmodel.Conversation{}
	for i := range s.records {
		r := &s.records[i]
		switch r.kind {
		case eventSpliced:
			var change splice
			if json.Unmarshal(r.data, &change) == nil {
				s.inbox.apply(change)
			}
		case eventUser:
			var m message
			if json.Unmarshal(r.data, &m) == nil {
				s.conversation.User(m.text())
			}
		case eventToolResult:
			s.conversation.ToolResult(r.resultText())
		}
	}
}

// forgetBlank drops the sessions in which nothing was ever said.
func (h *Host) forgetBlank() {
	h.order = slices.DeleteFunc(h.order, func(s *session) bool {
		if s.blank() {
			delete(h.sessions, s.id)
		}
		return s.blank()
	})
}
