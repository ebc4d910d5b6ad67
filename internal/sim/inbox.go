package sim

import (
	"encoding/json"
	"fmt"
	"slices"

	"dsh-agentlink/internal/dsh"
)

// message is a user message as it waits in an inbox and as it enters the conversation.
type message struct {
	Content []block `json:"content"`
	Source  source  `json:"source"`
	Role    string  `json:"role"`
	ID      string  `json:"id"`
}

type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type source struct {
	Kind  string `json:"kind"`
	RPCID string `json:"rpcId,omitempty"`
}

func (h *Host) newMessage(kind, rpcID string) *message {
	return &message{
		Content: []block{{"text", "words"}}, Source: source{kind, rpcID}, Role: "user",
		ID: fmt.Sprintf("message-%d", h.number("message")),
	}
}

// inbox holds the messages that wait for a session's agent.
type inbox struct {
	turn []*message // each starts a turn of its own
	step []*message // they enter the running turn at its next step
}

func (b *inbox) list(target string) *[]*message {
	if target == dsh.InboxNextStep {
		return &b.step
	}
	return &b.turn
}

func (b *inbox) empty() bool { return len(b.turn)+len(b.step) == 0 }

// splice is the body of an agent/inbox/spliced event.
type splice struct {
	Target       string     `json:"target"`
	Start        int        `json:"start"`
	RemovedCount int        `json:"removedCount,omitempty"`
	Inserted     []*message `json:"inserted"`
	Outcome      string     `json:"outcome,omitempty"`
}

func (b *inbox) apply(c splice) {
	q := b.list(c.Target)
	if c.Start+c.RemovedCount <= len(*q) { // a log that forgot its end always fits
		*q = slices.Replace(*q, c.Start, c.Start+c.RemovedCount, c.Inserted...)
	}
}

// items is the inbox as session/queue shows it.
func (b *inbox) items() []map[string]any {
	items := []map[string]any{}
	for _, m := range b.turn {
		items = append(items, map[string]any{"id": m.ID, "placement": dsh.PlacementQueued})
	}
	for _, m := range b.step {
		placement := dsh.PlacementContext
		if m.Source.Kind == dsh.SourceUser {
			placement = dsh.PlacementSteering
		}
		items = append(items, map[string]any{"id": m.ID, "placement": placement})
	}
	return items
}

func (h *Host) queueFrame(s *session) dsh.Frame {
	return dsh.Frame{Kind: dsh.FrameQueue, RPCID: "queue", SessionID: s.id,
		Payload: json.RawMessage(fmt.Sprintf(`{"type":"session/queue","sessionId":%q,"items":%s}`, s.id, encode(s.inbox.items())))}
}

// splice changes a session's inbox: the frame of the queue comes first, then the event.
func (h *Host) splice(s *session, c splice) {
	if c.Inserted == nil {
		c.Inserted = []*message{}
	}
	s.inbox.apply(c)
	h.send(h.queueFrame(s))
	h.emit(s, "agent/inbox/spliced", "%s", encode(c))
}

func (h *Host) enqueue(s *session, target string, m *message) {
	h.splice(s, splice{Target: target, Start: len(*s.inbox.list(target)), Inserted: []*message{m}})
}

// deliver hands a message of the host's own to a session: a running turn takes it at its next step, an idle session
// starts one.
func (h *Host) deliver(s *session, m *message) {
	if s.turn != nil {
		h.enqueue(s, dsh.InboxNextStep, m)
		return
	}
	h.enqueue(s, dsh.InboxNextTurn, m)
	h.startTurn(s)
}

// claim takes what the agent takes up now: all that waits for a step and, when a turn begins, the oldest message that
// waits for one.
func (h *Host) claim(s *session, turnBegins bool) []*message {
	taken := slices.Clone(s.inbox.step)
	if len(taken) > 0 {
		h.splice(s, splice{Target: dsh.InboxNextStep, RemovedCount: len(taken)})
	}
	if turnBegins && len(s.inbox.turn) > 0 {
		taken = append(taken, s.inbox.turn[0])
		h.splice(s, splice{Target: dsh.InboxNextTurn, RemovedCount: 1})
	}
	return taken
}
