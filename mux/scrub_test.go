package mux

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// What is kept of an event is what coordination needs, and nothing of what it says.
func TestScrub(t *testing.T) {
	const canary = "CANARY"
	for _, tt := range []struct {
		kind, data string
		want       ledger.Coordination
	}{
		{"turn/start", `{"turn":3,"text":"CANARY"}`, ledger.Coordination{Turn: 3}},
		{"step/end", `{"turn":3,"step":2}`, ledger.Coordination{Turn: 3, Step: 2}},
		{"tool/call", `{"turn":1,"step":2,"callId":"CANARY","name":"CANARY","arguments":"{\"command\":\"CANARY\"}"}`, ledger.Coordination{Turn: 1, Step: 2}},
		{"tool/result", `{"turn":1,"step":2,"message":{"content":[{"content":[{"type":"text","text":"CANARY"}]}]}}`, ledger.Coordination{Turn: 1, Step: 2}},
		{"assistant/message", `{"turn":1,"step":2,"message":{"content":[{"type":"text","text":"CANARY"}]}}`, ledger.Coordination{Turn: 1, Step: 2, Text: true}},
		{"assistant/message", `{"turn":1,"step":2,"message":{"content":[{"type":"tool-call","id":"CANARY","name":"CANARY"}]}}`, ledger.Coordination{Turn: 1, Step: 2}},
		{"user/message", `{"id":"m","content":[{"type":"text","text":"CANARY"}],"source":{"kind":"user","rpcId":"p-1"}}`, ledger.Coordination{SourceKind: "user", RequestID: "p-1"}},
		{"user/message", `{"content":[{"type":"text","text":"CANARY"}],"source":{"kind":"plugin","plugin":"CANARY","summary":"CANARY"}}`, ledger.Coordination{SourceKind: "plugin"}},
		{"user/message", `{"source":{"kind":"CANARY","rpcId":"CANARY is no id"}}`, ledger.Coordination{SourceKind: "other"}},
		{"agent/inbox/spliced", `{"target":"next-turn","start":1,"removedCount":2,"inserted":[{"id":"i-1","content":[{"type":"text","text":"CANARY"}],"source":{"kind":"user","rpcId":"p-1"}},{"id":"CANARY no id"}],"outcome":"canceled"}`,
			ledger.Coordination{Outcome: "canceled", Inbox: &ledger.InboxChange{Target: "next-turn", Start: 1, Removed: 2, Inserted: []ledger.InboxItem{{ID: "i-1", RequestID: "p-1"}, {}}}}},
		{"agent/inbox/spliced", `{"target":"CANARY","outcome":"CANARY"}`, ledger.Coordination{Inbox: &ledger.InboxChange{Target: "other"}}},
		{"approval/asked", `{"id":"a-1","toolName":"CANARY","callId":"CANARY","reason":"CANARY"}`, ledger.Coordination{ApprovalID: "a-1"}},
		{"approval/decided", `{"id":"a-1","outcome":"rejected"}`, ledger.Coordination{ApprovalID: "a-1", Outcome: "rejected"}},
		{"approval/decided", `{"id":"a-1","outcome":"CANARY"}`, ledger.Coordination{ApprovalID: "a-1", Outcome: "other"}},
		{"subagent/descriptor", `{"mode":"one-shot","label":"CANARY"}`, ledger.Coordination{Mode: "one-shot"}},
		{"turn/end", `{"turn":1,"reason":{"kind":"error","error":{"message":"CANARY","code":"CANARY"}}}`, ledger.Coordination{Turn: 1, Reason: "error"}},
		{"turn/end", `{"turn":1,"reason":{"kind":"CANARY"}}`, ledger.Coordination{Turn: 1, Reason: "other"}},
		{"turn/end", `{}`, ledger.Coordination{Reason: "other"}},
		{"session/title", `{"title":"CANARY"}`, ledger.Coordination{}},
		{"request/header", `{"header":{"system":"CANARY","tools":[{"name":"CANARY"}]}}`, ledger.Coordination{}},
		{"goal/change", `{"operation":"block","goal":{"id":"g-1","revision":2,"objective":"CANARY","phase":"blocked","maxGoalRounds":9,"blockedReason":{"code":"CANARY","message":"CANARY"}},"roundsStarted":3}`,
			ledger.Coordination{Goal: &ledger.GoalChange{ID: "g-1", Revision: 2, Operation: "block", Phase: "blocked", Rounds: 3, MaxRounds: 9}}},
		{"goal/change", `{"operation":"CANARY","goal":{"id":"g-1","phase":"CANARY"}}`, ledger.Coordination{Goal: &ledger.GoalChange{ID: "g-1", Operation: "other", Phase: "other"}}},
		{"goal/change", `{"operation":"clear","cleared":{"id":"g-1","revision":3}}`, ledger.Coordination{Goal: &ledger.GoalChange{ID: "g-1", Revision: 3, Operation: "clear"}}},
		{"goal/change", `{"operation":"edit","goal":{"id":"CANARY is no id","phase":"active"}}`, ledger.Coordination{}},
		{"user/message", `{"content":[{"type":"text","text":"CANARY"}],"source":{"kind":"goal","goalId":"g-1","revision":2,"round":4}}`,
			ledger.Coordination{SourceKind: "goal", Goal: &ledger.GoalChange{ID: "g-1", Revision: 2, Operation: "round", Rounds: 4}}},
		{"user/message", `{"content":[{"type":"text","text":"CANARY"}],"source":{"kind":"goal","goalId":"CANARY no id","round":4}}`, ledger.Coordination{SourceKind: "goal"}},
		{"CANARY of a type", `{"turn":1}`, ledger.Coordination{Event: "other"}},
	} {
		entry := scrub(dsh.Event{Type: tt.kind, Seq: 7, Time: 9, Data: json.RawMessage(tt.data)}, 4, source{id: "child", parent: "root", origin: ledger.OriginSubagent})
		tt.want.Time = 9
		if tt.want.Event == "" {
			tt.want.Event = tt.kind
		}
		want := ledger.Entry{From: 4, Record: ledger.Record{SourceSessionID: "child", ParentSessionID: "root", Origin: "subagent",
			SourceSeq: new(int64(7)), Type: ledger.TypeEvent, Coordination: tt.want}}
		if diff := cmp.Diff(want, entry); diff != "" {
			t.Errorf("%s %s\n%s", tt.kind, tt.data, diff)
		}
		if line, err := json.Marshal(entry); err != nil || strings.Contains(string(line), canary) {
			t.Errorf("%s: %s (%v)", tt.kind, line, err)
		}
	}
}

// What a log line says of an error has none of the host's own words.
func TestErrorsInTheLog(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "<nil>"},
		{errDisk, "the disk is broken"},
		{refused("session.history", "internal"), "session.history: refused by the host (internal)"},
		{refused("session.history", "a whole sentence"), "session.history: refused by the host ()"},
		{&dsh.Error{Kind: dsh.Malformed, Method: "session.list", Message: "CANARY"}, "session.list: malformed answer"},
		{&dsh.Error{Kind: dsh.OutcomeUnknown, Method: "events.mux", Message: "the connection broke"}, "events.mux: outcome unknown: the connection broke"},
	} {
		if got := logged(tt.err); got != tt.want {
			t.Errorf("logged %q, want %q", got, tt.want)
		}
	}
}

// FuzzScrub takes any event. Every string of what is kept is an id or a word.
func FuzzScrub(f *testing.F) {
	for _, kind := range []string{"turn/start", "turn/end", "tool/call", "assistant/message", "user/message", "agent/inbox/spliced", "approval/asked", "approval/decided", "subagent/descriptor", "a sentence"} {
		f.Add(kind, []byte(`{"turn":1,"step":-1,"id":"a b","reason":{"kind":"c d"},"outcome":"e f","mode":"g h","target":"i j","removedCount":1e99,"start":-5,
			"source":{"kind":"k l","rpcId":"m n"},"inserted":[{"id":"o p","source":{"rpcId":"q r"}},null,3],"message":{"content":[{"type":"text","text":"s"}]}}`))
		f.Add(kind, []byte(`null`))
		f.Add(kind, []byte(`{"inserted":{"0":1},"reason":[],"message":"x"}`))
	}
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		entry := scrub(dsh.Event{Type: kind, Data: data}, 0, source{id: "s", origin: ledger.OriginRoot})
		line, err := json.Marshal(entry.Coordination)
		if err != nil {
			t.Fatal(err)
		}
		var kept any
		if err := json.Unmarshal(line, &kept); err != nil {
			t.Fatal(err)
		}
		checkWords(t, kept)
	})
}

func checkWords(t *testing.T, kept any) {
	switch v := kept.(type) {
	case string:
		if !ledger.IsWord(v) {
			t.Errorf("%q was kept", v)
		}
	case []any:
		for _, element := range v {
			checkWords(t, element)
		}
	case map[string]any:
		for _, member := range v {
			checkWords(t, member)
		}
	}
}
