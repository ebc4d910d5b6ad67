package mux

import (
	"context"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// Respond answers a pending request, once, and records the receipt. An error says that no receipt came (see
// [dsh.Kind]); when the host may have the answer, the request is shown as unsure until the host says what became of
// it.
func (t *Task) Respond(ctx context.Context, answer dsh.Answer) (dsh.Receipt, error) {
	receipt, err := t.m.opts.Host.Respond(ctx, answer)
	switch dsh.KindOf(err) {
	case 0:
	case dsh.NotSent, dsh.Refused, dsh.Incompatible:
		return receipt, err
	default:
		t.mu.Lock()
		if r := t.requests[answer.RPCID]; r != nil {
			r.Unsure = true
			t.notify()
		}
		t.mu.Unlock()
		return receipt, err
	}
	if err != nil {
		return receipt, err
	}
	kind := ledger.TypeRespondAccepted
	if !receipt.Accepted {
		if receipt.Reason == dsh.ReasonBadResponse {
			return receipt, nil // nothing has changed
		}
		kind = ledger.TypeRespondNotPending
		t.forget(answer.RPCID)
	}
	s := source{id: answer.SessionID, origin: ledger.OriginRoot}
	t.mu.Lock()
	if known := t.sessions[answer.SessionID]; known != nil {
		s = *known
	}
	t.mu.Unlock()
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if appendErr := t.append(after, t.currentEpoch(), []ledger.Entry{record(kind, s, ledger.Coordination{RequestID: answer.RPCID})}); appendErr != nil {
		t.log.Warn("the receipt of an answer is not recorded yet", "err", appendErr)
		t.wake()
	}
	return receipt, nil
}

// forget drops what the host says is not pending.
func (t *Task) forget(requestID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests[requestID] != nil {
		delete(t.requests, requestID)
		t.notify()
	}
}

// ClosedRequest tells how a request of the task that was pending once came to its end.
func (t *Task) ClosedRequest(requestID string) (closed ledger.Closed, known bool, err error) {
	err = t.ledger.View(func(state *ledger.State) { closed, known = state.ClosedRequest(requestID) })
	return closed, known, err
}

// Holder returns the id of the watched task that a pending request belongs to, or nothing.
func (m *Mux) Holder(requestID string) string {
	m.mu.Lock()
	tasks := make([]*Task, 0, len(m.tasks))
	for _, t := range m.tasks {
		tasks = append(tasks, t)
	}
	m.mu.Unlock()
	for _, t := range tasks {
		t.mu.Lock()
		held := t.requests[requestID] != nil
		t.mu.Unlock()
		if held {
			return t.ID
		}
	}
	return ""
}

// expire rejects an approval that nobody has decided in time. It is a single attempt of this process, on this
// connection; the host knows nothing of it.
func (t *Task) expire(epoch int, answer dsh.Answer) {
	timer := time.NewTimer(t.m.opts.ApprovalTimeout)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.m.ctx.Done():
		return
	}
	t.mu.Lock()
	due := t.epoch == epoch && t.requests[answer.RPCID] != nil
	t.mu.Unlock()
	if !due {
		return
	}
	receipt, err := t.Respond(t.m.ctx, answer)
	t.log.Info("an approval was not decided in time and is rejected", "request", answer.RPCID, "accepted", receipt.Accepted, "err", logged(err))
}
