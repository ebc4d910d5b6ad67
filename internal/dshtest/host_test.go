package dshtest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/labmodel"
)

func TestStartAndClose(t *testing.T) {
	h := New(Options{})
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	url := h.URL()
	if err := h.Start(); err == nil {
		t.Error("a second Start succeeded")
	}
	if err := h.Restart(); err != nil {
		t.Fatal(err)
	}
	if h.URL() != url {
		t.Errorf("restarted at %s, was at %s", h.URL(), url)
	}
	h.Close()
	h.Close()
	if _, err := http.Get(url); err == nil {
		t.Error("a closed host answers")
	}
}

func TestStartRefusesOtherAddresses(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "192.0.2.1:80", "localhost", "example.com:80"} {
		if h := New(Options{Addr: addr}); h.Start() == nil {
			h.Close()
			t.Errorf("started at %s", addr)
		}
	}
}

// A host ends whatever is going on in it: words being streamed, a command, a question, a job, an agent that waits for
// another, calls that hang and connections.
func TestCloseEndsEverything(t *testing.T) {
	h := started(t, Options{})
	w := watch(t, h)
	ids := []string{newRoot(t, h), newRoot(t, h), newRoot(t, h), newRoot(t, h), newRoot(t, h), newRoot(t, h)}
	tell(t, h, ids[0], "queue", Script(labmodel.Step{Say: "w ", Repeat: 1e6, DelayMs: 1000}))
	tell(t, h, ids[1], "queue", Script(labmodel.Step{Tool: "bash", Args: []byte(`{"command":"sleep 3600","description":"d"}`)}))
	tell(t, h, ids[2], "queue", Script(askStep("q")))
	tell(t, h, ids[3], "queue", Script(labmodel.Step{Tool: "bash", Args: []byte(`{"command":"sleep 3600","description":"d","run_in_background":true}`)}))
	tell(t, h, ids[4], "queue", Script(childStep(labmodel.Step{Say: "w ", Repeat: 1e6, DelayMs: 1000}, false)))
	tell(t, h, ids[5], "queue", Script(labmodel.Step{HangMs: 3600000}))
	if _, err := h.WaitSubagent(within(t), ids[4], 1); err != nil {
		t.Fatal(err)
	}
	w.has(t, kindQuestionRequested, 1)
	w.has(t, kindJobs, 1)
	h.HangNext("host.describe", 1)
	hung := make(chan error)
	go func() {
		_, _, err := post(context.Background(), h.URL()+"/api/host.describe", "application/json",
			`{"type":"client-request","rpcId":"r","method":"host.describe","payload":{}}`)
		hung <- err
	}()
	if err := h.WaitCalls(within(t), "host.describe", 1); err != nil {
		t.Fatal(err)
	}

	h.Close()
	select {
	case err := <-hung:
		if err == nil {
			t.Error("the call that hung was answered")
		}
	case <-time.After(10 * time.Second):
		t.Error("the call still hangs")
	}
	select {
	case <-w.done:
	case <-time.After(10 * time.Second):
		t.Error("the stream is still open")
	}
	if got := h.Pending(); len(got) != 0 {
		t.Errorf("pending in a dead host: %+v", got)
	}
	for _, s := range h.Sessions() {
		if s.Running || s.Attached || s.Jobs != 0 {
			t.Errorf("in a dead host: %+v", s)
		}
	}
}

// askStep is a step that asks one open question.
func askStep(id string) labmodel.Step {
	return labmodel.Step{Tool: "ask_user_question", Args: encode(object{"questions": []object{{"id": id, "question": "?"}}})}
}

// childStep is a step that starts an agent which plays the steps.
func childStep(step labmodel.Step, background bool) labmodel.Step {
	return labmodel.Step{Tool: "subagent", Args: encode(object{
		"description": "child", "prompt": Script(step), "run_in_background": background,
	})}
}

// bashStep is a step that runs a command.
func bashStep(command string) labmodel.Step {
	return labmodel.Step{Tool: "bash", Args: encode(object{"command": command, "description": "Run"})}
}

// What a session is while the host's process lives, and what is left of it after a crash.
func TestCrash(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	tell(t, h, id, "queue", Script(bashStep("sleep 3600")))
	tell(t, h, id, "queue", Script(labmodel.Step{Say: "queued"}))
	if _, err := h.WaitEvent(within(t), id, eventTitle, 2); err != nil {
		t.Fatal(err)
	}
	before := h.Events(id)
	if err := h.Restart(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, h.Events(id)); diff != "" {
		t.Errorf("a crash changed the log:\n%s", diff)
	}
	w := watch(t, h)
	page := call[historyPage](t, h, "session.history", object{"sessionId": id})
	if got, want := page.last().Type, eventTurnEnd; got != want {
		t.Errorf("the history ends with %s, want %s", got, want)
	}
	if got := string(page.last().Data); !strings.Contains(got, `"interrupted"`) {
		t.Errorf("the end of the turn is %s", got)
	}
	again := call[historyPage](t, h, "session.history", object{"sessionId": id})
	if diff := cmp.Diff(page, again); diff != "" {
		t.Errorf("reading again changed the history:\n%s", diff)
	}
	if frames := w.until(t, "nothing", func([]frame) bool { return true }); len(frames) != 0 {
		t.Errorf("a cold session was announced: %s", kinds(frames))
	}

	// A new prompt brings the message back that waited when the host died.
	tell(t, h, id, "queue", Script(labmodel.Step{Say: "new"}))
	w.has(t, eventTurnEnd, 2)
	var said []string
	for _, e := range h.Events(id)[len(page.Events):] {
		if e.Type == eventAssistant {
			said = append(said, string(e.Data))
		}
	}
	if len(said) != 2 || !strings.Contains(said[0], `"queued"`) || !strings.Contains(said[1], `"new"`) {
		t.Errorf("said after the crash: %s", said)
	}
}

func TestForgetBlank(t *testing.T) {
	h := started(t, Options{ForgetBlank: true})
	blank, used := newRoot(t, h), newRoot(t, h)
	tell(t, h, used, "queue", "hello")
	if err := h.WaitIdle(within(t), used); err != nil {
		t.Fatal(err)
	}
	if err := h.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, refused := try(t, h, "session.history", object{"sessionId": blank}); refused == nil || refused.Code != "session-not-found" {
		t.Errorf("the blank session: %+v", refused)
	}
	if _, refused := try(t, h, "session.history", object{"sessionId": used}); refused != nil {
		t.Errorf("the used session: %+v", refused)
	}
}

func TestWaits(t *testing.T) {
	h := started(t, Options{})
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := h.WaitIdle(t.Context(), "nope"); !errors.Is(err, ErrNoSession) {
		t.Errorf("WaitIdle = %v", err)
	}
	if _, err := h.WaitEvent(short, "nope", eventTurnEnd, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("WaitEvent = %v", err)
	}
	id := newRoot(t, h)
	tell(t, h, id, "queue", Script(askStep("q")))
	pending, err := h.WaitPending(within(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]PendingRequest{{RPCID: pending[0].RPCID, SessionID: id, Questions: []string{"q"}}}, pending); diff != "" {
		t.Error(diff)
	}
	if err := h.WaitIdle(short, id); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("WaitIdle of a running session = %v", err)
	}
	if got := h.Calls("session.prompt"); got != 1 {
		t.Errorf("%d prompts", got)
	}
	i := slices.IndexFunc(h.Requests(), func(r Request) bool { return r.Method == "session.prompt" })
	if r := h.Requests()[i]; !strings.Contains(string(r.Body), r.RPCID) || r.RPCID == "" {
		t.Errorf("recorded %+v", r)
	}
}
