package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"dsh-agentlink/internal/dsh"
)

type answerArgs struct {
	TaskID           string               `json:"taskId"`
	RequestID        string               `json:"requestId"`
	Answers          []dsh.QuestionAnswer `json:"answers"`
	Dismiss          bool                 `json:"dismiss"`
	SinceCursor      *int64               `json:"sinceCursor"`
	ExpectedRevision string               `json:"expectedRevision"`
}

// answerQuestion answers a pending question, or dismisses it.
func (b *Bridge) answerQuestion(ctx context.Context, raw json.RawMessage) (any, error) {
	var args answerArgs
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := checkSince(args.SinceCursor); err != nil {
		return nil, err
	}
	if err := checkRequestID(args.RequestID); err != nil {
		return nil, err
	}
	if args.Dismiss == (len(args.Answers) > 0) {
		return nil, &Error{Code: CodeInvalidArgument, Message: "answers: pass either answers, or dismiss: true"}
	}
	_, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	if err := b.needClaim(t.ID); err != nil {
		return nil, err
	}
	_, snap, err := b.fresh(ctx, t)
	if err != nil {
		return nil, err
	}
	request, err := b.pendingOf(t, snap, args.RequestID, typeQuestion)
	if err != nil {
		return nil, err
	}
	if err := b.checkView(t, snap, args.SinceCursor, args.ExpectedRevision); err != nil {
		return nil, err
	}
	answer := dsh.Answer{RPCID: request.ID, SessionID: request.SessionID, Cancel: args.Dismiss}
	if args.Dismiss {
		return b.respond(ctx, t, answer, "dismissed")
	}
	if err := checkAnswers(request.Questions, args.Answers); err != nil {
		return nil, err
	}
	answer.Questions = args.Answers
	return b.respond(ctx, t, answer, "answered")
}

func checkRequestID(id string) error {
	if !dsh.ValidID(id) {
		return invalid("requestId", id, "it is not the id of a request", "dsh_status and dsh_wait show the requestId of everything pending.")
	}
	return nil
}

// checkAnswers holds a batch of answers against its questions: one for each, in their order, each of the form that its
// question takes.
func checkAnswers(questions []dsh.Question, answers []dsh.QuestionAnswer) error {
	if len(answers) != len(questions) {
		return wrongAnswer("answers", fmt.Sprintf("there are %d for %d questions; every question has to be answered, in order: %s", len(answers), len(questions), ids(questions)))
	}
	for i, a := range answers {
		q := questions[i]
		if a.ID != q.ID {
			return wrongAnswer(fmt.Sprintf("answers[%d]", i), fmt.Sprintf("its id is %q, the question there is %q; the order is %s", a.ID, q.ID, ids(questions)))
		}
		if problem := checkAnswer(q, a); problem != "" {
			return wrongAnswer(fmt.Sprintf("question %q", q.ID), problem)
		}
	}
	return nil
}

// checkAnswer says what is wrong with the answer to one question; nothing when it is right.
func checkAnswer(q dsh.Question, a dsh.QuestionAnswer) string {
	custom := a.Custom != ""
	if custom && strings.TrimSpace(a.Custom) == "" {
		return "its custom text is blank"
	}
	for i, label := range a.Selected {
		if !slices.ContainsFunc(q.Options, func(o dsh.Option) bool { return o.Label == label }) {
			return fmt.Sprintf("%q is not one of its labels: %s", label, labels(q))
		}
		if slices.Contains(a.Selected[:i], label) {
			return fmt.Sprintf("%q is selected twice", label)
		}
	}
	switch {
	case len(a.Selected) == 0 && !custom:
		return "it has no answer; select a label or give a custom text"
	case q.MultiSelect:
		return ""
	case len(a.Selected) > 1:
		return fmt.Sprintf("it takes one answer, %d labels are selected", len(a.Selected))
	case len(a.Selected) == 1 && custom:
		return "it takes one answer: a label or a custom text, not both"
	}
	return ""
}

func wrongAnswer(where, problem string) *Error {
	return &Error{Code: CodeInvalidAnswer, Message: where + ": " + problem + "; nothing was sent",
		Hint: `An answer is {"id","selected":[labels],"custom"?}. dsh_status shows the questions.`}
}

func ids(questions []dsh.Question) string {
	list := make([]string, 0, len(questions))
	for _, q := range questions {
		list = append(list, fmt.Sprintf("%q", q.ID))
	}
	return strings.Join(list, ", ")
}

func labels(q dsh.Question) string {
	if len(q.Options) == 0 {
		return "it has none, it takes a custom text"
	}
	list := make([]string, 0, len(q.Options))
	for _, o := range q.Options {
		list = append(list, fmt.Sprintf("%q", o.Label))
	}
	return strings.Join(list, ", ")
}
