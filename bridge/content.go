package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// reader reads content from the host's live history for one answer. Pages that were read serve the whole answer and
// are forgotten with it.
type reader struct {
	host     dsh.Host
	task     *mux.Task
	children map[string]mux.Subagent
	pages    map[string][][]dsh.Event // by session, in the order in which they were read; none is empty
}

func (b *Bridge) reader(t *mux.Task, snap mux.Snapshot) *reader {
	r := &reader{host: b.host, task: t, children: map[string]mux.Subagent{}, pages: map[string][][]dsh.Event{}}
	for _, s := range snap.Subagents {
		r.children[s.SessionID] = s
	}
	return r
}

// known returns an event that was read, or false. Where two pages have one of that seq, the later page counts.
func (r *reader) known(session string, seq int64) (dsh.Event, bool) {
	for _, page := range slices.Backward(r.pages[session]) {
		// The seqs of a page ascend by exactly one.
		if at := seq - page[0].Seq; at >= 0 && at < int64(len(page)) {
			return page[at], page[at].Type != dsh.EventChunk
		}
	}
	return dsh.Event{}, false
}

// read yields what was read of a session, page by page, the last one first. Chunks are left out.
func (r *reader) read(session string) iter.Seq[dsh.Event] {
	return func(yield func(dsh.Event) bool) {
		for _, page := range slices.Backward(r.pages[session]) {
			for _, ev := range page {
				if ev.Type != dsh.EventChunk && !yield(ev) {
					return
				}
			}
		}
	}
}

// page reads one page and keeps its events. first is the seq of its oldest event, -1 for an empty page.
func (r *reader) page(ctx context.Context, session string, before int64, messages int) (first int64, more bool, err error) {
	req := dsh.HistoryRequest{SessionID: session, BeforeSeq: before, MaxMessages: messages}
	if child, ok := r.children[session]; ok && child.Mode != "" {
		req.ParentSessionID, req.SubagentMode = child.Parent, child.Mode
	}
	page, err := r.host.History(ctx, req)
	if err != nil || len(page.Events) == 0 {
		return -1, false, err
	}
	r.pages[session] = append(r.pages[session], page.Events)
	return page.Events[0].Seq, page.HasMore, nil
}

// load reads the events of a session from seq low to seq high. messages is how many user and assistant messages are
// known to lie between them.
func (r *reader) load(ctx context.Context, session string, low, high int64, messages int) error {
	before := high + 1
	for {
		// One more, so that the page reaches back over what precedes the first message.
		first, more, err := r.page(ctx, session, before, messages+1)
		if err != nil || first < 0 || first <= low || !more {
			return err
		}
		before = first
	}
}

// event returns one event, or false when the history does not have it.
func (r *reader) event(ctx context.Context, session string, seq int64) (dsh.Event, bool, error) {
	if ev, ok := r.known(session, seq); ok {
		return ev, true, nil
	}
	if _, _, err := r.page(ctx, session, seq+1, 1); err != nil {
		return dsh.Event{}, false, err
	}
	ev, ok := r.known(session, seq)
	return ev, ok, nil
}

// callPages bounds the search for a tool call: an approval is asked for right after its call.
const callPages = 4

// toolCall finds the call that an approval speaks of, from the end of the session's history.
func (r *reader) toolCall(ctx context.Context, session, callID string) (dsh.ToolCall, bool, error) {
	before, messages := int64(0), 2
	for range callPages {
		first, more, err := r.page(ctx, session, before, messages)
		if err != nil {
			return dsh.ToolCall{}, false, err
		}
		for ev := range r.read(session) {
			if ev.Type == "tool/call" {
				if call := dsh.ToolCallOf(ev); call.ID == callID {
					return call, true, nil
				}
			}
		}
		if first < 0 || !more {
			break
		}
		before, messages = first, messages*4
	}
	return dsh.ToolCall{}, false, nil
}

// message is a text of the conversation in an answer, with the pointer to it.
type message struct {
	Text      string `json:"text"`
	SessionID string `json:"sessionId,omitempty"` // left out when it is the task's own session
	Seq       int64  `json:"seq"`
	Chars     int    `json:"chars,omitempty"` // the full length, when the text was cut
}

// failure says why a turn failed.
type failure struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
	Status  int    `json:"status,omitempty"`
}

// Values of finalMessageStatus.
const (
	finalAvailable    = "available"
	finalNotAvailable = "not_available"          // the turn runs, or there was none
	finalMissing      = "terminal_missing_final" // the turn ended without a message that has text
)

// finalStatus says what is to be known of the final message without reading it.
func finalStatus(snap mux.Snapshot) string {
	switch {
	case !snap.Turn.Ended:
		return finalNotAvailable
	case snap.Final < 0:
		return finalMissing
	}
	return finalAvailable
}

// outcome reads how the root's last turn came out: its final message, and why it failed.
func (r *reader) outcome(ctx context.Context, snap mux.Snapshot, limit int) (*message, *failure, error) {
	if !snap.Turn.Ended {
		return nil, nil, nil
	}
	var final *message
	if snap.Final >= 0 {
		ev, ok, err := r.event(ctx, r.task.Root, snap.Final)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			final = &message{Seq: snap.Final}
			final.Text, final.Chars = shorten(dsh.AssistantMessageOf(ev).Text, limit)
		}
	}
	if reason := snap.Turn.Reason; (reason != ledger.ReasonError && reason != ledger.ReasonOther) || snap.Turn.EndSeq == 0 {
		return final, nil, nil
	}
	ev, ok, err := r.event(ctx, r.task.Root, snap.Turn.EndSeq)
	if err != nil || !ok {
		return final, nil, err
	}
	return final, failureOf(ev), nil
}

func failureOf(ev dsh.Event) *failure {
	end := dsh.TurnEndOf(ev)
	text, _ := shorten(end.ErrorMessage, maxFailure)
	if text == "" {
		text = "the turn ended with " + end.Kind
	}
	return &failure{Message: text, Code: end.ErrorCode, Status: end.ErrorStatus}
}

// pendingRequest is a request that waits for an answer, as a caller sees it.
type pendingRequest struct {
	RequestID string `json:"requestId"`
	Type      string `json:"type"`                // question or approval
	SessionID string `json:"sessionId,omitempty"` // left out when it is the task's own session
	AgeSec    int64  `json:"ageSec"`

	Questions []dsh.Question `json:"questions,omitempty"`

	ToolName string `json:"toolName,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Command is what the tool would run: the command of a shell tool, else the arguments as JSON.
	Command string `json:"command,omitempty"`
	// Answer is "unknown" when an answer went out and no receipt came back; the host will tell.
	Answer string `json:"answer,omitempty"`
	// Unavailable says what of the request could not be read, and why.
	Unavailable string `json:"unavailable,omitempty"`
}

// pending shows the requests of a snapshot whole; commands are read from live history. While the host is away it shows
// only that they are there.
func (b *Bridge) pending(ctx context.Context, r *reader, snap mux.Snapshot) []pendingRequest {
	var list []pendingRequest
	for _, req := range snap.Requests {
		p := pendingRequest{RequestID: req.ID, Type: typeQuestion, AgeSec: max(0, int64(b.now().Sub(req.Since).Seconds()))}
		if req.SessionID != r.task.Root {
			p.SessionID = req.SessionID
		}
		if req.IsApproval {
			p.Type = typeApproval
		}
		if req.Unsure {
			p.Answer = "unknown"
		}
		switch {
		case snap.Availability != mux.Connected:
			p.Unavailable = "the host is away"
		case req.Questions != nil:
			p.Questions = req.Questions
		case req.Approval != nil:
			p.ToolName, p.Reason = req.Approval.ToolName, req.Approval.Reason
			call, found, err := r.toolCall(ctx, req.SessionID, req.Approval.CallID)
			switch {
			case err != nil:
				p.Unavailable = "the command: " + asError(err, b.hostURL).Message
			case !found:
				p.Unavailable = "the command: its tool call is not in the history"
			default:
				p.Command = commandOf(call)
			}
		default:
			p.Unavailable = "the request: the host has not brought it on this connection"
		}
		list = append(list, p)
	}
	return list
}

// commandOf is what a person has to read before allowing a call: the whole of its arguments, a lone command bare.
func commandOf(call dsh.ToolCall) string {
	var args map[string]json.RawMessage
	if json.Unmarshal([]byte(call.Arguments), &args) != nil {
		return call.Arguments
	}
	var command string
	if raw, ok := args["command"]; ok && json.Unmarshal(raw, &command) == nil && command != "" {
		for name := range args {
			switch name {
			case "command", "description", "justification", "sandbox_permissions":
			default:
				return call.Arguments // more than the command decides what happens
			}
		}
		return command
	}
	return call.Arguments
}

// unavailable says in one line why content cannot be shown.
func (b *Bridge) unavailable(err error) string {
	e := asError(err, b.hostURL)
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// away says why the host cannot be asked about a task; err is what the attempt to ask gave.
func (b *Bridge) away(snap mux.Snapshot, err error) string {
	if snap.Availability == mux.SessionNotFound {
		err = &dsh.Error{Kind: dsh.Refused, Code: dsh.CodeSessionNotFound}
	} else if err == nil {
		err = b.mux.Err()
	}
	if err == nil { // the connection came back in between
		err = &dsh.Error{Kind: dsh.OutcomeUnknown, Method: dsh.MethodEvents}
	}
	return b.unavailable(err)
}
