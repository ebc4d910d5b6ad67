package bridge

import (
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// limits bound the texts of a digest, in bytes.
type limits struct {
	message int // what a person or an agent said
	host    int // what the host's plugins said to the agent
	args    int // a tool call's arguments
	result  int // a tool's output
}

// textLimits keep what was said whole and what tools printed short: a supervisor judges by the words, and follows the
// pointer for the rest.
var textLimits = limits{message: 1 << 20, host: 160, args: 400, result: 400}

// within shrinks the limits so that one event fits into max bytes. JSON can take up to six bytes for one of the text.
func (l limits) within(max int) limits {
	most := max / 8
	return limits{message: min(l.message, most), host: min(l.host, most), args: min(l.args, most), result: min(l.result, most)}
}

// worthShowing leaves out what tells a supervisor nothing, or what another record tells better.
func worthShowing(r *ledger.Record) bool {
	switch r.Type {
	case ledger.TypeEvent:
		switch r.Coordination.Event {
		case "assistant/message":
			return r.Coordination.Text // one that only calls tools is followed by the calls
		case "turn/start", "turn/end", "user/message", "tool/call", "tool/result",
			"approval/asked", "approval/decided", "subagent/descriptor", "goal/change":
			return true
		}
		return false
	case ledger.TypeQueue, ledger.TypeApprovalResolved:
		return false // dsh_status has the queue; the decision is an event of the session
	case ledger.TypePromptIssued, ledger.TypeWriteIssued:
		return r.Coordination.Outcome == ledger.PromptUnknown || r.Coordination.Outcome == ledger.PromptRefused
	}
	return true
}

// digest is one event of a tail.
type digest struct {
	Cursor    int64  `json:"cursor"`
	At        string `json:"at"`
	Type      string `json:"type"`
	SessionID string `json:"sessionId,omitempty"` // left out when it is the task's own session
	Seq       *int64 `json:"seq,omitempty"`

	Turn int `json:"turn,omitempty"`
	// From says who wrote a user message: bridge (this home), person, agent (to its subagent), goal, or plugin:NAME.
	From  string `json:"from,omitempty"`
	Text  string `json:"text,omitempty"`
	Chars int    `json:"chars,omitempty"` // the full length of a text that was cut
	// Interrupted is set on a message that was cut off.
	Interrupted bool `json:"interrupted,omitempty"`

	CallID  string `json:"callId,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Args    string `json:"args,omitempty"`
	IsError bool   `json:"isError,omitempty"`

	Reason     string            `json:"reason,omitempty"`
	Failure    *failure          `json:"failure,omitempty"`
	RequestID  string            `json:"requestId,omitempty"`
	ApprovalID string            `json:"approvalId,omitempty"`
	Outcome    string            `json:"outcome,omitempty"`
	Mode       string            `json:"mode,omitempty"`
	Label      string            `json:"label,omitempty"`
	Goal       *goalDigest       `json:"goal,omitempty"`
	Jobs       []ledger.JobState `json:"jobs,omitempty"`
	FromSeq    *int64            `json:"fromSeq,omitempty"`
	ToSeq      *int64            `json:"toSeq,omitempty"`
}

type goalDigest struct {
	Operation string `json:"operation"`
	Phase     string `json:"phase,omitempty"`
	Revision  int64  `json:"revision,omitempty"`
	Objective string `json:"objective,omitempty"`
	Blocked   string `json:"blocked,omitempty"`
}

func (r *reader) digest(rec *ledger.Record, lim limits) *digest {
	c := &rec.Coordination
	at := c.Time
	if at == 0 {
		at = rec.ObservedAt
	}
	d := &digest{Cursor: rec.Cursor, At: stamp(at), Type: string(rec.Type), Seq: rec.SourceSeq}
	if rec.SourceSessionID != r.task.Root {
		d.SessionID = rec.SourceSessionID
	}
	if rec.Type == ledger.TypeEvent {
		d.Type = c.Event
		ev, ok := r.known(rec.SourceSessionID, *rec.SourceSeq)
		d.event(rec, ev, ok, lim)
		return d
	}
	d.RequestID, d.ApprovalID, d.Outcome, d.Mode, d.Jobs = c.RequestID, c.ApprovalID, c.Outcome, c.Mode, c.Jobs
	if rec.Type == ledger.TypeGap {
		d.FromSeq, d.ToSeq = &c.From, &c.To
	}
	return d
}

// event fills in what an event says. Without its content only what the ledger holds of it is left.
func (d *digest) event(rec *ledger.Record, ev dsh.Event, content bool, lim limits) {
	c := &rec.Coordination
	switch c.Event {
	case "turn/start":
		d.Turn = c.Turn
	case "turn/end":
		d.Turn, d.Reason = c.Turn, c.Reason
		if content && (c.Reason == ledger.ReasonError || c.Reason == ledger.ReasonOther) {
			d.Failure = failureOf(ev)
		}
	case "approval/asked", "approval/decided":
		d.ApprovalID, d.Outcome = c.ApprovalID, c.Outcome
	case "subagent/descriptor":
		d.Mode = c.Mode
	case "user/message":
		d.From = author(rec, "")
	}
	if !content {
		return
	}
	switch c.Event {
	case "user/message":
		m := dsh.UserMessageOf(ev)
		d.From = author(rec, m.Plugin)
		limit := lim.message
		if c.SourceKind != "user" {
			limit = lim.host
			if m.Summary != "" {
				m.Text = m.Summary
			}
		}
		d.Text, d.Chars = shorten(m.Text, limit)
	case "assistant/message":
		m := dsh.AssistantMessageOf(ev)
		d.Text, d.Chars = shorten(m.Text, lim.message)
		d.Interrupted = m.Interrupted
	case "tool/call":
		call := dsh.ToolCallOf(ev)
		d.CallID, d.Tool = call.ID, call.Name
		d.Args, d.Chars = shorten(call.Arguments, lim.args)
	case "tool/result":
		result := dsh.ToolResultOf(ev)
		d.CallID, d.IsError = result.CallID, result.IsError
		d.Text, d.Chars = shorten(result.Text, lim.result)
	case "approval/asked":
		asked := dsh.ApprovalAskedOf(ev)
		d.CallID, d.Tool = asked.CallID, asked.ToolName
		d.Reason, _ = shorten(asked.Reason, lim.args)
	case "subagent/descriptor":
		d.Label, _ = shorten(dsh.SubagentDescriptorOf(ev).Label, lim.host)
	case "goal/change":
		g := dsh.GoalChangeOf(ev)
		d.Goal = &goalDigest{Operation: g.Operation, Phase: g.Goal.Phase, Revision: g.Goal.Ref.Revision}
		d.Goal.Objective, _ = shorten(g.Goal.Objective, lim.host)
		d.Goal.Blocked, _ = shorten(g.Goal.Reason, lim.host)
	}
}

// author tells whose words a user message holds: only those of "person" and "bridge" come from outside the host.
func author(rec *ledger.Record, plugin string) string {
	c := &rec.Coordination
	switch {
	case c.Bridge:
		return "bridge"
	case c.SourceKind == "user" && rec.Origin == ledger.OriginSubagent && c.RequestID == "":
		return "agent" // the one that started the subagent
	case c.SourceKind == "user":
		return "person"
	case c.SourceKind == "plugin" && plugin != "":
		return "plugin:" + plugin
	}
	return c.SourceKind
}
