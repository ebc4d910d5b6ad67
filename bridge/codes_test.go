package bridge

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/home"
)

// oddHost is a host that does in a place what the scripted one never does.
type oddHost struct {
	dsh.Host
	create  func(dsh.CreateRequest) (dsh.Created, error)
	respond func(dsh.Answer) (dsh.Receipt, error)
}

func (h oddHost) Create(ctx context.Context, req dsh.CreateRequest) (dsh.Created, error) {
	if h.create != nil {
		return h.create(req)
	}
	return h.Host.Create(ctx, req)
}

func (h oddHost) Respond(ctx context.Context, answer dsh.Answer) (dsh.Receipt, error) {
	if h.respond != nil {
		return h.respond(answer)
	}
	return h.Host.Respond(ctx, answer)
}

// behind lets the rig's bridge see its host through another.
func (r *rig) behind(odd oddHost) {
	r.t.Helper()
	odd.Host = r.b.host
	h, err := home.Open(filepath.Join(r.dir, "bridge"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.b = New(Options{Host: odd, HostURL: r.b.hostURL, Home: h, LockTimeout: 5 * time.Second, Quiet: 50 * time.Millisecond})
	r.b.Start()
	r.t.Cleanup(r.b.Close)
}

// A refusal that has no code of its own is told in the host's words, with the host's code.
func TestRefusalOfTheHost(t *testing.T) {
	r := newRig(t)
	r.behind(oddHost{create: func(dsh.CreateRequest) (dsh.Created, error) {
		return dsh.Created{}, &dsh.Error{Kind: dsh.Refused, Method: "session.create", Code: "out-of-luck", Message: "not today"}
	}})
	failed := r.fails(CodeHostError, "dsh_delegate", args{"prompt": "hello", "cwd": r.workspace("w")})
	if failed.Details["hostCode"] != "out-of-luck" {
		t.Errorf("the details are %v", failed.Details)
	}
	if list, _, err := r.b.tasks.List(); err != nil || len(list) != 0 {
		t.Errorf("a refused delegation has left %v (%v)", list, err)
	}
}

// The host makes a session with another preset than it was asked for: nothing is prompted.
func TestAnotherPresetThanAskedFor(t *testing.T) {
	r := newRig(t)
	r.behind(oddHost{create: func(req dsh.CreateRequest) (dsh.Created, error) {
		return dsh.Created{SessionID: req.SessionID, AgentPreset: "standard"}, nil
	}})
	r.fails(CodePresetMismatch, "dsh_delegate", args{"prompt": "hello", "cwd": r.workspace("w"), "agentPreset": "code"})
	if n := r.host.Calls("session.prompt"); n != 0 {
		t.Errorf("%d prompts were sent", n)
	}
}

// An answer that the host does not accept leaves the request pending.
func TestAnswerThatTheHostRefuses(t *testing.T) {
	r := newRig(t)
	r.behind(oddHost{respond: func(dsh.Answer) (dsh.Receipt, error) { return dsh.Receipt{Reason: dsh.ReasonBadResponse}, nil }})
	task := r.delegate(asking(threeQuestions))
	q := pendingOne(t, task)
	r.fails(CodeBadResponse, "dsh_answer_question", args{"taskId": task.TaskID, "requestId": q.RequestID, "dismiss": true})
	var status seen
	r.call("dsh_status", args{"taskId": task.TaskID}, &status)
	if len(status.Pending) != 1 {
		t.Errorf("%d requests are pending", len(status.Pending))
	}
}

// A bridge that has not been told what is queued empties no queue.
func TestQueueThatIsNotKnown(t *testing.T) {
	r := newRig(t)
	var task seen
	r.call("dsh_delegate", args{"prompt": "hello", "cwd": r.workspace("w"), "waitSeconds": 20}, &task)
	r.b = r.open()
	r.fails(CodeQueueUnknown, "dsh_cancel", args{"taskId": task.TaskID, "scope": "queue"})
}
