package dshtest

import (
	"encoding/json"
	"fmt"
	"slices"
)

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

// seed writes finished turns. It formats what it can instead of encoding it: a benchmark seeds a million events.
func (s *session) seed(turns int) {
	const (
		seedCommand = `"{\"command\":\"echo seeded\",\"description\":\"Echo\"}"`
		seedUsage   = `{"inputTokens":10,"outputTokens":5}`
		seedModel   = `{"kind":"model","provider":"` + provider + `","model":"` + model + `"}`
	)
	add := func(kind, format string, args ...any) int64 {
		return s.add(record{kind: kind, data: fmt.Appendf(nil, format, args...)}).seq
	}
	message := func(kind string, sources []int64, format string, args ...any) {
		s.add(messageRecord(kind, json.RawMessage(fmt.Appendf(nil, format, args...)), sources, nil))
	}
	const perTurn = 25
	s.records = slices.Grow(s.records, max(turns, 0)*perTurn)
	for range turns {
		s.turns++
		turn := s.turns
		chunks := func(step int, chunks ...string) []int64 {
			seqs := make([]int64, 0, len(chunks))
			for _, chunk := range chunks {
				seqs = append(seqs, add(eventChunk, `{"turn":%d,"step":%d,"chunk":%s}`, turn, step, chunk))
			}
			return seqs
		}
		answered := func(step int, block string, sources []int64) {
			message(eventAssistant, sources,
				`{"turn":%d,"step":%d,"message":{"role":"assistant","content":[%s],"source":%s,"id":"%s"},"usage":%s}`,
				turn, step, block, seedModel, newID(), seedUsage)
		}
		prompt := fmt.Sprintf(`{"content":[{"type":"text","text":"prompt %d"}],"source":{"kind":"user","rpcId":"%s"},"role":"user","id":"%s"}`,
			turn, newID(), newID())
		add(eventSpliced, `{"target":"next-turn","start":0,"inserted":[%s]}`, prompt)
		add(eventTurnStart, `{"turn":%d}`, turn)
		add(eventSpliced, `{"target":"next-turn","start":0,"removedCount":1,"inserted":[]}`)

		add(eventStepStart, `{"turn":%d,"step":1}`, turn)
		message(eventUser, nil, "%s", prompt)
		id := fmt.Sprintf("call_seed-%d", turn)
		block := `{"type":"tool-call","id":"` + id + `","name":"bash","arguments":` + seedCommand + `}`
		answered(1, block, chunks(1,
			`{"type":"block-start","index":0,"blockType":"tool-call"}`,
			`{"type":"tool-call-delta","index":0,"id":"`+id+`","name":"bash","argumentsDelta":`+seedCommand+`}`,
			`{"type":"block-end","index":0,"block":`+block+`}`,
			`{"type":"usage","usage":`+seedUsage+`}`,
			`{"type":"finish","reason":{"kind":"tool-calls"}}`,
		))
		call := add(eventToolCall, `{"turn":%d,"step":1,"callId":"%s","name":"bash","arguments":%s}`, turn, id, seedCommand)
		message(eventToolResult, []int64{call},
			`{"turn":%d,"step":1,"message":{"source":{"kind":"tool","callId":"%s"},"content":[{"type":"tool-result","toolCallId":"%s",`+
				`"content":[{"type":"text","text":"seeded\n"}],"isError":false}],"role":"user","id":"%s"}}`,
			turn, id, id, newID())
		add(eventStepEnd, `{"turn":%d,"step":1}`, turn)

		add(eventStepStart, `{"turn":%d,"step":2}`, turn)
		said := fmt.Sprintf("answer number %d", turn)
		block = `{"type":"text","text":"` + said + `"}`
		answered(2, block, chunks(2,
			`{"type":"block-start","index":0,"blockType":"text"}`,
			`{"type":"text-delta","index":0,"text":"answer "}`,
			`{"type":"text-delta","index":0,"text":"number "}`,
			fmt.Sprintf(`{"type":"text-delta","index":0,"text":"%d"}`, turn),
			`{"type":"block-end","index":0,"block":`+block+`}`,
			`{"type":"usage","usage":`+seedUsage+`}`,
			`{"type":"finish","reason":{"kind":"stop"}}`,
		))
		add(eventStepEnd, `{"turn":%d,"step":2}`, turn)
		add(eventTurnEnd, `{"turn":%d,"reason":{"kind":"completed"}}`, turn)
		s.reply, s.outcome = said, endCompleted
	}
	if turns > 0 {
		// A seeded history is one whose beginning nobody asks about.
		s.header, s.snapshot = true, true
		if !s.titled {
			s.title, s.titled = "Seeded session", true
		}
		s.promptedAt = now()
		s.checkpoint()
	}
}
