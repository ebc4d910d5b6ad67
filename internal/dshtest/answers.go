package dshtest

import (
	"encoding/json"
	"slices"
)

// pending is a question or an approval that waits for a person.
type pending struct {
	rpcID     string
	session   *session
	frame     string // kind of the frame that asks
	payload   []byte // and its payload, repeated to everybody who connects
	approval  string // id of an approval
	questions []question
	reply     chan reply // takes one reply without waiting
}

// reply is a person's answer.
type reply struct {
	outcome string          // of an approval
	answers json.RawMessage // of a question; nil when it was dismissed
}

// question is one question of a batch, as the wire shows it.
type question struct {
	ID       string           `json:"id"`
	Question string           `json:"question"`
	Header   string           `json:"header,omitempty"`
	Detail   string           `json:"detail,omitempty"`
	Options  []questionOption `json:"options,omitempty"`
	Multi    bool             `json:"multiSelect,omitempty"`
	Intent   string           `json:"intent,omitempty"`
}

type questionOption struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// put asks: it shows a request and keeps it until it is answered or withdrawn.
func (h *Host) put(p *pending, payload object) {
	p.rpcID, p.reply = newID(), make(chan reply, 1)
	payload["type"], payload["sessionId"] = p.frame, p.session.id
	p.payload = encode(payload)
	h.life.pending = append(h.life.pending, p)
	h.notify()
	h.send(p.frame, "", p.rpcID, p.payload)
}

// take ends a request; it reports false when it is not pending any more.
func (h *Host) take(p *pending, outcome string) bool {
	i := slices.Index(h.life.pending, p)
	if i < 0 {
		return false
	}
	h.life.pending = slices.Delete(h.life.pending, i, i+1)
	if p.approval != "" {
		h.frame(kindApprovalResolved, object{"sessionId": p.session.id, "approvalId": p.approval, "outcome": outcome})
	} else {
		h.frame(kindQuestionResolved, object{"sessionId": p.session.id, "questionRpcId": p.rpcID, "outcome": outcome})
	}
	h.notify()
	return true
}

// await waits for the reply to a request. When the turn is stopped first, the request is withdrawn and ok is false.
func (t *turn) await(p *pending) (got reply, ok bool, how ending) {
	select {
	case got = <-p.reply:
		return got, true, goesOn
	case <-t.ctx.Done():
	}
	withdrawn := false
	if !t.locked(func() { withdrawn = t.h.take(p, "cancelled") }) {
		return reply{}, false, vanished
	}
	if !withdrawn {
		return <-p.reply, true, goesOn // it was answered in the same moment
	}
	return reply{}, false, t.stopped()
}

// approve asks whether a command may run. When it may not, the result says why.
func (c *toolCall) approve(args bashArgs) (r result, how ending, allowed bool) {
	t, p := c.t, &pending{session: c.t.s, frame: kindApprovalRequested, approval: newID()}
	reason := "escalate sandbox to " + args.Sandbox + ": " + args.Justification
	nobody := t.s.subagent()
	asked := object{"toolName": c.name, "callId": c.id, "reason": reason}
	if !t.locked(func() {
		asked["id"] = p.approval
		t.h.emit(t.s, "approval/asked", asked)
		delete(asked, "id")
		if !nobody {
			asked["approvalId"] = p.approval
			t.h.put(p, asked)
		}
	}) {
		return result{}, vanished, false
	}
	// A subagent's requests reach nobody: its policy is to reject them.
	got, answered, how := reply{outcome: "rejected"}, true, goesOn
	if !nobody {
		got, answered, how = t.await(p)
	}
	if !answered {
		got.outcome = "cancelled"
	}
	if how == vanished || !t.locked(func() {
		t.h.emit(t.s, "approval/decided", object{"id": p.approval, "outcome": got.outcome})
	}) {
		return result{}, vanished, false
	}
	switch got.outcome {
	case "allowed-once":
		return result{}, goesOn, true
	case "rejected":
		return refused("the user rejected escalating this command to " + quote(args.Sandbox)), how, false
	}
	return refused("approval for escalating to " + quote(args.Sandbox) + " was cancelled"), how, false
}

// askArgs are the arguments of the ask_user_question tool.
type askArgs struct {
	Questions []struct {
		question
		Multi bool `json:"multi_select"`
	} `json:"questions"`
}

// ask asks a person.
func (c *toolCall) ask() (result, ending) {
	var args askArgs
	if r, ok := c.read(&args, "questions"); !ok {
		return r, goesOn
	}
	if len(args.Questions) == 0 {
		return failedCall("ask_user_question requires at least one question", "UserQuestionError", "EMPTY_QUESTIONS"), goesOn
	}
	t, p := c.t, &pending{session: c.t.s, frame: kindQuestionRequested}
	for i, q := range args.Questions {
		if r, ok := complete(q.question, i); !ok {
			return r, goesOn
		}
		q.question.Multi = q.Multi
		p.questions = append(p.questions, q.question)
	}
	if t.s.mode == modeOneShot {
		return failedCall("human interaction is unavailable while the calling agent is owned by another live agent; "+
			"include the unresolved question or decision in the child agent's final result", "UserQuestionError", "DELEGATED_CALLER"), goesOn
	}
	if !t.locked(func() { t.h.put(p, object{"questions": p.questions}) }) {
		return result{}, vanished
	}
	got, answered, how := t.await(p)
	switch {
	case !answered:
		return failedCall("ask_user_question was aborted before the user answered", "UserQuestionError", "ASK_ABORTED"), how
	case got.answers == nil:
		return failedCall("the user cancelled ask_user_question", "UserQuestionError", "ASK_CANCELLED"), goesOn
	}
	return result{text: string(got.answers)}, goesOn
}
