package mux

import (
	"cmp"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// vocabulary keeps a host's word only when it is one of the known ones: words of the host are open-ended, and a
// sentence in place of a word must not reach the disk.
func vocabulary(word string, known ...string) string {
	if word == "" {
		return ""
	}
	for _, k := range known {
		if word == k {
			return word
		}
	}
	return "other"
}

// eventName is an event's wire type as it is recorded.
func eventName(wireType string) string {
	if !ledger.IsWord(wireType) {
		return "other"
	}
	return wireType
}

// scrub keeps of an event what coordination needs. The text of the event stays behind.
func scrub(ev dsh.Event, from int64, s source) ledger.Entry {
	entry := ledger.Entry{From: from, Record: ledger.Record{
		SourceSessionID: s.id,
		SourceSeq:       new(ev.Seq),
		ParentSessionID: s.parent,
		Origin:          s.origin,
		Type:            ledger.TypeEvent,
		Coordination:    ledger.Coordination{Event: eventName(ev.Type), Time: ev.Time},
	}}
	c := &entry.Coordination
	switch ev.Type {
	case "turn/start", "step/start", "step/end", "tool/call", "tool/result":
		body := dsh.TurnOf(ev)
		c.Turn, c.Step = body.Turn, body.Step
	case "turn/end":
		c.Turn, c.Reason = dsh.TurnEndOf(ev).Turn, endReason(ev)
	case "assistant/message":
		m := dsh.AssistantMessageOf(ev)
		c.Turn, c.Step, c.Text = m.Turn, m.Step, m.Text != ""
	case "user/message":
		m := dsh.UserMessageOf(ev)
		c.SourceKind, c.RequestID = vocabulary(m.SourceKind, "user", "plugin", "goal"), id(m.RPCID)
		if goal := id(m.Goal.ID); goal != "" && m.Round > 0 {
			c.Goal = &ledger.GoalChange{ID: goal, Revision: m.Goal.Revision, Operation: ledger.GoalRound, Rounds: m.Round}
		}
	case "agent/inbox/spliced":
		in := dsh.InboxOf(ev)
		c.Inbox = &ledger.InboxChange{Target: vocabulary(in.Target, "next-turn", "next-step"), Start: in.Start, Removed: in.Removed}
		for _, item := range in.Inserted {
			c.Inbox.Inserted = append(c.Inbox.Inserted, ledger.InboxItem{ID: id(item.ID), RequestID: id(item.RPCID)})
		}
		if in.Canceled {
			c.Outcome = "canceled"
		}
	case "approval/asked":
		c.ApprovalID = id(dsh.ApprovalAskedOf(ev).ApprovalID)
	case "approval/decided":
		r := dsh.ApprovalDecidedOf(ev)
		c.ApprovalID, c.Outcome = id(r.ApprovalID), outcome(r.Outcome)
	case dsh.EventGoal:
		c.Goal = goalChange(dsh.GoalChangeOf(ev))
	case "subagent/descriptor":
		c.Mode = vocabulary(dsh.SubagentDescriptorOf(ev).Mode, "one-shot", "continuable")
	}
	return entry
}

// goalChange keeps of a change of a goal what coordination needs; nil when the goal has no id that a record can name.
// The objective and the words of a reason stay behind.
func goalChange(change dsh.GoalChange) *ledger.GoalChange {
	g := change.Goal
	if id(g.Ref.ID) == "" {
		return nil
	}
	return &ledger.GoalChange{ID: g.Ref.ID, Revision: g.Ref.Revision,
		Operation: vocabulary(change.Operation, "create", "edit", "pause", "resume", "complete", "block", "clear"),
		Phase:     vocabulary(g.Phase, dsh.GoalActive, dsh.GoalPaused, dsh.GoalBlocked, dsh.GoalComplete),
		Rounds:    g.Rounds, MaxRounds: g.MaxRounds}
}

// endReason is how a turn ended, as it is recorded.
func endReason(ev dsh.Event) string {
	kind := dsh.TurnEndOf(ev).Kind
	return cmp.Or(vocabulary(kind, dsh.TurnCompleted, dsh.TurnAborted, dsh.TurnError, dsh.TurnInterrupted), ledger.ReasonOther)
}

// outcome keeps the known outcomes of a question or an approval.
func outcome(word string) string {
	return vocabulary(word, "answered", "cancelled", "allowed-once", "rejected", "unavailable")
}

// id keeps an id of the host's, or nothing when it does not have the form of one.
func id(s string) string {
	if !ledger.IsWord(s) {
		return ""
	}
	return s
}

// record is an entry of another type than an event.
func record(t ledger.Type, s source, c ledger.Coordination) ledger.Entry {
	return ledger.Entry{Record: ledger.Record{SourceSessionID: s.id, ParentSessionID: s.parent, Origin: s.origin, Type: t, Coordination: c}}
}
