package sim

import (
	"fmt"
	"slices"

	"dsh-agentlink/internal/dsh"
)

// The unary calls of the host. Each runs with the host's lock held and while the host lives.

func refused(method, code string) error {
	return &dsh.Error{Kind: dsh.Refused, Method: method, Code: code, Message: "words"}
}

// find finds a session by its id.
func (h *Host) find(method, id string) (*session, error) {
	if s := h.sessions[id]; s != nil {
		return s, nil
	}
	return nil, refused(method, dsh.CodeSessionNotFound)
}

// list shows every session, the newest first. A cold one is known only as it was when a turn of it last ended.
func (h *Host) list() []dsh.Session {
	rows := make([]dsh.Session, 0, len(h.order))
	for _, s := range slices.Backward(h.order) {
		row := dsh.Session{
			ID: s.id, UpdatedAt: max(s.created, s.prompted), Running: s.turn != nil, Blank: s.turns == 0,
			ParentSessionID: s.parent, Origin: s.origin, Cwd: cwd, LastSeq: s.saved,
		}
		if s.attached {
			row.LastSeq = s.last()
		}
		rows = append(rows, row)
	}
	return rows
}

// cwd is where all sessions work.
const cwd = "/home/dev/project"

// create makes a session, or finds the one that was made before.
func (h *Host) create(id string) {
	if s := h.sessions[id]; s != nil {
		h.attach(s)
		return
	}
	s := h.newSession(id)
	h.emit(s, "permission/preset", "{}")
	h.emit(s, "sandbox/mode", "{}")
	h.emit(s, "approval/policy", "{}")
	s.flush()
	h.attach(s)
}

// prompt hands a message to a session's agent.
func (h *Host) prompt(req dsh.PromptRequest) error {
	const method = "session.prompt"
	s, err := h.find(method, req.SessionID)
	if err != nil {
		return err
	}
	if s.subagent() {
		return refused(method, dsh.CodeAgentBusy)
	}
	h.attach(s)
	target := dsh.InboxNextTurn
	if req.Mode == dsh.ModeSteer {
		target = dsh.InboxNextStep
	}
	h.enqueue(s, target, h.newMessage(dsh.SourceUser, req.RPCID))
	if h.echo {
		h.enqueue(s, target, h.newMessage(dsh.SourceUser, req.RPCID))
	}
	h.startTurn(s)
	return nil
}

// cancel stops the turn that runs, if one does.
func (h *Host) cancel(id string) error {
	const method = "session.cancel"
	s, err := h.find(method, id)
	if err != nil {
		return err
	}
	if !s.attached {
		return refused(method, dsh.CodeSessionNotFound)
	}
	if s.turn != nil {
		s.turn.cancel(errUser)
	}
	return nil
}

// remove takes a message out of the inbox.
func (h *Host) remove(id, item string) error {
	if s := h.sessions[id]; s != nil {
		for _, target := range []string{dsh.InboxNextTurn, dsh.InboxNextStep} {
			i := slices.IndexFunc(*s.inbox.list(target), func(m *message) bool { return m.ID == item })
			if i >= 0 {
				h.splice(s, splice{Target: target, Start: i, RemovedCount: 1, Outcome: "canceled"})
				return nil
			}
		}
	}
	return refused("session.updateQueue", dsh.CodeQueueItemNotFound)
}

// models makes the session live, as every look at what it runs on does.
func (h *Host) models(id string) error {
	s, err := h.find("session.models", id)
	if err == nil {
		h.attach(s)
	}
	return err
}

// rename gives a session a title.
func (h *Host) rename(id string) error {
	s, err := h.find("session.rename", id)
	if err != nil {
		return err
	}
	h.attach(s)
	s.titled, s.titling = true, false
	h.emit(s, "session/title", `{"title":"words"}`)
	return nil
}

// fork makes a session that goes on from the end of another's last turn.
func (h *Host) fork(id string) {
	s := h.sessions[id]
	end := 0
	for i, e := range s.log {
		if e.kind == "turn/end" {
			end = i + 1
		}
	}
	if end == 0 {
		return
	}
	f := h.newSession(fmt.Sprintf("fork-%d-of-%s", h.number("fork"), id))
	f.parent, f.log, f.turns, f.greeted, f.titled = s.id, slices.Clone(s.log[:end]), s.turns, true, true
	f.cold = true
	h.attach(f)
	f.flush()
}

// history is one page of a session's log: the last messages before a seq, none of them in part.
func (h *Host) history(req dsh.HistoryRequest) (dsh.HistoryPage, error) {
	const method = "session.history"
	s, err := h.find(method, req.SessionID)
	if err != nil {
		return dsh.HistoryPage{}, err
	}
	if req.ParentSessionID != "" && (s.parent != req.ParentSessionID || s.mode != req.SubagentMode) {
		return dsh.HistoryPage{}, refused("subagent.history", "subagent-not-found")
	}
	s.repair()
	log := s.log
	if req.BeforeSeq > 0 && req.BeforeSeq < int64(len(log)) {
		log = log[:req.BeforeSeq]
	}
	from := int64(0)
	messages := req.MaxMessages
	if messages == 0 {
		messages = 50
	}
	for i := len(log) - 1; i >= 0; i-- {
		if kind := log[i].kind; kind != "user/message" && kind != "assistant/message" {
			continue
		}
		if messages--; messages == 0 {
			from = log[i].first
			break
		}
	}
	if h.maxPage > 0 && len(log)-int(from) > h.maxPage && req.MaxMessages > 1 {
		return dsh.HistoryPage{}, &dsh.Error{Kind: dsh.TooLarge, Method: method}
	}
	page := dsh.HistoryPage{HasMore: from > 0, Events: make([]dsh.Event, 0, len(log)-int(from))}
	for _, e := range log[from:] {
		if h.twisted != nil {
			e = h.twisted(e)
		}
		page.Events = append(page.Events, e.wire())
	}
	return page, nil
}

// subagents lists the children of a session.
func (h *Host) subagents(parent string) []dsh.Subagent {
	var children []dsh.Subagent
	for _, s := range h.order {
		if s.parent == parent && s.subagent() {
			children = append(children, dsh.Subagent{SessionID: s.id, Mode: s.mode, Running: s.turn != nil})
		}
	}
	return children
}

// respond takes an answer to a question or an approval.
func (h *Host) respond(a dsh.Answer) dsh.Receipt {
	i := slices.IndexFunc(h.life.pending, func(r *request) bool { return r.id == a.RPCID })
	if i < 0 {
		return dsh.Receipt{Reason: dsh.ReasonNotPending}
	}
	r := h.life.pending[i]
	outcome := ""
	switch {
	case a.SessionID != r.session.id || (r.approval != "") != (a.Approval != nil):
	case a.Approval != nil && a.Approval.ApprovalID == r.approval:
		outcome = map[bool]string{true: "allowed-once", false: "rejected"}[a.Approval.Allow]
	case a.Cancel:
		outcome = "cancelled"
	case len(a.Questions) == 1:
		outcome = "answered"
	}
	if outcome == "" {
		return dsh.Receipt{Reason: dsh.ReasonBadResponse}
	}
	h.take(r, outcome)
	r.reply <- outcome
	return dsh.Receipt{Accepted: true}
}
