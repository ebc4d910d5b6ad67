package dshtest

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Receipts of the host for an answer.
var (
	receiptAccepted   = []byte(`{"accepted":true}`)
	receiptNotPending = []byte(`{"accepted":false,"reason":"not-pending"}`)
	receiptBad        = []byte(`{"accepted":false,"reason":"bad-response"}`)
)

// clientResponse is the envelope of an answer.
type clientResponse struct {
	Type   string `json:"type"`
	RPCID  string `json:"rpcId"`
	Result *struct {
		OK    bool            `json:"ok"`
		Value json.RawMessage `json:"value"`
		Error *struct {
			Code    string           `json:"code"`
			Message *string          `json:"message"`
			Details *json.RawMessage `json:"details"`
		} `json:"error"`
	} `json:"result"`
}

// wellFormed says whether the envelope is one; a refusal can only be a dismissal, and has to be complete.
func (r clientResponse) wellFormed() bool {
	if r.Type != "client-response" || r.RPCID == "" || r.Result == nil {
		return false
	}
	e := r.Result.Error
	return r.Result.OK || e != nil && e.Code == "cancelled" && e.Message != nil && e.Details != nil
}

// respond takes an answer to a question or an approval. It reports false when the host died meanwhile.
func (h *Host) respond(l *life, body []byte) ([]byte, bool) {
	var r clientResponse
	if json.Unmarshal(body, &r) != nil || !r.wellFormed() {
		return receiptBad, true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life != l {
		return nil, false
	}
	i := slices.IndexFunc(l.pending, func(p *pending) bool { return p.rpcID == r.RPCID })
	if i < 0 {
		return receiptNotPending, true
	}
	p := l.pending[i]
	answer, outcome, ok := p.judge(r)
	if !ok {
		return receiptBad, true
	}
	h.take(p, outcome)
	p.reply <- answer
	return receiptAccepted, true
}

// judge checks an answer against what was asked, and says what comes of it.
func (p *pending) judge(r clientResponse) (answer reply, outcome string, ok bool) {
	var value struct {
		SessionID  string `json:"sessionId"`
		ApprovalID string `json:"approvalId"`
		Outcome    string `json:"outcome"`
		Answer     *struct {
			Answers []answered `json:"answers"`
		} `json:"answer"`
	}
	if p.approval == "" && !r.Result.OK {
		return reply{}, "cancelled", true
	}
	if !r.Result.OK || json.Unmarshal(r.Result.Value, &value) != nil || value.SessionID != p.session.id {
		return reply{}, "", false
	}
	if p.approval != "" {
		known := value.Outcome == "allowed-once" || value.Outcome == "rejected"
		return reply{outcome: value.Outcome}, value.Outcome, known && value.ApprovalID == p.approval
	}
	if value.Answer == nil || len(value.Answer.Answers) != len(p.questions) {
		return reply{}, "", false
	}
	for i, a := range value.Answer.Answers {
		if !p.questions[i].accepts(a) {
			return reply{}, "", false
		}
	}
	return reply{answers: encode(value.Answer)}, "answered", true
}

// answered is the answer to one question.
type answered struct {
	ID       string   `json:"id"`
	Selected []string `json:"selected"`
	Custom   *string  `json:"custom,omitempty"`
}

// accepts says whether the answer fits the question: labels it offers, each once, more than one or beside words of the
// person's own only where that is allowed. No answer at all is one.
func (q question) accepts(a answered) bool {
	if a.ID != q.ID || a.Selected == nil {
		return false
	}
	if a.Custom != nil && strings.TrimSpace(*a.Custom) == "" {
		return false
	}
	if !q.Multi && (len(a.Selected) > 1 || len(a.Selected) == 1 && a.Custom != nil) {
		return false
	}
	for i, label := range a.Selected {
		offered := slices.ContainsFunc(q.Options, func(o questionOption) bool { return o.Label == label })
		if !offered || slices.Contains(a.Selected[:i], label) {
			return false
		}
	}
	return true
}

// complete checks that a question of the model's can be asked.
func complete(q question, i int) (result, bool) {
	name := "questions[" + strconv.Itoa(i) + "]"
	switch {
	case q.ID == "":
		return invalidArguments("missing required property " + quote(name+".id")), false
	case q.Question == "":
		return invalidArguments("missing required property " + quote(name+".question")), false
	}
	return result{}, true
}
