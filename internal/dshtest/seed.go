package dshtest

import "fmt"

// SessionSpec describes a session to seed.
type SessionSpec struct {
	ID     string // chosen when empty
	Cwd    string // the host's when empty
	Preset string // the default preset when empty
	Title  string
	// ParentID makes it a subagent of that session, with Mode "one-shot" or "continuable" and a label.
	ParentID, Mode, Label string
	// Turns are as many finished turns in its history, see SeedHistory.
	Turns int
	// Attached makes the session live at once; else it is cold until something resumes it. It needs a running host.
	Attached bool
}

// AddSession puts a session into the host, without any frame but the one that tells of an attached session. It
// returns the session's id.
func (h *Host) AddSession(spec SessionSpec) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if spec.ID == "" {
		spec.ID = "session-" + newID()
	}
	if h.sessions[spec.ID] != nil {
		return "", fmt.Errorf("dshtest: session %q exists", spec.ID)
	}
	if spec.ParentID != "" && h.sessions[spec.ParentID] == nil {
		return "", noSession(spec.ParentID)
	}
	if spec.Attached && h.life == nil {
		return "", fmt.Errorf("dshtest: session %q cannot be attached: the host is down", spec.ID)
	}
	if spec.Cwd == "" {
		spec.Cwd = h.opts.Cwd
	}
	if spec.Preset == "" {
		// Without a usable default the session has no preset, as one of an older release.
		spec.Preset, _ = h.choosePreset("")
	}
	s := h.newSession(spec.ID, spec.Cwd, spec.Preset)
	policy := "ask"
	if spec.ParentID != "" {
		s.parent, s.origin, s.mode, s.label = spec.ParentID, "subagent", spec.Mode, spec.Label
		policy = "never"
	} else {
		s.note("permission/preset", object{"preset": sandboxWrite})
	}
	s.note("sandbox/mode", object{"mode": sandboxWrite})
	s.note("approval/policy", object{"policy": policy})
	if spec.Title != "" {
		s.title, s.titled = spec.Title, true
		s.note(eventTitle, object{"title": spec.Title, "messageSeqs": []int64{}, "source": object{"kind": "user"}})
	}
	s.seed(spec.Turns)
	if spec.Attached {
		h.attach(s)
	} else {
		s.cold = true
	}
	return s.id, nil
}

// SeedHistory appends n finished turns to a session's log, without any frame: a prompt, a tool call with its result,
// and a streamed answer each, 25 events. It is meant for big cold histories; a session in which a turn runs is
// refused.
func (h *Host) SeedHistory(sessionID string, n int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[sessionID]
	if s == nil {
		return noSession(sessionID)
	}
	if s.turn != nil {
		return fmt.Errorf("dshtest: a turn runs in session %q", sessionID)
	}
	s.seed(n)
	return nil
}

// seed writes finished turns. What repeats is encoded once: a benchmark seeds a million events.
func (s *session) seed(turns int) {
	usageChunk := encode(object{"type": "usage", "usage": usage})
	for range turns {
		s.turns++
		turn := s.turns
		text := fmt.Sprintf("prompt %d", turn)
		m := newMessage(textBlocks(text), object{"kind": "user", "rpcId": newID()})
		s.note(eventSpliced, splice{Target: nextTurn, Inserted: []*message{m}})
		s.note(eventTurnStart, object{"turn": turn})
		s.note(eventSpliced, splice{Target: nextTurn, RemovedCount: 1, Inserted: []*message{}})

		at := func(step int, more object) object {
			more["turn"], more["step"] = turn, step
			return more
		}
		s.note(eventStepStart, at(1, object{}))
		s.add(messageRecord(eventUser, m, nil, nil))
		callID := fmt.Sprintf("call_seed-%d", turn)
		arguments := `{"command":"echo seeded","description":"Echo"}`
		block := object{"type": "tool-call", "id": callID, "name": "bash", "arguments": arguments}
		sources := s.seedChunks(turn, 1,
			object{"type": "block-start", "index": 0, "blockType": "tool-call"},
			object{"type": "tool-call-delta", "index": 0, "id": callID, "name": "bash", "argumentsDelta": arguments},
			object{"type": "block-end", "index": 0, "block": block},
			usageChunk,
			object{"type": "finish", "reason": object{"kind": "tool-calls"}},
		)
		s.add(messageRecord(eventAssistant, at(1, object{"message": assistantMessage(block), "usage": usage}), sources, nil))
		call := s.note(eventToolCall, at(1, object{"callId": callID, "name": "bash", "arguments": arguments})).seq
		s.add(messageRecord(eventToolResult, at(1, object{"message": object{
			"source":  object{"kind": "tool", "callId": callID},
			"content": []object{{"type": "tool-result", "toolCallId": callID, "content": textBlocks("seeded\n"), "isError": false}},
			"role":    "user", "id": newID(),
		}}), []int64{call}, nil))
		s.note(eventStepEnd, at(1, object{}))

		s.note(eventStepStart, at(2, object{}))
		said := fmt.Sprintf("answer number %d", turn)
		words := object{"type": "text", "text": said}
		sources = s.seedChunks(turn, 2,
			object{"type": "block-start", "index": 0, "blockType": "text"},
			delta{Type: "text-delta", Text: "answer "},
			delta{Type: "text-delta", Text: "number "},
			delta{Type: "text-delta", Text: fmt.Sprint(turn)},
			object{"type": "block-end", "index": 0, "block": words},
			usageChunk,
			object{"type": "finish", "reason": object{"kind": "stop"}},
		)
		s.add(messageRecord(eventAssistant, at(2, object{"message": assistantMessage(words), "usage": usage}), sources, nil))
		s.note(eventStepEnd, at(2, object{}))
		s.promptedAt = s.note(eventTurnEnd, object{"turn": turn, "reason": object{"kind": endCompleted}}).time
		s.reply, s.outcome = said, endCompleted
	}
	if turns > 0 {
		// A seeded history is one whose beginning nobody asks about.
		s.header, s.snapshot = true, true
		if !s.titled {
			s.title, s.titled = "Seeded session", true
		}
		s.checkpoint()
	}
}

// seedChunks writes the chunks of one answer and returns their seqs.
func (s *session) seedChunks(turn, step int, chunks ...any) []int64 {
	seqs := make([]int64, 0, len(chunks))
	for _, chunk := range chunks {
		seqs = append(seqs, s.note(eventChunk, object{"turn": turn, "step": step, "chunk": chunk}).seq)
	}
	return seqs
}
