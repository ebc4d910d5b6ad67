//go:build live

package dsh

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

// These tests speak to a real host: DSH_LIVE_URL names it. They make sessions of their own and touch no other. The
// host's model has to be the scripted one, which plays what follows "LAB:" in a prompt.

func liveClient(t *testing.T) (context.Context, *Client) {
	t.Helper()
	address := os.Getenv("DSH_LIVE_URL")
	if address == "" {
		t.Skip("DSH_LIVE_URL is not set")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx, clientAt(t, address, Options{})
}

func TestLiveReadOnly(t *testing.T) {
	ctx, c := liveClient(t)
	if d, err := c.Describe(ctx); err != nil || d.Home == "" {
		t.Errorf("%+v, %v", d, err)
	}
	presets, err := c.Presets(ctx)
	if err != nil || !slices.ContainsFunc(presets, func(p Preset) bool { return p.IsDefault }) {
		t.Errorf("%+v, %v", presets, err)
	}
	sessions, err := c.Sessions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sessions {
		req := HistoryRequest{SessionID: s.ID, MaxMessages: 100_000}
		if s.Origin == OriginSubagent {
			continue
		}
		page, err := c.History(ctx, req)
		if err != nil {
			t.Errorf("history of %s: %v", s.ID, err)
		}
		for _, e := range page.Events {
			for _, read := range readers {
				read(e)
			}
		}
		if children, err := c.Subagents(ctx, s.ID); err != nil {
			t.Errorf("children of %s: %v", s.ID, err)
		} else {
			for _, child := range children {
				page, err := c.History(ctx, HistoryRequest{SessionID: child.SessionID, ParentSessionID: s.ID, SubagentMode: child.Mode})
				if err != nil || len(page.Events) == 0 {
					t.Errorf("history of the child %s: %d events, %v", child.SessionID, len(page.Events), err)
				}
			}
		}
	}
}

func TestLiveRefusals(t *testing.T) {
	ctx, c := liveClient(t)
	nobody := "session-" + uuid.NewString()
	if _, err := c.History(ctx, HistoryRequest{SessionID: nobody}); !IsCode(err, CodeSessionNotFound) {
		t.Errorf("history: %v", err)
	}
	if err := c.Prompt(ctx, PromptRequest{RPCID: uuid.NewString(), SessionID: nobody, Mode: ModeQueue, Text: "x"}); !IsCode(err, CodeSessionNotFound) {
		t.Errorf("prompt: %v", err)
	}
	if _, err := c.Create(ctx, CreateRequest{Cwd: t.TempDir(), AgentPreset: "no-such-preset"}); !IsCode(err, CodePresetNotFound) {
		t.Errorf("create: %v", err)
	}
	if receipt, err := c.Respond(ctx, Answer{RPCID: uuid.NewString(), SessionID: nobody, Cancel: true}); err != nil || receipt.Reason != "not-pending" {
		t.Errorf("respond: %+v, %v", receipt, err)
	}
	if _, err := c.call(ctx, "no.such.method", uuid.NewString(), struct{}{}); KindOf(err) != Incompatible {
		t.Errorf("an unknown method: %v", err)
	}
}

// liveSession is a throw-away session and a stream that was open before it existed.
type liveSession struct {
	id     string
	stream Stream
	seqs   []int64
}

func newLiveSession(ctx context.Context, t *testing.T, c *Client) *liveSession {
	t.Helper()
	s := &liveSession{id: "session-" + uuid.NewString()}
	var err error
	if s.stream, err = c.Subscribe(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stream.Close() })
	cwd := t.TempDir()
	for range 2 { // the second time is the same session
		created, err := c.Create(ctx, CreateRequest{SessionID: s.id, Cwd: cwd})
		if err != nil || created.SessionID != s.id {
			t.Fatalf("%+v, %v", created, err)
		}
	}
	if _, err := c.Create(ctx, CreateRequest{SessionID: s.id, Cwd: t.TempDir()}); !IsCode(err, CodeSessionConflict) {
		t.Errorf("the same id in another place: %v", err)
	}
	return s
}

// await reads the session's frames until one satisfies found.
func (s *liveSession) await(ctx context.Context, t *testing.T, what string, found func(Frame) bool) Frame {
	t.Helper()
	for {
		f, err := s.stream.Next(ctx)
		if err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		if f.SessionID != s.id {
			continue
		}
		if f.Kind == FrameEvent {
			s.seqs = append(s.seqs, f.Seq)
		}
		if found(f) {
			return f
		}
	}
}

func eventOfType(kind string) func(Frame) bool {
	return func(f Frame) bool { return f.Kind == FrameEvent && f.EventType == kind }
}

func (s *liveSession) prompt(ctx context.Context, t *testing.T, c *Client, script any) string {
	t.Helper()
	text, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.NewString()
	if err := c.Prompt(ctx, PromptRequest{RPCID: id, SessionID: s.id, Mode: ModeQueue, Text: "go LAB:" + string(text)}); err != nil {
		t.Fatal(err)
	}
	return id
}

type script struct {
	Steps []map[string]any `json:"steps"`
}

func say(text string, more map[string]any) script {
	step := map[string]any{"say": text}
	for k, v := range more {
		step[k] = v
	}
	return script{[]map[string]any{step}}
}

func TestLiveTurn(t *testing.T) {
	ctx, c := liveClient(t)
	s := newLiveSession(ctx, t, c)
	id := s.prompt(ctx, t, c, say("hello there", nil))
	f := s.await(ctx, t, "our message", func(f Frame) bool {
		e, err := f.Event()
		return err == nil && f.EventType == "user/message" && UserMessageOf(e).RPCID == id
	})
	if e, _ := f.Event(); UserMessageOf(e).SourceKind != SourceUser {
		t.Errorf("%+v", UserMessageOf(e))
	}
	e, err := s.await(ctx, t, "the answer", eventOfType("assistant/message")).Event()
	if err != nil || AssistantMessageOf(e).Text != "hello there" {
		t.Errorf("%+v, %v", AssistantMessageOf(e), err)
	}
	e, err = s.await(ctx, t, "the end", eventOfType("turn/end")).Event()
	if err != nil || TurnEndOf(e).Kind != TurnCompleted {
		t.Errorf("%+v, %v", TurnEndOf(e), err)
	}
	for i, seq := range s.seqs {
		if seq != s.seqs[0]+int64(i) {
			t.Fatalf("seqs of the stream: %v", s.seqs)
		}
	}
	page, err := c.History(ctx, HistoryRequest{SessionID: s.id, MaxMessages: 1000})
	if err != nil || page.HasMore || page.Events[0].Seq != 0 || page.Events[len(page.Events)-1].Seq < e.Seq {
		t.Errorf("history: %d events, %v", len(page.Events), err)
	}
	older, err := c.History(ctx, HistoryRequest{SessionID: s.id, MaxMessages: 1, BeforeSeq: e.Seq})
	if err != nil || len(older.Events) == 0 || older.Events[len(older.Events)-1].Seq != e.Seq-1 {
		t.Errorf("the page before %d: %d events, %v", e.Seq, len(older.Events), err)
	}
	if err := c.Rename(ctx, s.id, "A title"); err != nil {
		t.Error(err)
	}
	if m, err := c.Models(ctx, s.id); err != nil || m.Model == "" || !m.Routable {
		t.Errorf("%+v, %v", m, err)
	}
	sessions, err := c.Sessions(ctx)
	i := slices.IndexFunc(sessions, func(x Session) bool { return x.ID == s.id })
	if err != nil || i < 0 || sessions[i].Title != "A title" || sessions[i].LastSeq < e.Seq || sessions[i].Running {
		t.Errorf("%v, %v", sessions, err)
	}
}

func TestLiveQueueAndCancel(t *testing.T) {
	ctx, c := liveClient(t)
	s := newLiveSession(ctx, t, c)
	s.prompt(ctx, t, c, say("word ", map[string]any{"repeat": 400, "delayMs": 50}))
	s.await(ctx, t, "the start", eventOfType(EventChunk))
	s.prompt(ctx, t, c, say("never", nil))
	f := s.await(ctx, t, "the queue", func(f Frame) bool { q, err := f.Queue(); return f.Kind == FrameQueue && err == nil && len(q) == 1 })
	queue, _ := f.Queue()
	if err := c.RemoveQueued(ctx, s.id, queue[0].ID); err != nil {
		t.Error(err)
	}
	if err := c.RemoveQueued(ctx, s.id, queue[0].ID); !IsCode(err, CodeQueueItemNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	if err := c.Cancel(ctx, s.id); err != nil {
		t.Error(err)
	}
	e, err := s.await(ctx, t, "the end", eventOfType("turn/end")).Event()
	if end := TurnEndOf(e); err != nil || end.Kind != TurnAborted || end.Cause != "user" {
		t.Errorf("%+v, %v", end, err)
	}
}

func TestLiveQuestions(t *testing.T) {
	ctx, c := liveClient(t)
	s := newLiveSession(ctx, t, c)
	ask := script{[]map[string]any{{"tool": "ask_user_question", "args": map[string]any{"questions": []any{
		map[string]any{"id": "color", "question": "Which?", "options": []any{map[string]any{"label": "red"}, map[string]any{"label": "blue"}}},
		map[string]any{"id": "free", "question": "Else?"},
	}}}}}
	asked := func(f Frame) bool { return f.Kind == FrameQuestionRequested }
	resolved := func(f Frame) bool { return f.Kind == FrameQuestionResolved }

	s.prompt(ctx, t, c, ask)
	f := s.await(ctx, t, "the question", asked)
	questions, err := f.Questions()
	if err != nil || len(questions) != 2 || questions[0].Options[0].Label != "red" {
		t.Fatalf("%+v, %v", questions, err)
	}
	// A second stream replays what is pending, with the same id.
	again, err := c.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	replay := &liveSession{id: s.id, stream: again}
	if r := replay.await(ctx, t, "the replay", asked); r.RPCID != f.RPCID {
		t.Errorf("replayed as %s, asked as %s", r.RPCID, f.RPCID)
	}
	receipt, err := c.Respond(ctx, Answer{RPCID: f.RPCID, SessionID: s.id, Questions: []QuestionAnswer{{ID: "color", Selected: []string{"green"}}, {ID: "free"}}})
	if err != nil || receipt.Accepted || receipt.Reason != "bad-response" {
		t.Errorf("a bad answer: %+v, %v", receipt, err)
	}
	receipt, err = c.Respond(ctx, Answer{RPCID: f.RPCID, SessionID: s.id, Questions: []QuestionAnswer{{ID: "color", Selected: []string{"red"}}, {ID: "free", Custom: "x"}}})
	if err != nil || !receipt.Accepted {
		t.Errorf("%+v, %v", receipt, err)
	}
	r, err := s.await(ctx, t, "the resolution", resolved).Resolution()
	if err != nil || r.RequestRPCID != f.RPCID || r.Outcome != "answered" {
		t.Errorf("%+v, %v", r, err)
	}
	s.await(ctx, t, "the end", eventOfType("turn/end"))

	s.prompt(ctx, t, c, ask)
	f = s.await(ctx, t, "the second question", asked)
	if receipt, err := c.Respond(ctx, Answer{RPCID: f.RPCID, SessionID: s.id, Cancel: true}); err != nil || !receipt.Accepted {
		t.Errorf("dismissed: %+v, %v", receipt, err)
	}
	if r, err := s.await(ctx, t, "the resolution", resolved).Resolution(); err != nil || r.Outcome != "cancelled" {
		t.Errorf("%+v, %v", r, err)
	}
	s.await(ctx, t, "the end", eventOfType("turn/end"))
}

func TestLiveApproval(t *testing.T) {
	ctx, c := liveClient(t)
	s := newLiveSession(ctx, t, c)
	s.prompt(ctx, t, c, script{[]map[string]any{{"tool": "bash", "args": map[string]any{"command": "true", "description": "Nothing",
		"sandbox_permissions": "danger-full-access", "justification": "a test"}}}})
	var call ToolCall
	f := s.await(ctx, t, "the approval", func(f Frame) bool {
		if e, err := f.Event(); err == nil && f.EventType == "tool/call" {
			call = ToolCallOf(e)
		}
		return f.Kind == FrameApprovalRequested
	})
	a, err := f.Approval()
	if err != nil || a.ToolName != "bash" || a.CallID != call.ID {
		t.Fatalf("%+v for %+v, %v", a, call, err)
	}
	receipt, err := c.Respond(ctx, Answer{RPCID: f.RPCID, SessionID: s.id, Approval: &ApprovalAnswer{ApprovalID: a.ApprovalID}})
	if err != nil || !receipt.Accepted {
		t.Errorf("%+v, %v", receipt, err)
	}
	r, err := s.await(ctx, t, "the resolution", func(f Frame) bool { return f.Kind == FrameApprovalResolved }).Resolution()
	if err != nil || r.ApprovalID != a.ApprovalID || r.Outcome != "rejected" {
		t.Errorf("%+v, %v", r, err)
	}
	s.await(ctx, t, "the end", eventOfType("turn/end"))
}

func TestLiveStreamEnds(t *testing.T) {
	ctx, c := liveClient(t)
	c.pingEvery = 5 * time.Millisecond // a real host answers pings
	stream, err := c.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	quiet, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	for err == nil {
		_, err = stream.Next(quiet)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	stream.Close()
}
