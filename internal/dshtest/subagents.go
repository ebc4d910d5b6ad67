package dshtest

import (
	"encoding/json"
	"slices"
)

// delegateArgs are the arguments of the subagent tool. Unless RunInBackground is false, the agent does not wait.
type delegateArgs struct {
	Description     string `json:"description"`
	Prompt          string `json:"prompt"`
	RunInBackground *bool  `json:"run_in_background"`
}

// delegate starts another agent with a session of its own, and waits for its last words if that is wanted.
func (c *toolCall) delegate() (result, ending) {
	var args delegateArgs
	if r, ok := c.read(&args, "description", "prompt"); !ok {
		return r, goesOn
	}
	if args.RunInBackground == nil || *args.RunInBackground {
		return c.delegateInBackground(args)
	}
	t := c.t
	var child *session
	var work *turn
	if !t.locked(func() {
		child = t.h.newChild(t.s, modeOneShot, args)
		work = t.h.startChild(child, args.Prompt)
		// A one-shot agent says what it is once it is at work.
		t.h.emit(child, eventDescriptor, object{"version": 2, "mode": modeOneShot, "provider": "spawn", "label": child.label})
		t.h.launch(work)
	}) {
		return result{}, vanished
	}
	select {
	case <-work.done:
	case <-t.ctx.Done():
		work.cancel(errParent)
		select {
		case <-work.done:
		case <-t.life.ctx.Done():
			return result{}, vanished
		}
	}
	r, how := result{}, goesOn
	if !t.locked(func() {
		switch child.outcome {
		case endCompleted:
			r = result{text: child.reply}
			return
		case endAborted:
			r = failedCall("subagent run was cancelled", "", "")
			how = t.stopped()
		default:
			r = failedCall("subagent run failed", "", "")
		}
		if child.reply != "" {
			r.text += "\nPartial output before the run ended:\n" + child.reply
		}
	}) {
		return result{}, vanished
	}
	return r, how
}

// delegateInBackground starts an agent that reports by a message when it is done.
func (c *toolCall) delegateInBackground(args delegateArgs) (result, ending) {
	t := c.t
	var child *session
	if !t.locked(func() {
		child = t.h.newChild(t.s, modeContinuable, args)
		t.h.launch(t.h.startChild(child, args.Prompt))
	}) {
		return result{}, vanished
	}
	return result{text: "started subagent " + child.id}, goesOn
}

const eventDescriptor = "subagent/descriptor"

// newChild makes the session of a subagent and attaches it.
func (h *Host) newChild(parent *session, mode string, args delegateArgs) *session {
	s := h.newSession(newID(), parent.cwd, parent.preset)
	s.parent, s.origin, s.mode, s.label = parent.id, "subagent", mode, args.Description
	if mode == modeContinuable {
		s.note(eventDescriptor, object{
			"version": 2, "mode": mode, "provider": "spawn", "label": s.label,
			"agentProvider": provider, "agentModel": model,
		})
		s.note(eventEndSeed, object{})
	}
	s.note("sandbox/mode", object{"mode": sandboxWrite, "source": "delegation"})
	s.note("approval/policy", object{"policy": "never", "source": "delegation"})
	h.attach(s)
	return s
}

// startChild begins a subagent's first turn; launch lets it run.
func (h *Host) startChild(s *session, prompt string) *turn {
	h.enqueue(s, nextTurn, newMessage(textBlocks(prompt), object{"kind": "user"}))
	return h.beginTurn(s, make(chan struct{}))
}

// settle lets go of a subagent whose work is done. Its parent hears of it when it does not wait for it.
func (h *Host) settle(s *session) {
	if s.mode == "" || s.turn != nil {
		return
	}
	s.goCold()
	h.life.attached = slices.DeleteFunc(h.life.attached, func(a *session) bool { return a == s })
	parent := h.sessions[s.parent]
	if s.mode != modeContinuable || parent == nil || !parent.attached {
		return
	}
	summary := "Background subagent " + s.id
	switch s.outcome {
	case endCompleted:
		summary += " finished and will do no further work unless you send it more."
	case endAborted:
		summary += " was stopped before it finished."
	default:
		summary += " failed before it finished."
	}
	content := textBlocks(summary, "It left no closing message.")
	if s.reply != "" {
		content = textBlocks(summary, "Its closing message:", s.reply)
	}
	h.deliver(parent, newMessage(content, object{
		"kind": "subagent-settled", "form": "notice", "summary": summary, "senderSessionId": s.id,
	}))
}

// children are the subagents of a session, oldest first.
func (h *Host) children(id string) []*session {
	var all []*session
	for _, s := range h.order {
		if s.parent == id && s.subagent() {
			all = append(all, s)
		}
	}
	return all
}

func subagentList(h *Host, req request) (any, *failure) {
	id := req.payload.text("parentSessionId", required)
	if f := req.invalid(); f != nil {
		return nil, f
	}
	entries := []object{}
	for _, s := range h.children(id) {
		entry := object{
			"kind": "child", "id": s.id, "mode": s.mode, "activity": "inactive",
			"hasChildren": len(h.children(s.id)) > 0,
		}
		if s.label != "" {
			entry["label"] = s.label
		}
		if s.turn != nil {
			entry["activity"] = "running"
		}
		entries = append(entries, entry)
	}
	parent := h.sessions[id]
	return object{"entries": entries, "parentAvailable": parent != nil && parent.attached}, nil
}

// child finds the subagent that a call addresses.
func (h *Host) child(req *request, modes ...string) (*session, *failure) {
	parent := req.payload.text("parentSessionId", required)
	id := req.payload.text("childSessionId", required)
	mode := req.payload.choice("mode", modes...)
	if f := req.invalid(); f != nil {
		return nil, f
	}
	s := h.sessions[id]
	if s == nil || s.parent != parent || s.mode != mode {
		return nil, &failure{
			Code:    "subagent-not-found",
			Message: "session " + quote(id) + " is not a " + mode + " direct child of " + quote(parent),
			Details: object{"parentSessionId": parent, "childSessionId": id},
		}
	}
	return s, nil
}

func subagentHistory(h *Host, req request) (any, *failure) {
	window := readWindow(&req)
	window.plain = true
	s, f := h.child(&req, modeOneShot, modeContinuable)
	if f != nil {
		return nil, f
	}
	return h.page(s, window), nil
}

func subagentPrompt(h *Host, req request) (any, *failure) {
	content := req.payload.blocks("content")
	s, f := h.child(&req, modeContinuable)
	if f != nil {
		return nil, f
	}
	h.attach(s)
	m := newMessage(content, object{"kind": "user", "rpcId": req.rpcID})
	h.enqueue(s, nextTurn, m)
	h.startTurn(s)
	return object{"messageId": m.ID}, nil
}

func subagentInterrupt(h *Host, req request) (any, *failure) {
	s, f := h.child(&req, modeContinuable)
	if f != nil {
		return nil, f
	}
	if s.turn != nil {
		s.turn.cancel(errUser)
	}
	return json.RawMessage(`{"accepted":true}`), nil
}
