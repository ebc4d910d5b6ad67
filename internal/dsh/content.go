package dsh

import (
	"strings"

	"github.com/tidwall/gjson"
)

// The functions of this file read the body of one kind of event each. They are for showing an event and for taking
// from it what may be recorded. They never fail: what a body lacks, or holds in another shape, is the zero value, since
// an event of a newer host is better shown in part than not at all. Which of them fits is the event's Type.
//
// Fields named ID or RPCID pass [ValidID] or are empty. The ids of tool calls are the model provider's and can be any
// string. Everything else is content.

// TurnBody is the body of turn/start, and of step/start and step/end.
type TurnBody struct {
	Turn int // from 1
	Step int // from 1; 0 for turn/start
}

// TurnOf reads turn/start, step/start or step/end; it fits all events that name their turn.
func TurnOf(e Event) TurnBody {
	b := body(e)
	return TurnBody{Turn: intIn(b.Get("turn")), Step: intIn(b.Get("step"))}
}

// Kinds of the end of a turn. A host can have others ("blocked", "max-tokens").
const (
	TurnCompleted   = "completed"
	TurnAborted     = "aborted"
	TurnError       = "error"
	TurnInterrupted = "interrupted" // the host died inside the turn
)

// TurnEnd is the body of turn/end.
type TurnEnd struct {
	Turn  int
	Kind  string // one of the Turn constants, or as sent
	Cause string // who aborted it ("user", "parent", …); empty unless Kind is TurnAborted
	// The failure of a TurnError: the message, the host's code ("INVALID_REQUEST") and the provider's HTTP status, 0
	// when there was none.
	ErrorMessage string
	ErrorCode    string
	ErrorStatus  int
}

// TurnEndOf reads turn/end.
func TurnEndOf(e Event) TurnEnd {
	b := body(e)
	reason := b.Get("reason")
	return TurnEnd{
		Turn:         intIn(b.Get("turn")),
		Kind:         stringIn(reason.Get("kind")),
		Cause:        stringIn(reason.Get("reason.kind")),
		ErrorMessage: stringIn(reason.Get("error.message")),
		ErrorCode:    stringIn(reason.Get("error.code")),
		ErrorStatus:  intIn(reason.Get("error.status")),
	}
}

// ToolCall is one call of a tool by the model.
type ToolCall struct {
	ID        string // the provider's, see above
	Name      string
	Arguments string // JSON, as the model wrote it
}

// AssistantMessage is the body of assistant/message.
type AssistantMessage struct {
	Turn, Step int
	Text       string // its text blocks, joined; empty when it only calls tools
	ToolCalls  []ToolCall
	// Interrupted says that it was cut off by a cancel.
	Interrupted bool
}

// AssistantMessageOf reads assistant/message. Reasoning is left out.
func AssistantMessageOf(e Event) AssistantMessage {
	b := body(e)
	content := b.Get("message.content")
	m := AssistantMessage{
		Turn:        intIn(b.Get("turn")),
		Step:        intIn(b.Get("step")),
		Text:        textBlocks(content),
		Interrupted: b.Get("interrupted").Type == gjson.True,
	}
	for block := range elements(content) {
		if block.Get("type").Str == "tool-call" {
			m.ToolCalls = append(m.ToolCalls, ToolCall{
				ID:        stringIn(block.Get("id")),
				Name:      stringIn(block.Get("name")),
				Arguments: stringIn(block.Get("arguments")),
			})
		}
	}
	return m
}

// Kinds of the source of a user message. Only the first one is a person's words; the others are context that the host
// or an agent puts in.
const (
	SourceUser   = "user"
	SourcePlugin = "plugin"
	SourceGoal   = "goal"
)

// UserMessage is the body of user/message.
type UserMessage struct {
	ID         string
	Text       string // its text blocks, joined
	SourceKind string // one of the Source constants, or as sent
	RPCID      string // the call that brought it; empty for what no prompt of this wire brought
	Plugin     string // SourcePlugin: the name of the plugin
	Summary    string // one line by the plugin of what happened, when it gives one
	// Goal and Round tell which round of which goal a message begins; Round is 0 for any other.
	Goal  GoalRef
	Round int
}

// UserMessageOf reads user/message.
func UserMessageOf(e Event) UserMessage {
	b := body(e)
	source := b.Get("source")
	m := UserMessage{
		ID:         idIn(b.Get("id")),
		Text:       textBlocks(b.Get("content")),
		SourceKind: stringIn(source.Get("kind")),
		RPCID:      idIn(source.Get("rpcId")),
		Plugin:     stringIn(source.Get("plugin")),
		Summary:    stringIn(source.Get("summary")),
	}
	if m.SourceKind == SourceGoal {
		m.Goal = GoalRef{ID: idIn(source.Get("goalId")), Revision: int64(intIn(source.Get("revision")))}
		m.Round = intIn(source.Get("round"))
	}
	return m
}

// ToolCallOf reads tool/call.
func ToolCallOf(e Event) ToolCall {
	b := body(e)
	return ToolCall{
		ID:        stringIn(b.Get("callId")),
		Name:      stringIn(b.Get("name")),
		Arguments: stringIn(b.Get("arguments")),
	}
}

// ToolResult is the body of tool/result.
type ToolResult struct {
	CallID  string // the ID of the tool call
	Text    string // its text blocks, joined
	IsError bool
}

// ToolResultOf reads tool/result, whose text is two contents deep.
func ToolResultOf(e Event) ToolResult {
	message := body(e).Get("message")
	r := ToolResult{CallID: stringIn(message.Get("source.callId"))}
	var text strings.Builder
	for block := range elements(message.Get("content")) {
		text.WriteString(textBlocks(block.Get("content")))
		r.IsError = r.IsError || block.Get("isError").Type == gjson.True
		if r.CallID == "" {
			r.CallID = stringIn(block.Get("toolCallId"))
		}
	}
	r.Text = text.String()
	return r
}

// Lists of an agent's inbox.
const (
	InboxNextTurn = "next-turn"
	InboxNextStep = "next-step"
)

// Inbox is the body of agent/inbox/spliced: Removed messages are taken out of the list Target at Start, and Inserted
// put in their place.
type Inbox struct {
	Target   string // one of the Inbox constants, or as sent
	Start    int
	Removed  int
	Canceled bool // the removed messages were dropped, not taken up
	Inserted []InboxItem
}

// InboxItem is one message that was put into an inbox.
type InboxItem struct {
	ID         string // the queue item, and the later user message
	RPCID      string // the call that brought it; empty for what no prompt of this wire brought
	SourceKind string // as in UserMessage
}

// InboxOf reads agent/inbox/spliced.
func InboxOf(e Event) Inbox {
	b := body(e)
	inbox := Inbox{
		Target:   stringIn(b.Get("target")),
		Start:    intIn(b.Get("start")),
		Removed:  intIn(b.Get("removedCount")),
		Canceled: stringIn(b.Get("outcome")) == "canceled",
	}
	for item := range elements(b.Get("inserted")) {
		inbox.Inserted = append(inbox.Inserted, InboxItem{
			ID:         idIn(item.Get("id")),
			RPCID:      idIn(item.Get("source.rpcId")),
			SourceKind: stringIn(item.Get("source.kind")),
		})
	}
	return inbox
}

// ApprovalAskedOf reads approval/asked.
func ApprovalAskedOf(e Event) Approval {
	b := body(e)
	return Approval{
		ApprovalID: idIn(b.Get("id")),
		ToolName:   stringIn(b.Get("toolName")),
		CallID:     stringIn(b.Get("callId")),
		Reason:     stringIn(b.Get("reason")),
	}
}

// ApprovalDecidedOf reads approval/decided.
func ApprovalDecidedOf(e Event) Resolution {
	b := body(e)
	return Resolution{ApprovalID: idIn(b.Get("id")), Outcome: stringIn(b.Get("outcome"))}
}

// TitleOf reads session/title.
func TitleOf(e Event) string { return stringIn(body(e).Get("title")) }

// SubagentDescriptor is the body of subagent/descriptor.
type SubagentDescriptor struct {
	Mode  string // "one-shot" or "continuable"
	Label string
}

// SubagentDescriptorOf reads subagent/descriptor, which is in the child's own history.
func SubagentDescriptorOf(e Event) SubagentDescriptor {
	b := body(e)
	return SubagentDescriptor{Mode: stringIn(b.Get("mode")), Label: stringIn(b.Get("label"))}
}
