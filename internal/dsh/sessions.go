package dsh

import (
	"context"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// sessionRef is the payload of the calls that name a session and nothing else.
type sessionRef struct {
	SessionID string `json:"sessionId"`
}

// Sessions implements [Host]. A session whose id or parent id is not a valid one (see [ValidID]) is left out: the
// bridge made neither it nor its parent, and a stranger's odd id must not make every other session unreachable.
func (c *Client) Sessions(ctx context.Context) ([]Session, error) {
	const method = "session.list"
	value, err := c.call(ctx, method, uuid.NewString(), struct{}{})
	if err != nil {
		return nil, err
	}
	sessions, bad := decodeSessions(value)
	return sessions, refusal(method, bad)
}

func decodeSessions(value gjson.Result) (sessions []Session, bad string) {
	if sessions, ok := walkSessions(value.Raw); ok {
		return sessions, ""
	}
	return readSessions(value)
}

// readSessions is decodeSessions without its quick way.
func readSessions(value gjson.Result) (sessions []Session, bad string) {
	root(value, &bad).list("items", func(o object) {
		s := Session{
			ID:              o.text("sessionId"),
			UpdatedAt:       o.millis("updatedAt"),
			Running:         o.flag("running"),
			Blank:           o.flag("blank"),
			ParentSessionID: o.optText("parentSessionId"),
			Origin:          o.optText("origin"),
			Cwd:             o.optText("cwd"),
			AgentPreset:     o.optText("agentPreset"),
			LastSeq:         -1,
		}
		if projections, ok := o.member("projections"); ok {
			if seq, ok := whole(projections.Get("asOfSeq")); ok && seq >= 0 {
				s.LastSeq = seq
			}
			s.Title = stringIn(projections.Get("values.title"))
			s.Goal = decodeGoal(projections.Get("values.goal"))
		}
		if ValidID(s.ID) && (s.ParentSessionID == "" || ValidID(s.ParentSessionID)) {
			sessions = append(sessions, s)
		}
	})
	return sessions, bad
}

// Create implements [Host].
func (c *Client) Create(ctx context.Context, req CreateRequest) (Created, error) {
	const method = "session.create"
	value, err := c.call(ctx, method, uuid.NewString(), req)
	if err != nil {
		return Created{}, err
	}
	var bad string
	o := root(value, &bad)
	created := Created{SessionID: o.id("sessionId"), AgentPreset: o.optText("agentPreset")}
	if bad == "" && req.SessionID != "" && created.SessionID != req.SessionID {
		o.fault("sessionId", "is not the one asked for")
	}
	return created, refusal(method, bad)
}

// Models implements [Host].
func (c *Client) Models(ctx context.Context, sessionID string) (Models, error) {
	const method = "session.models"
	value, err := c.call(ctx, method, uuid.NewString(), sessionRef{sessionID})
	if err != nil {
		return Models{}, err
	}
	var bad string
	o := root(value, &bad)
	current := o.within("current")
	m := Models{
		Provider:        current.text("provider"),
		Model:           current.text("model"),
		ReasoningEffort: current.optText("reasoningEffort"),
		Routable:        o.flag("routable"),
	}
	return m, refusal(method, bad)
}

// Rename implements [Host].
func (c *Client) Rename(ctx context.Context, sessionID, title string) error {
	const method = "session.rename"
	value, err := c.call(ctx, method, uuid.NewString(), struct {
		SessionID string `json:"sessionId"`
		Title     string `json:"title"`
	}{sessionID, title})
	if err != nil {
		return err
	}
	var bad string
	root(value, &bad).integer("seq")
	return refusal(method, bad)
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// Prompt implements [Host]. A text that starts with a slash is a command to the host, if it knows one of that name.
func (c *Client) Prompt(ctx context.Context, req PromptRequest) error {
	const method = "session.prompt"
	if !ValidID(req.RPCID) {
		return &Error{Kind: NotSent, Method: method, Message: "the prompt has no valid rpcId"}
	}
	return c.accepted(ctx, method, req.RPCID, struct {
		SessionID string      `json:"sessionId"`
		Mode      Mode        `json:"mode"`
		Content   []textBlock `json:"content"`
		TimeZone  string      `json:"clientTimeZone,omitempty"`
	}{req.SessionID, req.Mode, []textBlock{{"text", req.Text}}, req.TimeZone})
}

// Cancel implements [Host].
func (c *Client) Cancel(ctx context.Context, sessionID string) error {
	return c.accepted(ctx, "session.cancel", uuid.NewString(), sessionRef{sessionID})
}

// RemoveQueued implements [Host].
func (c *Client) RemoveQueued(ctx context.Context, sessionID, itemID string) error {
	type action struct {
		Kind string `json:"kind"`
	}
	return c.accepted(ctx, "session.updateQueue", uuid.NewString(), struct {
		SessionID string `json:"sessionId"`
		ItemID    string `json:"itemId"`
		Action    action `json:"action"`
	}{sessionID, itemID, action{"remove"}})
}

// accepted makes a call whose whole answer is that it was accepted.
func (c *Client) accepted(ctx context.Context, method, rpcID string, payload any) error {
	value, err := c.call(ctx, method, rpcID, payload)
	if err != nil {
		return err
	}
	var bad string
	if o := root(value, &bad); !o.flag("accepted") {
		o.fault("accepted", "is not true")
	}
	return refusal(method, bad)
}

// Subagents implements [Host]. Children whose log the host cannot read are left out.
func (c *Client) Subagents(ctx context.Context, parentSessionID string) ([]Subagent, error) {
	const method = "subagent.list"
	value, err := c.call(ctx, method, uuid.NewString(), struct {
		ParentSessionID string `json:"parentSessionId"`
	}{parentSessionID})
	if err != nil {
		return nil, err
	}
	children, bad := decodeSubagents(value)
	return children, refusal(method, bad)
}

func decodeSubagents(value gjson.Result) (children []Subagent, bad string) {
	root(value, &bad).list("entries", func(o object) {
		if o.text("kind") != "child" {
			return
		}
		children = append(children, Subagent{
			SessionID: o.id("id"),
			Mode:      o.text("mode"),
			Label:     o.optText("label"),
			Running:   o.text("activity") == "running",
		})
	})
	return children, bad
}
