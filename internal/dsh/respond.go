package dsh

import (
	"context"
	"slices"
	"time"

	"github.com/tidwall/gjson"
)

// clientResponse is the envelope of an answer to a request of the host.
type clientResponse struct {
	Type   string `json:"type"`
	RPCID  string `json:"rpcId"`
	Result any    `json:"result"`
}

type okResult struct {
	OK    bool `json:"ok"`
	Value any  `json:"value"`
}

type errorResult struct {
	OK    bool          `json:"ok"`
	Error responseError `json:"error"`
}

type responseError struct {
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Details struct{} `json:"details"`
}

type questionValue struct {
	SessionID string `json:"sessionId"`
	Answer    struct {
		Answers []QuestionAnswer `json:"answers"`
	} `json:"answer"`
}

type approvalValue struct {
	SessionID  string `json:"sessionId"`
	ApprovalID string `json:"approvalId"`
	Outcome    string `json:"outcome"`
}

// Respond implements [Host].
func (c *Client) Respond(ctx context.Context, answer Answer) (receipt Receipt, err error) {
	const method = "respond"
	began := time.Now()
	defer func() { c.record(ctx, method, began, err) }()
	result, err := answerResult(answer)
	if err != nil {
		return Receipt{}, err
	}
	text, err := c.post(ctx, method, clientResponse{"client-response", answer.RPCID, result})
	if err != nil {
		return Receipt{}, err
	}
	receipt, bad := decodeReceipt(text)
	return receipt, refusal(method, bad)
}

// answerResult builds the result of the envelope. An answer that is not exactly one of the three kinds is refused
// here, because which of them is meant cannot be guessed.
func answerResult(answer Answer) (any, error) {
	refuse := func(message string) (any, error) {
		return nil, &Error{Kind: NotSent, Method: "respond", Message: message}
	}
	kinds := 0
	for _, set := range []bool{len(answer.Questions) > 0, answer.Approval != nil, answer.Cancel} {
		if set {
			kinds++
		}
	}
	switch {
	case answer.RPCID == "":
		return refuse("the answer names no request")
	case kinds != 1:
		return refuse("an answer is exactly one of answered questions, a decided approval and a dismissal")
	case answer.Cancel:
		return errorResult{Error: responseError{Code: "cancelled", Message: "dismissed"}}, nil
	case answer.Approval != nil:
		outcome := "rejected"
		if answer.Approval.Allow {
			outcome = "allowed-once"
		}
		return okResult{true, approvalValue{answer.SessionID, answer.Approval.ApprovalID, outcome}}, nil
	default:
		value := questionValue{SessionID: answer.SessionID}
		value.Answer.Answers = slices.Clone(answer.Questions)
		for i := range value.Answer.Answers {
			if a := &value.Answer.Answers[i]; a.Selected == nil {
				a.Selected = []string{} // the host refuses null
			}
		}
		return okResult{true, value}, nil
	}
}

// decodeReceipt reads the answer of /api/respond, which has no envelope.
func decodeReceipt(answer string) (receipt Receipt, bad string) {
	if !validJSON(answer) {
		return Receipt{}, "the answer is not JSON"
	}
	o := root(gjson.Parse(answer), &bad)
	receipt = Receipt{Accepted: o.flag("accepted"), Reason: o.optText("reason")}
	if bad == "" && !receipt.Accepted && receipt.Reason == "" {
		o.fault("reason", "is missing")
	}
	return receipt, bad
}
