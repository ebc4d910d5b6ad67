package dshtest

import (
	"encoding/json"
	"time"
)

// accepted is the answer of the calls that only take an order.
var accepted = json.RawMessage(`{"accepted":true}`)

// prompt hands a message to a session's agent.
func prompt(h *Host, req request) (any, *failure) {
	id := req.payload.name("sessionId", required)
	mode := req.payload.choice("mode", "queue", "steer")
	content := req.payload.blocks("content")
	zone := req.payload.text("clientTimeZone", optional)
	if f := req.invalid(); f != nil {
		return nil, f
	}
	if zone != "" {
		if _, err := time.LoadLocation(zone); err != nil {
			return nil, &failure{
				Code: "invalid-time-zone", Message: "clientTimeZone must be UTC or a valid IANA Area/Location name",
				Details: object{"value": zone},
			}
		}
	}
	s := h.sessions[id]
	if s == nil {
		return nil, sessionNotFound(id, "")
	}
	if f := s.owned(); f != nil {
		return nil, f
	}
	h.attach(s)
	target := nextTurn
	if mode == "steer" {
		target = nextStep
	}
	h.enqueue(s, target, newMessage(content, object{"kind": "user", "rpcId": req.rpcID}))
	h.startTurn(s)
	return accepted, nil
}

// owned is the refusal of a subagent's session, which only takes orders from its parent.
func (s *session) owned() *failure {
	if !s.subagent() {
		return nil
	}
	return &failure{
		Code: "agent-busy", Message: "session " + quote(s.id) + " is owned by subagent routing",
		Details: object{"reason": "use subagent delivery for this child session"},
	}
}

// cancelTurn stops the turn that runs, if one does.
func cancelTurn(h *Host, req request) (any, *failure) {
	s, f := h.find(&req)
	if f != nil {
		if f.Code == "session-not-found" {
			f.Message += " (not attached)"
		}
		return nil, f
	}
	if f := s.owned(); f != nil {
		return nil, f
	}
	if !s.attached {
		return nil, sessionNotFound(s.id, " (not attached)")
	}
	if s.turn != nil {
		s.turn.cancel(errUser)
	}
	return accepted, nil
}

// updateQueue takes a message out of the inbox, changes it, or makes it steer.
func updateQueue(h *Host, req request) (any, *failure) {
	id := req.payload.name("sessionId", required)
	item := req.payload.name("itemId", required)
	action := parseFields(req.payload.object["action"], []any{"action"})
	var kind string
	var content []object
	if action.object != nil {
		kind = action.discriminator("kind", "edit", "remove", "steer")
		if kind == "edit" {
			content = action.blocks("content")
		}
	}
	req.payload.issues = append(req.payload.issues, action.issues...)
	if f := req.invalid(); f != nil {
		return nil, f
	}
	gone := &failure{
		Code: "queue-item-not-found", Message: "queued item is no longer pending", Details: object{"itemId": item},
	}
	s := h.sessions[id]
	if s == nil {
		return nil, gone
	}
	target, index, ok := s.inbox.find(item)
	if !ok {
		return nil, gone
	}
	m := (*s.inbox.queue(target))[index]
	change := splice{Target: target, Start: index, RemovedCount: 1, Outcome: "canceled"}
	if kind == "edit" {
		change.Inserted = []*message{{Content: encode(content), Source: m.Source, Role: m.Role, ID: m.ID}}
	}
	h.splice(s, change)
	if kind == "steer" {
		h.enqueue(s, nextStep, m)
	}
	return accepted, nil
}
