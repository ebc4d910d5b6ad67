package dsh

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func frameOf(kind FrameKind, payload string) Frame {
	return Frame{Kind: kind, RPCID: "r-1", SessionID: "s-1", Payload: json.RawMessage(payload)}
}

func TestQuestionsOfAFrame(t *testing.T) {
	got, err := frameOf(FrameQuestionRequested, `{"type":"question/requested","sessionId":"s-1","questions":[
		{"id":"color","question":"Which?","header":"Color","options":[{"label":"red","description":"warm"},{"label":"blue"}]},
		{"id":"tags","question":"Tags?","options":[{"label":"a"}],"multiSelect":true},
		{"id":"plan","question":"Go?","detail":"# Plan","options":[{"label":"Yes"},{"label":"No"}],"intent":{"kind":"plan-review","approve":"Yes"}},
		{"id":"free","question":"Else?"}]}`).Questions()
	want := []Question{
		{ID: "color", Question: "Which?", Header: "Color", Options: []Option{{"red", "warm"}, {"blue", ""}}},
		{ID: "tags", Question: "Tags?", Options: []Option{{"a", ""}}, MultiSelect: true},
		{ID: "plan", Question: "Go?", Detail: "# Plan", Options: []Option{{"Yes", ""}, {"No", ""}}, Intent: json.RawMessage(`{"kind":"plan-review","approve":"Yes"}`)},
		{ID: "free", Question: "Else?"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestApprovalOfAFrame(t *testing.T) {
	got, err := frameOf(FrameApprovalRequested, `{"approvalId":"a-1","toolName":"bash","callId":"call_1|fc_2","reason":"why"}`).Approval()
	if want := (Approval{"a-1", "bash", "call_1|fc_2", "why"}); err != nil || got != want {
		t.Error(got, err)
	}
	got, err = frameOf(FrameApprovalRequested, `{"approvalId":"a-1","toolName":"bash"}`).Approval()
	if want := (Approval{ApprovalID: "a-1", ToolName: "bash"}); err != nil || got != want {
		t.Error(got, err)
	}
}

func TestResolutionOfAFrame(t *testing.T) {
	got, err := frameOf(FrameQuestionResolved, `{"questionRpcId":"r-9","outcome":"answered"}`).Resolution()
	if want := (Resolution{RequestRPCID: "r-9", Outcome: "answered"}); err != nil || got != want {
		t.Error(got, err)
	}
	got, err = frameOf(FrameApprovalResolved, `{"approvalId":"a-9","outcome":"unavailable"}`).Resolution()
	if want := (Resolution{ApprovalID: "a-9", Outcome: "unavailable"}); err != nil || got != want {
		t.Error(got, err)
	}
}

func TestQueueOfAFrame(t *testing.T) {
	got, err := frameOf(FrameQueue, `{"items":[{"id":"m-1","placement":"queued","message":{}},{"id":"m-2","placement":"context"}]}`).Queue()
	if diff := cmp.Diff([]QueueItem{{"m-1", PlacementQueued}, {"m-2", PlacementContext}}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if got, err := frameOf(FrameQueue, `{"items":[]}`).Queue(); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
}

func TestJobsOfAFrame(t *testing.T) {
	got, err := frameOf(FrameJobs, `{"jobs":[{"id":"bash-1","kind":"bash","label":"make","status":"running","startedAt":5},
		{"id":"bash-2","kind":"bash","label":"test","status":"failed","startedAt":5,"finishedAt":9,"detail":"exit code: 3"}]}`).Jobs()
	want := []Job{
		{ID: "bash-1", Kind: "bash", Label: "make", Status: "running", StartedAt: 5},
		{ID: "bash-2", Kind: "bash", Label: "test", Status: "failed", StartedAt: 5, FinishedAt: 9, Detail: "exit code: 3"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestStreamErrorOfAFrame(t *testing.T) {
	code, message, err := frameOf(FrameStreamError, `{"type":"stream/error","error":{"code":"internal","message":"boom","details":{}}}`).StreamError()
	if code != "internal" || message != "boom" || err != nil {
		t.Error(code, message, err)
	}
}

func TestMalformedPayloads(t *testing.T) {
	event := func(f Frame) error { _, err := f.Event(); return err }
	questions := func(f Frame) error { _, err := f.Questions(); return err }
	approval := func(f Frame) error { _, err := f.Approval(); return err }
	resolution := func(f Frame) error { _, err := f.Resolution(); return err }
	queue := func(f Frame) error { _, err := f.Queue(); return err }
	jobs := func(f Frame) error { _, err := f.Jobs(); return err }
	streamError := func(f Frame) error { _, _, err := f.StreamError(); return err }
	tests := []struct {
		read    func(Frame) error
		kind    FrameKind
		payload string
		says    string
	}{
		{event, FrameEvent, ``, "session/event: the value is not an object"},
		{event, FrameEvent, `{}`, "session/event: event.type is missing"},
		{event, FrameEvent, `{"event":{"type":"t","seq":1,"time":1}}`, "event.data is missing"},
		{questions, FrameQuestionRequested, `{}`, "question/requested: questions is missing"},
		{questions, FrameQuestionRequested, `{"questions":[]}`, "questions is empty"},
		{questions, FrameQuestionRequested, `{"questions":[{"question":"?"}]}`, "questions[0].id is missing"},
		{questions, FrameQuestionRequested, `{"questions":[{"id":"a","question":"?","options":["x"]}]}`, "questions[0].options[0] is not an object"},
		{questions, FrameQuestionRequested, `{"questions":[{"id":"a","question":"?","options":[{}]}]}`, "questions[0].options[0].label is missing"},
		{approval, FrameApprovalRequested, `{"toolName":"bash"}`, "approvalId is missing"},
		{approval, FrameApprovalRequested, `{"toolName":"bash","approvalId":"a/b"}`, "approvalId is not a valid id"},
		{approval, FrameApprovalRequested, `{"approvalId":"a"}`, "toolName is missing"},
		{resolution, FrameQuestionResolved, `{"outcome":"answered"}`, "questionRpcId is missing"},
		{resolution, FrameApprovalResolved, `{"outcome":"rejected"}`, "approvalId is missing"},
		{resolution, FrameApprovalResolved, `{"approvalId":"a"}`, "outcome is missing"},
		{queue, FrameQueue, `{"items":{}}`, "items is not an array"},
		{queue, FrameQueue, `{"items":[{"id":"a b","placement":"queued"}]}`, "items[0].id is not a valid id"},
		{jobs, FrameJobs, `{"jobs":[{"id":"a","kind":"bash","label":"x","status":"running"}]}`, "jobs[0].startedAt is missing"},
		{streamError, FrameStreamError, `{"error":{}}`, "error.code is missing"},
	}
	for _, test := range tests {
		err := test.read(frameOf(test.kind, test.payload))
		if KindOf(err) != Malformed || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s %s: %v does not say %q", test.kind, test.payload, err, test.says)
		}
	}
}

// Whatever the order of the members and whatever stands between them, the header is that of the frame.
func TestFrameHeaderProperty(t *testing.T) {
	id := rapid.StringMatching(`[A-Za-z0-9._:@-]{0,30}[A-Za-z0-9]`)
	rapid.Check(t, func(t *rapid.T) {
		members := func(m map[string]any) string {
			var parts []string
			for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(m))).Draw(t, "order") {
				value, ok := m[name].(string)
				if !ok {
					text, err := json.Marshal(m[name])
					if err != nil {
						t.Fatal(err)
					}
					value = string(text)
				}
				parts = append(parts, fmt.Sprintf("%q: %s", name, value))
			}
			return "{" + strings.Join(parts, ", ") + "}"
		}
		quote := func(s string) string {
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		want := Frame{
			Kind:      FrameEvent,
			RPCID:     id.Draw(t, "rpcId"),
			SessionID: id.Draw(t, "sessionId"),
			EventType: rapid.SampledFrom([]string{"turn/start", "tool/result", "novelty"}).Draw(t, "type"),
			Seq:       rapid.Int64Range(0, 1<<53).Draw(t, "seq"),
		}
		data := quote(rapid.String().Draw(t, "data"))
		event := members(map[string]any{"type": quote(want.EventType), "seq": want.Seq, "time": 1, "data": data,
			"sourceEventSeqs": []int{1}})
		payload := members(map[string]any{"type": quote(string(want.Kind)), "sessionId": quote(want.SessionID),
			"event": event, "view": map[string]any{"type": "x", "seq": 3}})
		frame := members(map[string]any{"type": quote("server-request"), "method": quote("x"),
			"rpcId": quote(want.RPCID), "payload": payload})
		want.Payload = json.RawMessage(payload)

		got, bad := decodeFrame([]byte(frame))
		if diff := cmp.Diff(want, got); bad != "" || diff != "" {
			t.Fatal(bad, diff)
		}
		if e, err := got.Event(); err != nil || e.Seq != want.Seq || e.Type != want.EventType || string(e.Data) != data {
			t.Fatal(e, err)
		}
	})
}

// A frame that is passed on keeps no more of the message than its payload, and nobody can write past it.
func TestPayloadHasNoRoomToGrow(t *testing.T) {
	frame, bad := decodeFrame([]byte(goodFrame))
	if bad != "" || cap(frame.Payload) != len(frame.Payload) {
		t.Error(bad, cap(frame.Payload), len(frame.Payload))
	}
}
