package dsh

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestContent(t *testing.T) {
	tests := map[string]struct {
		read func(Event) any
		data string
		want any
	}{
		"turn/start": {wrap(TurnOf), `{"turn":3}`, TurnBody{Turn: 3}},
		"step/end":   {wrap(TurnOf), `{"turn":3,"step":2}`, TurnBody{Turn: 3, Step: 2}},

		"completed":   {wrap(TurnEndOf), `{"turn":1,"reason":{"kind":"completed"}}`, TurnEnd{Turn: 1, Kind: TurnCompleted}},
		"aborted":     {wrap(TurnEndOf), `{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"user"}}}`, TurnEnd{Turn: 1, Kind: TurnAborted, Cause: "user"}},
		"interrupted": {wrap(TurnEndOf), `{"turn":1,"reason":{"kind":"interrupted"}}`, TurnEnd{Turn: 1, Kind: TurnInterrupted}},
		"failed": {wrap(TurnEndOf), `{"turn":1,"reason":{"kind":"error","error":{"message":"lab","code":"INVALID_REQUEST","status":400}}}`,
			TurnEnd{Turn: 1, Kind: TurnError, ErrorMessage: "lab", ErrorCode: "INVALID_REQUEST", ErrorStatus: 400}},
		"failed in short": {wrap(TurnEndOf), `{"turn":1,"reason":{"kind":"error","error":{"message":"lab"}}}`,
			TurnEnd{Turn: 1, Kind: TurnError, ErrorMessage: "lab"}},
		"another end": {wrap(TurnEndOf), `{"turn":1,"reason":{"kind":"max-tokens"}}`, TurnEnd{Turn: 1, Kind: "max-tokens"}},

		"assistant": {wrap(AssistantMessageOf), `{"turn":1,"step":2,"message":{"role":"assistant","content":[{"type":"reasoning","text":"hm"},
			{"type":"text","text":"Hello "},{"type":"tool-call","id":"call_1","name":"bash","arguments":"{\"command\":\"ls\"}"},
			{"type":"text","text":"world"}]},"usage":{},"interrupted":true}`,
			AssistantMessage{Turn: 1, Step: 2, Text: "Hello world", ToolCalls: []ToolCall{{"call_1", "bash", `{"command":"ls"}`}}, Interrupted: true}},
		"assistant without text": {wrap(AssistantMessageOf), `{"turn":1,"step":1,"message":{"content":[{"type":"tool-call","id":"c","name":"n","arguments":""}]}}`,
			AssistantMessage{Turn: 1, Step: 1, ToolCalls: []ToolCall{{"c", "n", ""}}}},

		"a person": {wrap(UserMessageOf), `{"content":[{"type":"text","text":"do "},{"type":"image"},{"type":"text","text":"it"}],"source":{"kind":"user","rpcId":"r-1"},"role":"user","id":"m-1"}`,
			UserMessage{ID: "m-1", Text: "do it", SourceKind: SourceUser, RPCID: "r-1"}},
		"a plugin": {wrap(UserMessageOf), `{"content":[{"type":"text","text":"ctx"}],"source":{"kind":"plugin","plugin":"@scope/jobs","form":"notice","summary":"done"},"role":"user","id":"m-2"}`,
			UserMessage{ID: "m-2", Text: "ctx", SourceKind: SourcePlugin, Plugin: "@scope/jobs", Summary: "done"}},
		"a goal": {wrap(UserMessageOf), `{"content":[{"type":"text","text":"go on"}],"source":{"kind":"goal","goalId":"g","revision":1,"round":1},"id":"m-3"}`,
			UserMessage{ID: "m-3", Text: "go on", SourceKind: SourceGoal, Goal: GoalRef{ID: "g", Revision: 1}, Round: 1}},
		"odd ids": {wrap(UserMessageOf), `{"content":[],"source":{"kind":"user","rpcId":"a b"},"id":"../m"}`, UserMessage{SourceKind: SourceUser}},

		"tool/call": {wrap(ToolCallOf), `{"turn":1,"step":1,"callId":"call_1|fc_1","name":"bash","arguments":"{}"}`, ToolCall{"call_1|fc_1", "bash", "{}"}},
		"tool/result": {wrap(ToolResultOf), `{"turn":1,"step":1,"message":{"source":{"kind":"tool","callId":"call_1"},"content":[{"type":"tool-result","toolCallId":"call_1",
			"content":[{"type":"text","text":"one\n"},{"type":"image"},{"type":"text","text":"two"}],"isError":false}],"role":"user"}}`, ToolResult{"call_1", "one\ntwo", false}},
		"failed tool": {wrap(ToolResultOf), `{"message":{"content":[{"type":"tool-result","toolCallId":"call_2","content":[{"type":"text","text":"no"}],"isError":true}]}}`, ToolResult{"call_2", "no", true}},

		"queued": {wrap(InboxOf), `{"target":"next-turn","start":0,"inserted":[{"content":[],"source":{"kind":"user","rpcId":"r-1"},"role":"user","id":"m-1"}]}`,
			Inbox{Target: InboxNextTurn, Inserted: []InboxItem{{"m-1", "r-1", SourceUser}}}},
		"taken up":  {wrap(InboxOf), `{"target":"next-turn","start":1,"removedCount":1,"inserted":[]}`, Inbox{Target: InboxNextTurn, Start: 1, Removed: 1}},
		"taken out": {wrap(InboxOf), `{"target":"next-step","start":0,"removedCount":2,"inserted":[],"outcome":"canceled"}`, Inbox{Target: InboxNextStep, Removed: 2, Canceled: true}},

		"asked":   {wrap(ApprovalAskedOf), `{"id":"a-1","toolName":"bash","callId":"call_1","reason":"why"}`, Approval{"a-1", "bash", "call_1", "why"}},
		"decided": {wrap(ApprovalDecidedOf), `{"id":"a-1","outcome":"rejected"}`, Resolution{ApprovalID: "a-1", Outcome: "rejected"}},
		"title":   {wrap(TitleOf), `{"title":"Fix \"it\"","messageSeqs":[7],"source":{"kind":"user"}}`, `Fix "it"`},
		"descriptor": {wrap(SubagentDescriptorOf), `{"version":2,"mode":"one-shot","provider":"spawn","label":"child"}`,
			SubagentDescriptor{"one-shot", "child"}},

		"goal": {wrap(GoalChangeOf), `{"kind":"goal/change","version":1,"operation":"create","goal":{"id":"g-1","revision":1,"objective":"pass","phase":"active","maxGoalRounds":2}}`,
			GoalChange{"create", Goal{Ref: GoalRef{"g-1", 1}, Objective: "pass", Phase: "active", MaxRounds: 2}}},
		"blocked goal": {wrap(GoalChangeOf), `{"operation":"block","goal":{"id":"g-1","revision":2,"objective":"pass","phase":"blocked","blockedReason":{"code":"c","message":"stuck"}}}`,
			GoalChange{"block", Goal{Ref: GoalRef{"g-1", 2}, Objective: "pass", Phase: "blocked", Reason: "stuck", ReasonCode: "c"}}},
		"cleared goal": {wrap(GoalChangeOf), `{"operation":"clear","cleared":{"id":"g-1","revision":3},"clearedAt":1}`,
			GoalChange{"clear", Goal{Ref: GoalRef{"g-1", 3}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := test.read(Event{Data: json.RawMessage(test.data)})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func wrap[T any](read func(Event) T) func(Event) any { return func(e Event) any { return read(e) } }

// readers are the readers of all bodies.
var readers = []func(Event) any{
	wrap(TurnOf), wrap(TurnEndOf), wrap(AssistantMessageOf), wrap(UserMessageOf), wrap(ToolCallOf), wrap(ToolResultOf),
	wrap(InboxOf), wrap(ApprovalAskedOf), wrap(ApprovalDecidedOf), wrap(TitleOf), wrap(SubagentDescriptorOf),
	wrap(GoalChangeOf),
}

// A body of another shape reads as the zero value.
func TestOddBodiesReadAsNothing(t *testing.T) {
	for _, data := range []string{``, `null`, `7`, `"text"`, `[]`, `[{"turn":1}]`, `{}`, `{"message":[],"content":{},"reason":{},"inserted":{},"goal":[]}`,
		`{"turn":"1","step":-1,"message":{"content":"x"},"source":[],"id":{},"title":1,"mode":false,"operation":null,"target":[]}`,
		`{"turn":1e99,"step":1.5,"message":{"content":[1,"x",null,[]]},"content":[{"type":7,"text":1}]}`} {
		for i, read := range readers {
			got, zero := read(Event{Data: json.RawMessage(data)}), read(Event{})
			if diff := cmp.Diff(zero, got); diff != "" {
				t.Errorf("reader %d makes something of %s:\n%s", i, data, diff)
			}
		}
	}
}

// What a real host records is read in full: no event of these types comes out empty.
func TestCapturedContent(t *testing.T) {
	byType := map[string]func(Event) any{
		"turn/start": wrap(TurnOf), "step/start": wrap(TurnOf), "step/end": wrap(TurnOf), "turn/end": wrap(TurnEndOf),
		"assistant/message": wrap(AssistantMessageOf), "user/message": wrap(UserMessageOf), "tool/call": wrap(ToolCallOf),
		"tool/result": wrap(ToolResultOf), "agent/inbox/spliced": wrap(InboxOf), "approval/asked": wrap(ApprovalAskedOf),
		"approval/decided": wrap(ApprovalDecidedOf), "session/title": wrap(TitleOf),
		"subagent/descriptor": wrap(SubagentDescriptorOf), "goal/change": wrap(GoalChangeOf),
	}
	seen := map[string]bool{}
	eachCapture(t, func(t *testing.T, lines []captured) {
		for _, line := range lines {
			if line.K != "mux" {
				continue
			}
			var frame struct{ Payload struct{ Event Event } }
			mustDecode(t, line.Frame, &frame)
			e := frame.Payload.Event
			read, ok := byType[e.Type]
			if !ok {
				continue
			}
			seen[e.Type] = true
			if cmp.Equal(read(e), read(Event{})) {
				t.Errorf("%s %d reads as nothing", e.Type, e.Seq)
			}
			switch got := read(e).(type) {
			case UserMessage:
				if got.ID == "" || got.Text == "" || got.SourceKind == "" {
					t.Errorf("user/message %d: %+v", e.Seq, got)
				}
			case AssistantMessage:
				if got.Text == "" && len(got.ToolCalls) == 0 {
					t.Errorf("assistant/message %d: %+v", e.Seq, got)
				}
			case ToolResult:
				if got.CallID == "" || got.Text == "" {
					t.Errorf("tool/result %d: %+v", e.Seq, got)
				}
			}
		}
	})
	for kind := range byType {
		if !seen[kind] {
			t.Errorf("no capture has a %s", kind)
		}
	}
}
