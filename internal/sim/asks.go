package sim

import (
	"encoding/json"
	"fmt"
	"slices"

	"dsh-agentlink/internal/dsh"
)

// request is a question or an approval that waits for a person.
type request struct {
	id       string // the rpcId that an answer has to echo
	session  *session
	approval string // id of an approval; empty for a question
	frame    dsh.Frame
	reply    chan string // takes one outcome without waiting
}

// put asks: it shows a request and keeps it until it is answered or withdrawn.
func (h *Host) put(r *request, kind dsh.FrameKind, payload string) {
	r.id, r.reply = fmt.Sprintf("request-%d", h.number("request")), make(chan string, 1)
	r.frame = dsh.Frame{Kind: kind, RPCID: r.id, SessionID: r.session.id,
		Payload: json.RawMessage(fmt.Sprintf(`{"type":%q,"sessionId":%q,%s}`, kind, r.session.id, payload))}
	h.life.pending = append(h.life.pending, r)
	h.send(r.frame)
}

// take ends a request; it reports false when it is not pending any more.
func (h *Host) take(r *request, outcome string) bool {
	i := slices.Index(h.life.pending, r)
	if i < 0 {
		return false
	}
	h.life.pending = slices.Delete(h.life.pending, i, i+1)
	f := dsh.Frame{Kind: dsh.FrameQuestionResolved, RPCID: "resolved", SessionID: r.session.id}
	subject := fmt.Sprintf(`"questionRpcId":%q`, r.id)
	if r.approval != "" {
		f.Kind, subject = dsh.FrameApprovalResolved, fmt.Sprintf(`"approvalId":%q`, r.approval)
	}
	f.Payload = json.RawMessage(fmt.Sprintf(`{"type":%q,"sessionId":%q,%s,"outcome":%q}`, f.Kind, r.session.id, subject, outcome))
	h.send(f)
	return true
}

// await waits for the outcome of a request. When the turn is stopped first, it is withdrawn.
func (t *turn) await(r *request) (outcome string, how ending) {
	select {
	case outcome = <-r.reply:
		return outcome, goesOn
	case <-t.ctx.Done():
	}
	withdrawn := false
	if !t.locked(func() { withdrawn = t.h.take(r, "cancelled") }) {
		return "", vanished
	}
	if !withdrawn {
		return <-r.reply, goesOn // it was answered in the same moment
	}
	return "cancelled", t.stopped(aborted)
}

// ask asks a person.
func ask(t *turn) ending {
	return t.call("ask_user_question", func(string) ending {
		r := &request{session: t.s}
		if t.s.mode == oneShot {
			return goesOn // nobody can be asked from there
		}
		if !t.locked(func() {
			t.h.put(r, dsh.FrameQuestionRequested, `"questions":[{"id":"q","question":"words","options":[{"label":"yes"},{"label":"no"}]}]`)
		}) {
			return vanished
		}
		_, how := t.await(r)
		return how
	})
}

// approve asks whether a command may run.
func approve(t *turn) ending {
	return t.call("bash", func(callID string) ending {
		r := &request{session: t.s}
		nobody := t.s.subagent() // its requests reach nobody and are rejected
		if !t.locked(func() {
			r.approval = fmt.Sprintf("approval-%d", t.h.number("approval"))
			t.h.emit(t.s, "approval/asked", `{"id":%q,"toolName":"bash","callId":%q,"reason":"words"}`, r.approval, callID)
			if !nobody {
				t.h.put(r, dsh.FrameApprovalRequested, fmt.Sprintf(`"approvalId":%q,"toolName":"bash","callId":%q,"reason":"words"`, r.approval, callID))
			}
		}) {
			return vanished
		}
		outcome, how := "rejected", goesOn
		if !nobody {
			outcome, how = t.await(r)
		}
		if how == vanished || !t.locked(func() {
			t.h.emit(t.s, "approval/decided", `{"id":%q,"outcome":%q}`, r.approval, outcome)
		}) {
			return vanished
		}
		return how
	})
}
