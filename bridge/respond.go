package bridge

import (
	"context"
	"fmt"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// Types of pending requests.
const (
	typeQuestion = "question"
	typeApproval = "approval"
)

type respondAnswer struct {
	TaskID    string           `json:"taskId"`
	RequestID string           `json:"requestId"`
	Accepted  bool             `json:"accepted"`
	Outcome   string           `json:"outcome"`
	Execution ledger.Execution `json:"execution"`
	Cursor    int64            `json:"cursor"`
}

// pendingOf finds a pending request of a task and refuses what is not one: of another type, of another task, or no
// longer pending.
func (b *Bridge) pendingOf(t *mux.Task, snap mux.Snapshot, requestID, wanted string) (mux.Request, error) {
	for _, r := range snap.Requests {
		if r.ID != requestID {
			continue
		}
		kind := typeQuestion
		if r.IsApproval {
			kind = typeApproval
		}
		if kind != wanted {
			tool := map[string]string{typeQuestion: "dsh_answer_question", typeApproval: "dsh_resolve_approval"}[kind]
			return r, &Error{Code: CodeWrongType, Message: fmt.Sprintf("request %s is a %s", requestID, kind), Hint: "Use " + tool + " for it."}
		}
		if r.Questions == nil && r.Approval == nil {
			return r, &Error{Code: CodeNotPending, Message: fmt.Sprintf("the host has not brought request %s on this connection, so what it says is not known", requestID),
				Hint: "Call dsh_status: it is either shown whole, or has been withdrawn."}
		}
		return r, nil
	}
	if other := b.mux.Holder(requestID); other != "" && other != t.ID {
		return mux.Request{}, (&Error{Code: CodeWrongTask, Message: fmt.Sprintf("request %s belongs to task %s", requestID, other), Hint: "Pass that taskId."}).with("taskId", other)
	}
	return mux.Request{}, b.notPending(t, requestID)
}

// notPending explains that a request is not pending any more, as far as that is known.
func (b *Bridge) notPending(t *mux.Task, requestID string) *Error {
	what := "it was answered, cancelled, withdrawn with the host, or never was"
	if closed, known, err := t.ClosedRequest(requestID); err == nil && known {
		switch {
		case closed.Withdrawn:
			what = "it was withdrawn: the host no longer asks"
		case closed.Outcome != "":
			what = "it came out as " + closed.Outcome
		}
	}
	return &Error{Code: CodeNotPending, Message: fmt.Sprintf("request %s is not pending: %s; nothing was changed", requestID, what),
		Hint: "dsh_status shows what is pending now, dsh_tail what happened."}
}

// respond sends one answer, once, and says what became of it.
func (b *Bridge) respond(ctx context.Context, t *mux.Task, answer dsh.Answer, outcome string) (any, error) {
	receipt, err := t.Respond(ctx, answer)
	if err != nil {
		return nil, err
	}
	switch {
	case receipt.Accepted:
	case receipt.Reason == dsh.ReasonBadResponse:
		return nil, &Error{Code: CodeBadResponse, Message: "the host does not accept this answer; the request stays pending",
			Hint: "Look at the request again with dsh_status and answer exactly what it asks."}
	default:
		return nil, b.notPending(t, answer.RPCID)
	}
	// The host resolves the request before it sends the receipt, so this is a matter of moments.
	b.until(ctx, t, catchUp, func(now mux.Snapshot) bool {
		for _, r := range now.Requests {
			if r.ID == answer.RPCID {
				return false
			}
		}
		return true
	})
	snap, err := t.Snapshot()
	if err != nil {
		return nil, err
	}
	return respondAnswer{TaskID: t.ID, RequestID: answer.RPCID, Accepted: true, Outcome: outcome, Execution: snap.Execution, Cursor: snap.Cursor}, b.settled(t)
}
