package dsh

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every exchange that was recorded with a real host goes through the client: it has to send what was sent then, byte
// order and ids aside, and to make of the answer what the answer says.
func TestCapturedCalls(t *testing.T) {
	eachCapture(t, func(t *testing.T, lines []captured) {
		var line captured // the exchange of the moment
		c := clientOf(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			got := readRequest(t, r)
			var sent request
			mustDecode(t, line.Request, &sent)
			if r.Method != "POST" || r.URL.Path != "/api/"+line.Method || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s %s, %s", line.Method, r.Method, r.URL, r.Header.Get("Content-Type"))
			}
			if got.Type != sent.Type || got.Method != sent.Method {
				t.Errorf("%s: envelope %s %s", line.Method, got.Type, got.Method)
			}
			if diff := cmp.Diff(anyOf(t, sent.Payload), anyOf(t, got.Payload)); diff != "" {
				t.Errorf("%s: payload (-recorded +sent)\n%s", line.Method, diff)
			}
			if diff := cmp.Diff(anyOf(t, sent.Result), anyOf(t, got.Result)); diff != "" {
				t.Errorf("%s: result (-recorded +sent)\n%s", line.Method, diff)
			}
			if line.Method == "respond" {
				page("application/json", string(line.Response))(w, r)
				return
			}
			var answer struct{ Result json.RawMessage }
			mustDecode(t, line.Response, &answer)
			writeResult(t, w, got.RPCID, answer.Result)
		})
		for _, line = range lines {
			if line.K == "rpc" {
				replay(t, c, line)
			}
		}
	})
}

// replay makes the call of a recorded exchange and compares what comes out with the recorded answer, read by
// encoding/json.
func replay(t *testing.T, c *Client, line captured) {
	t.Helper()
	ctx := t.Context()
	var sent request
	mustDecode(t, line.Request, &sent)
	var p struct {
		SessionID, ParentSessionID, ChildSessionID, ItemID, Title, Cwd, AgentPreset, Mode, ClientTimeZone string
		MaxMessages                                                                                       int
		BeforeSeq                                                                                         int64
		Content                                                                                           []textBlock
	}
	if sent.Payload != nil {
		mustDecode(t, sent.Payload, &p)
	}
	var answer struct {
		Result struct {
			OK    bool
			Value json.RawMessage
			Error struct{ Code, Message string }
		}
	}
	mustDecode(t, line.Response, &answer)
	want := answer.Result

	var err error
	switch line.Method {
	case "respond":
		replayAnswer(t, c, sent, line.Response)
		return
	case "host.describe":
		var got, expected Description
		got, err = c.Describe(ctx)
		compare(t, line.Method, want.Value, &expected, got)
	case "agentPreset.list":
		var got []Preset
		var expected struct{ Presets []Preset }
		got, err = c.Presets(ctx)
		compare(t, line.Method, want.Value, &expected, struct{ Presets []Preset }{got})
	case "session.create":
		var got, expected Created
		got, err = c.Create(ctx, CreateRequest{SessionID: p.SessionID, Cwd: p.Cwd, AgentPreset: p.AgentPreset})
		compare(t, line.Method, want.Value, &expected, got)
	case "session.models":
		var got Models
		var expected struct {
			Current  struct{ Provider, Model, ReasoningEffort string }
			Routable bool
		}
		got, err = c.Models(ctx, p.SessionID)
		mustDecode(t, want.Value, &expected)
		if diff := cmp.Diff(Models{expected.Current.Provider, expected.Current.Model, expected.Current.ReasoningEffort,
			expected.Routable}, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", line.Method, diff)
		}
	case "session.list":
		var got []Session
		got, err = c.Sessions(ctx)
		if diff := cmp.Diff(sessionsOf(t, want.Value), got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", line.Method, diff)
		}
	case "session.prompt":
		if len(p.Content) == 0 { // recorded to see what the host makes of it
			_, err = c.call(ctx, line.Method, sent.RPCID, sent.Payload)
			break
		}
		err = c.Prompt(ctx, PromptRequest{RPCID: sent.RPCID, SessionID: p.SessionID, Mode: Mode(p.Mode),
			Text: p.Content[0].Text, TimeZone: p.ClientTimeZone})
	case "session.rename":
		err = c.Rename(ctx, p.SessionID, p.Title)
	case "session.cancel":
		err = c.Cancel(ctx, p.SessionID)
	case "session.updateQueue":
		err = c.RemoveQueued(ctx, p.SessionID, p.ItemID)
	case "session.history":
		err = replayHistory(t, c, HistoryRequest{SessionID: p.SessionID, BeforeSeq: p.BeforeSeq,
			MaxMessages: p.MaxMessages}, want.Value)
	case "subagent.history":
		err = replayHistory(t, c, HistoryRequest{SessionID: p.ChildSessionID, ParentSessionID: p.ParentSessionID,
			SubagentMode: p.Mode, BeforeSeq: p.BeforeSeq, MaxMessages: p.MaxMessages}, want.Value)
	case "subagent.list":
		var got []Subagent
		var expected struct {
			Entries []struct{ ID, Mode, Label, Activity string }
		}
		got, err = c.Subagents(ctx, p.ParentSessionID)
		mustDecode(t, want.Value, &expected)
		var children []Subagent
		for _, e := range expected.Entries {
			children = append(children, Subagent{e.ID, e.Mode, e.Label, e.Activity == "running"})
		}
		if diff := cmp.Diff(children, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", line.Method, diff)
		}
	default: // methods that the bridge does not use yet
		_, err = c.call(ctx, line.Method, sent.RPCID, sent.Payload)
	}
	if want.OK {
		if err != nil {
			t.Errorf("%s: %v", line.Method, err)
		}
		return
	}
	if KindOf(err) != Refused || !IsCode(err, want.Error.Code) || err.(*Error).Message != want.Error.Message {
		t.Errorf("%s: got %v, want the refusal %s: %s", line.Method, err, want.Error.Code, want.Error.Message)
	}
}

func replayAnswer(t *testing.T, c *Client, sent request, response json.RawMessage) {
	t.Helper()
	var result struct {
		Value struct {
			SessionID, ApprovalID, Outcome string
			Answer                         *struct{ Answers []QuestionAnswer }
		}
	}
	if sent.Result != nil {
		mustDecode(t, sent.Result, &result)
	}
	v := result.Value
	if v.SessionID == "" { // recorded to see what the host makes of it; the client sends no such answer
		got, bad := decodeReceipt(string(response))
		if bad != "" {
			t.Error(bad)
		}
		compare(t, "respond", response, &Receipt{}, got)
		return
	}
	answer := Answer{RPCID: sent.RPCID, SessionID: v.SessionID}
	if v.Answer != nil {
		answer.Questions = v.Answer.Answers
	} else {
		answer.Approval = &ApprovalAnswer{ApprovalID: v.ApprovalID, Allow: v.Outcome != "rejected"}
	}
	got, err := c.Respond(t.Context(), answer)
	if err != nil {
		t.Error(err)
	}
	compare(t, "respond", response, &Receipt{}, got)
}

func replayHistory(t *testing.T, c *Client, req HistoryRequest, value json.RawMessage) error {
	t.Helper()
	got, err := c.History(t.Context(), req)
	if value == nil {
		return err
	}
	var expected struct {
		Events  []struct{ Event Event }
		HasMore bool
	}
	mustDecode(t, value, &expected)
	want := HistoryPage{HasMore: expected.HasMore}
	for _, entry := range expected.Events {
		want.Events = append(want.Events, entry.Event)
	}
	if len(want.Events) == 0 {
		t.Error("the recorded page is empty")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("history (-want +got)\n%s", diff)
	}
	return err
}

func sessionsOf(t *testing.T, value json.RawMessage) []Session {
	var list struct {
		Items []struct {
			SessionID, ParentSessionID, Origin, Cwd, AgentPreset string
			UpdatedAt                                            int64
			Running, Blank                                       bool
			Projections                                          struct {
				AsOfSeq int64
				Values  struct{ Title string }
			}
		}
	}
	mustDecode(t, value, &list)
	var sessions []Session
	for _, i := range list.Items {
		sessions = append(sessions, Session{i.SessionID, i.UpdatedAt, i.Running, i.Blank, i.ParentSessionID, i.Origin, i.Cwd,
			i.AgentPreset, i.Projections.Values.Title, i.Projections.AsOfSeq, nil})
	}
	return sessions
}

// compare reads value into want and compares it with got; a refusal has no value.
func compare[T any](t *testing.T, method string, value json.RawMessage, want *T, got T) {
	t.Helper()
	if value != nil {
		mustDecode(t, value, want)
	}
	if diff := cmp.Diff(*want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", method, diff)
	}
}

func mustDecode(t testing.TB, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}

func anyOf(t *testing.T, data []byte) (v any) {
	t.Helper()
	if data != nil {
		mustDecode(t, data, &v)
	}
	return v
}

// Every recorded frame goes through the stream.
func TestCapturedFrames(t *testing.T) {
	eachCapture(t, func(t *testing.T, lines []captured) {
		var frames []json.RawMessage
		for _, line := range lines {
			if line.K == "mux" {
				frames = append(frames, line.Frame)
			}
		}
		stream := streamOf(t, Options{}, func(ctx context.Context, host *hostStream) {
			for _, frame := range frames {
				host.text(string(frame))
			}
			host.closed(1000)
		})
		for _, frame := range frames {
			got, err := stream.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			checkFrame(t, frame, got)
		}
		if _, err := stream.Next(t.Context()); CloseCode(err) != 1000 {
			t.Errorf("the end: %v", err)
		}
		if n := stream.Malformed(); n != 0 {
			t.Errorf("%d frames were taken for malformed", n)
		}
	})
}

// checkFrame compares a decoded frame with what encoding/json makes of it, and asks it for everything it holds.
func checkFrame(t *testing.T, sent json.RawMessage, got Frame) {
	t.Helper()
	var envelope struct {
		RPCID   string
		Payload json.RawMessage
	}
	mustDecode(t, sent, &envelope)
	var p struct {
		Type      FrameKind
		SessionID string
		LastSeq   int64
		Event     Event
	}
	mustDecode(t, envelope.Payload, &p)
	want := Frame{Kind: p.Type, RPCID: envelope.RPCID, SessionID: p.SessionID, EventType: p.Event.Type,
		Seq: p.LastSeq + p.Event.Seq, Payload: envelope.Payload}
	if p.Type == FrameProjection || p.Event.Type == EventChunk {
		want.Payload = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frame (-want +got)\n%s", diff)
	}
	var err error
	switch got.Kind {
	case FrameEvent:
		var e Event
		if got.EventType == EventChunk {
			return
		}
		if e, err = got.Event(); err == nil {
			if diff := cmp.Diff(p.Event, e); diff != "" {
				t.Errorf("event (-want +got)\n%s", diff)
			}
		}
	case FrameQuestionRequested:
		_, err = got.Questions()
	case FrameApprovalRequested:
		_, err = got.Approval()
	case FrameQuestionResolved, FrameApprovalResolved:
		_, err = got.Resolution()
	case FrameQueue:
		_, err = got.Queue()
	case FrameJobs:
		_, err = got.Jobs()
	}
	if err != nil {
		t.Error(err)
	}
}
