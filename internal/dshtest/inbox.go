package dshtest

import (
	"encoding/json"
	"slices"
	"strings"
)

// message is a user message as it waits in an inbox and as it enters the conversation.
type message struct {
	Content json.RawMessage `json:"content"`
	Source  json.RawMessage `json:"source"`
	Role    string          `json:"role"`
	ID      string          `json:"id"`
}

func newMessage(content, source any) *message {
	return &message{Content: encode(content), Source: encode(source), Role: "user", ID: newID()}
}

// text is what the message says, its blocks joined.
func (m *message) text() string {
	var blocks []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &blocks) != nil {
		return ""
	}
	var b strings.Builder
	for _, block := range blocks {
		b.WriteString(block.Text)
	}
	return b.String()
}

// byPerson says that the message is a prompt, not a word of the host's own.
func (m *message) byPerson() bool { return m.kind() == "user" }

func (m *message) kind() string {
	var source struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(m.Source, &source) != nil {
		return ""
	}
	return source.Kind
}

// textBlocks is a content of one text block.
func textBlocks(texts ...string) []object {
	blocks := make([]object, 0, len(texts))
	for _, text := range texts {
		blocks = append(blocks, object{"type": "text", "text": text})
	}
	return blocks
}

// Targets of messages that wait.
const (
	nextTurn = "next-turn" // starts a turn of its own
	nextStep = "next-step" // enters the running turn at its next step
)

// inbox holds the messages that wait for a session's agent.
type inbox struct {
	turn, step []*message
}

func (b *inbox) queue(target string) *[]*message {
	if target == nextStep {
		return &b.step
	}
	return &b.turn
}

func (b *inbox) empty() bool { return len(b.turn)+len(b.step) == 0 }

// find says where a message waits.
func (b *inbox) find(id string) (target string, index int, ok bool) {
	for _, target := range []string{nextTurn, nextStep} {
		i := slices.IndexFunc(*b.queue(target), func(m *message) bool { return m.ID == id })
		if i >= 0 {
			return target, i, true
		}
	}
	return "", 0, false
}

// items is the inbox as session/queue shows it.
func (b *inbox) items() []object {
	items := []object{}
	for _, m := range b.turn {
		items = append(items, object{"id": m.ID, "placement": "queued", "message": m})
	}
	for _, m := range b.step {
		placement := "context"
		if m.byPerson() {
			placement = "steering"
		}
		items = append(items, object{"id": m.ID, "placement": placement, "message": m})
	}
	return items
}

// splice is the data of an agent/inbox/spliced event.
type splice struct {
	Target       string     `json:"target"`
	Start        int        `json:"start"`
	RemovedCount int        `json:"removedCount,omitempty"`
	Inserted     []*message `json:"inserted"`
	Outcome      string     `json:"outcome,omitempty"`
}

// apply makes the change. A change that does not fit, as only a log written by somebody else could hold, is left out.
func (b *inbox) apply(c splice) {
	q := b.queue(c.Target)
	if c.Start < 0 || c.RemovedCount < 0 || c.Start+c.RemovedCount > len(*q) {
		return
	}
	*q = slices.Replace(*q, c.Start, c.Start+c.RemovedCount, c.Inserted...)
}

// splice changes a session's inbox: the queue frame comes first, then the event.
func (h *Host) splice(s *session, c splice) {
	if c.Inserted == nil {
		c.Inserted = []*message{}
	}
	s.inbox.apply(c)
	h.frame(kindQueue, object{"sessionId": s.id, "items": s.inbox.items()})
	h.emit(s, eventSpliced, c)
}

// enqueue puts a message into a session's inbox.
func (h *Host) enqueue(s *session, target string, m *message) {
	h.splice(s, splice{Target: target, Start: len(*s.inbox.queue(target)), Inserted: []*message{m}})
}

// deliver hands a message of the host's own to a session: a running turn takes it at its next step, an idle session
// starts a turn.
func (h *Host) deliver(s *session, m *message) {
	if s.turn != nil {
		h.enqueue(s, nextStep, m)
		return
	}
	h.enqueue(s, nextTurn, m)
	h.startTurn(s)
}

// claim takes what the agent takes up now: everything that waits for a step and, when a turn begins, the oldest
// message that waits for a turn.
func (h *Host) claim(s *session, turnBegins bool) []*message {
	taken := slices.Clone(s.inbox.step)
	if len(taken) > 0 {
		h.splice(s, splice{Target: nextStep, RemovedCount: len(taken)})
	}
	if turnBegins && len(s.inbox.turn) > 0 {
		taken = append(taken, s.inbox.turn[0])
		h.splice(s, splice{Target: nextTurn, RemovedCount: 1})
	}
	return taken
}
