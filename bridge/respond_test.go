package bridge

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

// threeQuestions asks for one label, several labels, and a free text.
const threeQuestions = `{"questions":[
	{"id":"color","question":"Which color?","header":"Color","options":[{"label":"red","description":"warm"},{"label":"blue"}]},
	{"id":"tags","question":"Which tags?","options":[{"label":"a"},{"label":"b"}],"multi_select":true},
	{"id":"free","question":"Anything else?"}]}`

func asking(questions string) string {
	return "Ask. " + dshtest.Script(labmodel.Step{Tool: "ask_user_question", Args: json.RawMessage(questions)})
}

func escalating(command string) string {
	args, err := json.Marshal(map[string]string{"command": command, "description": "Write", "sandbox_permissions": "danger-full-access", "justification": "it is needed"})
	if err != nil {
		panic(err)
	}
	return "Write. " + dshtest.Script(labmodel.Step{Tool: "bash", Args: args})
}

func pendingOne(t *testing.T, s seen) pendingRequest {
	t.Helper()
	if len(s.Pending) != 1 || s.Reason != reasonAttention {
		t.Fatalf("want one pending request as the reason of the wait, got %+v", s)
	}
	return s.Pending[0]
}

func TestQuestionIsShownWholeAndAnswered(t *testing.T) {
	r := newRig(t)
	task := r.delegate(asking(threeQuestions))
	p := pendingOne(t, task)
	want := []dsh.Question{
		{ID: "color", Question: "Which color?", Header: "Color", Options: []dsh.Option{{Label: "red", Description: "warm"}, {Label: "blue"}}},
		{ID: "tags", Question: "Which tags?", Options: []dsh.Option{{Label: "a"}, {Label: "b"}}, MultiSelect: true},
		{ID: "free", Question: "Anything else?"},
	}
	if diff := cmp.Diff(want, p.Questions); diff != "" {
		t.Errorf("the questions are not verbatim (-asked +shown):\n%s", diff)
	}
	if task.Execution != "awaiting_input" || p.Type != typeQuestion {
		t.Errorf("the task is %s with a %s", task.Execution, p.Type)
	}

	good := []args{{"id": "color", "selected": []string{"red"}}, {"id": "tags", "selected": []string{"a", "b"}, "custom": "c"}, {"id": "free", "custom": "nothing"}}
	change := func(i int, a args) []args {
		list := append([]args{}, good...)
		list[i] = a
		return list
	}
	before := r.host.Calls("respond")
	for _, c := range []struct {
		name    string
		answers []args
		names   string // what the message has to name
	}{
		{"one is missing", good[:2], "3 questions"},
		{"another order", []args{good[1], good[0], good[2]}, `"color"`},
		{"an unknown id", change(0, args{"id": "colour", "selected": []string{"red"}}), `"color"`},
		{"an unknown label", change(0, args{"id": "color", "selected": []string{"green"}}), `question "color"`},
		{"two labels for a single choice", change(0, args{"id": "color", "selected": []string{"red", "blue"}}), `question "color"`},
		{"label and text for a single choice", change(0, args{"id": "color", "selected": []string{"red"}, "custom": "dark"}), `question "color"`},
		{"nothing for a single choice", change(0, args{"id": "color"}), `question "color"`},
		{"a label twice", change(1, args{"id": "tags", "selected": []string{"a", "a"}}), `question "tags"`},
		{"nothing for a multiple choice", change(1, args{"id": "tags", "selected": []string{}}), `question "tags"`},
		{"a blank text", change(2, args{"id": "free", "custom": " \n"}), `question "free"`},
		{"a label where there is none", change(2, args{"id": "free", "selected": []string{"a"}}), `question "free"`},
		{"no text", change(2, args{"id": "free"}), `question "free"`},
	} {
		failed := r.fails(CodeInvalidAnswer, "dsh_answer_question", args{"taskId": task.TaskID, "requestId": p.RequestID, "answers": c.answers})
		if !strings.Contains(failed.Message, c.names) {
			t.Errorf("%s: the message does not name %s: %s", c.name, c.names, failed.Message)
		}
	}
	if sent := r.host.Calls("respond") - before; sent != 0 {
		t.Fatalf("%d wrong answers reached the host", sent)
	}

	r.call("dsh_answer_question", args{"taskId": task.TaskID, "requestId": p.RequestID, "answers": good}, nil)
	if sent := r.host.Calls("respond") - before; sent != 1 {
		t.Errorf("the answer was sent %d times", sent)
	}
	failed := r.fails(CodeNotPending, "dsh_answer_question", args{"taskId": task.TaskID, "requestId": p.RequestID, "answers": good})
	if !strings.Contains(failed.Message, "answered") {
		t.Errorf("the failure does not say how it came out: %s", failed.Message)
	}
	var end seen
	r.call("dsh_wait", args{"taskId": task.TaskID, "until": "attention"}, &end)
	if end.Status != "turn_completed" || !strings.Contains(end.FinalMessage.Text, `"custom":"nothing"`) {
		t.Errorf("the agent did not get the answers: %+v", end)
	}
}

func TestQuestionIsDismissed(t *testing.T) {
	r := newRig(t)
	task := r.delegate(asking(threeQuestions))
	p := pendingOne(t, task)
	r.fails(CodeInvalidArgument, "dsh_answer_question", args{"taskId": task.TaskID, "requestId": p.RequestID})
	r.fails(CodeInvalidArgument, "dsh_answer_question", args{"taskId": task.TaskID, "requestId": p.RequestID, "dismiss": true, "answers": []args{{"id": "color"}}})
	r.call("dsh_answer_question", args{"taskId": task.TaskID, "requestId": p.RequestID, "dismiss": true}, nil)
	var end seen
	r.call("dsh_wait", args{"taskId": task.TaskID, "until": "attention"}, &end)
	if end.Execution == "awaiting_input" || len(end.Pending) != 0 {
		t.Errorf("the question is still pending: %+v", end)
	}
}

func TestApprovalShowsItsCommandAndIsDecided(t *testing.T) {
	for _, c := range []struct {
		outcome string
		there   bool
	}{{outcomeAllow, true}, {outcomeReject, false}} {
		t.Run(c.outcome, func(t *testing.T) {
			r := newRigWith(t, func(dir string) dshtest.Options { return dshtest.Options{AllowWrites: dir} })
			target := filepath.Join(r.dir, "outside")
			task := r.delegate(escalating("touch " + target))
			p := pendingOne(t, task)
			if p.Type != typeApproval || p.ToolName != "bash" || p.Command != "touch "+target || !strings.Contains(p.Reason, "it is needed") {
				t.Errorf("the approval is not shown whole: %+v", p)
			}
			if task.Execution != "awaiting_approval" {
				t.Errorf("the task is %s", task.Execution)
			}
			r.fails(CodeWrongType, "dsh_answer_question", args{"taskId": task.TaskID, "requestId": p.RequestID, "dismiss": true})
			r.fails(CodeInvalidArgument, "dsh_resolve_approval", args{"taskId": task.TaskID, "requestId": p.RequestID, "outcome": "allow"})
			r.call("dsh_resolve_approval", args{"taskId": task.TaskID, "requestId": p.RequestID, "outcome": c.outcome}, nil)
			var end seen
			r.call("dsh_wait", args{"taskId": task.TaskID, "until": "attention"}, &end)
			if end.Status != "turn_completed" {
				t.Errorf("the task is %s", end.Status)
			}
			if _, err := os.Stat(target); (err == nil) != c.there {
				t.Errorf("after %s the file is there: %t", c.outcome, err == nil)
			}
			r.fails(CodeNotPending, "dsh_resolve_approval", args{"taskId": task.TaskID, "requestId": p.RequestID, "outcome": c.outcome})
		})
	}
}

func TestAnswersNeedTheClaimRejectionDoesNot(t *testing.T) {
	r := newRig(t)
	question := r.delegate(asking(threeQuestions))
	approval := r.delegate(escalating("echo x"))
	q, a := pendingOne(t, question), pendingOne(t, approval)
	r.fails(CodeWrongTask, "dsh_answer_question", args{"taskId": approval.TaskID, "requestId": q.RequestID, "dismiss": true})
	for _, id := range []string{question.TaskID, approval.TaskID} {
		r.call("dsh_release_workspace", args{"taskId": id}, nil)
	}
	r.fails(CodeWorkspaceClaimMissing, "dsh_answer_question", args{"taskId": question.TaskID, "requestId": q.RequestID, "dismiss": true})
	r.fails(CodeWorkspaceClaimMissing, "dsh_resolve_approval", args{"taskId": approval.TaskID, "requestId": a.RequestID, "outcome": outcomeAllow})
	r.call("dsh_resolve_approval", args{"taskId": approval.TaskID, "requestId": a.RequestID, "outcome": outcomeReject}, nil)
}

func TestUnknownRequest(t *testing.T) {
	r := newRig(t)
	task := r.delegate("Nothing.")
	r.fails(CodeNotPending, "dsh_resolve_approval", args{"taskId": task.TaskID, "requestId": "681de676-30cd-4802-afa6-aba0acfde1b5", "outcome": outcomeReject})
	r.fails(CodeInvalidArgument, "dsh_resolve_approval", args{"taskId": task.TaskID, "requestId": "not an id", "outcome": outcomeReject})
	r.fails(CodeInvalidArgument, "dsh_answer_question", args{"taskId": task.TaskID, "dismiss": true})
}

// A cancelled turn takes its question along.
func TestCancelWhileAQuestionIsOpen(t *testing.T) {
	r := newRig(t)
	task := r.delegate(asking(threeQuestions))
	p := pendingOne(t, task)
	r.call("dsh_cancel", args{"taskId": task.TaskID}, nil)
	var status seen
	r.call("dsh_status", args{"taskId": task.TaskID}, &status)
	if status.Execution != "canceled" || len(status.Pending) != 0 {
		t.Errorf("after the cancel the task is %s with %d pending", status.Execution, len(status.Pending))
	}
	r.fails(CodeNotPending, "dsh_answer_question", args{"taskId": task.TaskID, "requestId": p.RequestID, "dismiss": true})
}

// Two bridges on one home answer at the same time: one is accepted, the other learns that it is over.
func TestTwoBridgesAnswerAtOnce(t *testing.T) {
	r := newRig(t)
	other := &rig{t: t, host: r.host, dir: r.dir}
	other.b = other.open()
	task := r.delegate(escalating("echo x"))
	p := pendingOne(t, task)
	other.call("dsh_status", args{"taskId": task.TaskID}, nil)
	type result struct {
		text   json.RawMessage
		failed *Error
	}
	results := make(chan result, 2)
	for _, side := range []*rig{r, other} {
		go func() {
			text, failed := side.try(t.Context(), "dsh_resolve_approval", args{"taskId": task.TaskID, "requestId": p.RequestID, "outcome": outcomeReject})
			results <- result{text, failed}
		}()
	}
	accepted := 0
	for range 2 {
		if got := <-results; got.failed == nil {
			accepted++
		} else if got.failed.Code != CodeNotPending {
			t.Errorf("the loser got %v", got.failed)
		}
	}
	if accepted != 1 {
		t.Errorf("%d answers were accepted", accepted)
	}
}

// The host dies between the answer and its receipt: nobody claims to know what became of it, until the host says so.
func TestReceiptIsLost(t *testing.T) {
	r := newRig(t)
	task := r.delegate(asking(threeQuestions))
	p := pendingOne(t, task)
	r.host.HangNext("respond", 1)
	defer r.host.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, failed := r.try(ctx, "dsh_answer_question", args{"taskId": task.TaskID, "requestId": p.RequestID, "dismiss": true})
	if failed == nil || failed.Details["outcome"] != "unknown" {
		t.Fatalf("want an unknown outcome, got %v", failed)
	}
	var status seen
	r.call("dsh_status", args{"taskId": task.TaskID}, &status)
	if len(status.Pending) != 1 || status.Pending[0].Answer != "unknown" {
		t.Errorf("the request is not shown as unsure: %+v", status.Pending)
	}
	// The host brings it again, so it is still pending.
	r.host.DropConnections()
	r.call("dsh_host_status", args{}, nil)
	r.call("dsh_answer_question", args{"taskId": task.TaskID, "requestId": p.RequestID, "dismiss": true}, nil)
}
