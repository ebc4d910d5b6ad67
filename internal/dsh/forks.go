package dsh

import (
	"context"

	"github.com/google/uuid"
)

// SubagentPrompt hands text to a continuable subagent.
type SubagentPrompt struct {
	// RPCID is the id of the call, chosen by the caller: it is how the message is found again in the history.
	RPCID           string
	ParentSessionID string
	SessionID       string
	Text            string
}

// subagentRef addresses a continuable subagent.
type subagentRef struct {
	ParentSessionID string `json:"parentSessionId"`
	ChildSessionID  string `json:"childSessionId"`
	Mode            string `json:"mode"`
}

// SubagentContinuable is the Mode of a subagent that takes further messages.
const SubagentContinuable = "continuable"

// PromptSubagent implements [Host].
func (c *Client) PromptSubagent(ctx context.Context, req SubagentPrompt) error {
	const method = "subagent.prompt"
	if !ValidID(req.RPCID) {
		return &Error{Kind: NotSent, Method: method, Message: "the prompt has no valid rpcId"}
	}
	value, err := c.call(ctx, method, req.RPCID, struct {
		subagentRef
		Content []textBlock `json:"content"`
	}{subagentRef{req.ParentSessionID, req.SessionID, SubagentContinuable}, []textBlock{{"text", req.Text}}})
	if err != nil {
		return err
	}
	var bad string
	root(value, &bad).text("messageId")
	return refusal(method, bad)
}

// InterruptSubagent implements [Host].
func (c *Client) InterruptSubagent(ctx context.Context, parentSessionID, sessionID string) error {
	return c.accepted(ctx, "subagent.interrupt", uuid.NewString(), subagentRef{parentSessionID, sessionID, SubagentContinuable})
}

// Fork implements [Host].
func (c *Client) Fork(ctx context.Context, sessionID string, atSeq int64) (newSessionID string, err error) {
	const method = "session.fork"
	payload := struct {
		SessionID string `json:"sessionId"`
		AtSeq     *int64 `json:"atSeq,omitempty"`
	}{SessionID: sessionID}
	if atSeq >= 0 {
		payload.AtSeq = &atSeq
	}
	value, err := c.call(ctx, method, uuid.NewString(), payload)
	if err != nil {
		return "", err
	}
	var bad string
	id := root(value, &bad).id("sessionId")
	return id, refusal(method, bad)
}
