package dsh

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSessionsOfAllSorts(t *testing.T) {
	c := clientOf(t, Options{}, answering(t, `{"ok":true,"value":{"items":[
		{"sessionId":"live","updatedAt":1796059198689,"running":true,"blank":false,"projections":{"asOfSeq":12,"values":{"title":"A"}}},
		{"sessionId":"cold","updatedAt":1796059198689.25,"running":false,"blank":false},
		{"sessionId":"new","updatedAt":1,"running":false,"blank":true,"projections":{"asOfSeq":-1,"values":{"title":null}}},
		{"sessionId":"a stranger's","updatedAt":1,"running":false,"blank":true},
		{"sessionId":"odd","updatedAt":1,"running":false,"blank":true,"parentSessionId":"a stranger's"},
		{"sessionId":"child","updatedAt":1,"running":false,"blank":false,"parentSessionId":"live","origin":"subagent",
		 "cwd":"/w","agentPreset":"code","projections":{"asOfSeq":"?","values":{"title":7}}}
	]}}`))
	got, err := c.Sessions(t.Context())
	want := []Session{
		{ID: "live", UpdatedAt: 1796059198689, Running: true, Title: "A", LastSeq: 12},
		{ID: "cold", UpdatedAt: 1796059198689, LastSeq: -1},
		{ID: "new", UpdatedAt: 1, Blank: true, LastSeq: -1},
		{ID: "child", UpdatedAt: 1, ParentSessionID: "live", Origin: OriginSubagent, Cwd: "/w", AgentPreset: "code", LastSeq: -1},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestSubagents(t *testing.T) {
	c := clientOf(t, Options{}, answering(t, `{"ok":true,"value":{"parentAvailable":true,"entries":[
		{"kind":"child","id":"a","mode":"one-shot","activity":"running","hasChildren":false},
		{"kind":"diagnostic","id":"b","reason":"corrupt"},
		{"kind":"child","id":"c","mode":"continuable","label":"helper","activity":"inactive","hasChildren":true}
	]}}`))
	got, err := c.Subagents(t.Context(), "s-1")
	want := []Subagent{{"a", "one-shot", "", true}, {"c", "continuable", "helper", false}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestBrokenPresets(t *testing.T) {
	c := clientOf(t, Options{}, answering(t, `{"ok":true,"value":{"presets":[
		{"id":"standard","trust":"system","isDefault":true},
		{"id":"mine","trust":"user","isDefault":false,"name":"Mine","broken":"no such tool"}
	]}}`))
	got, err := c.Presets(t.Context())
	want := []Preset{
		{ID: "standard", Trust: "system", IsDefault: true},
		{ID: "mine", Trust: "user", Name: "Mine", Broken: []byte(`"no such tool"`)},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// An answer that lacks what the wire promises is refused with the name of what is missing.
func TestMalformedValues(t *testing.T) {
	sessions := func(c *Client, t *testing.T) error { _, err := c.Sessions(t.Context()); return err }
	history := func(c *Client, t *testing.T) error {
		_, err := c.History(t.Context(), HistoryRequest{SessionID: "s-1"})
		return err
	}
	create := func(c *Client, t *testing.T) error {
		_, err := c.Create(t.Context(), CreateRequest{SessionID: "s-1"})
		return err
	}
	models := func(c *Client, t *testing.T) error { _, err := c.Models(t.Context(), "s-1"); return err }
	presets := func(c *Client, t *testing.T) error { _, err := c.Presets(t.Context()); return err }
	children := func(c *Client, t *testing.T) error { _, err := c.Subagents(t.Context(), "s-1"); return err }
	cancel := func(c *Client, t *testing.T) error { return c.Cancel(t.Context(), "s-1") }
	rename := func(c *Client, t *testing.T) error { return c.Rename(t.Context(), "s-1", "x") }

	const row = `{"sessionId":"a","updatedAt":1,"running":false,"blank":true}`
	event := func(seq int) string { return fmt.Sprintf(`{"event":{"type":"t","seq":%d,"time":1,"data":{}}}`, seq) }
	tests := []struct {
		call  func(*Client, *testing.T) error
		value string
		says  string
	}{
		{sessions, `{}`, "items is missing"},
		{sessions, `{"items":null}`, "items is missing"},
		{sessions, `{"items":{}}`, "items is not an array"},
		{sessions, `{"items":[1]}`, "items[0] is not an object"},
		{sessions, `{"items":[` + row + `,` + row + `,{"updatedAt":1,"running":false,"blank":true}]}`, "items[2].sessionId is missing"},
		{sessions, `{"items":[` + strings.Replace(row, "1", `"1"`, 1) + `]}`, "items[0].updatedAt is not a number"},
		{sessions, `{"items":[` + strings.Replace(row, "false", `0`, 1) + `]}`, "items[0].running is not a boolean"},
		{sessions, `{"items":[` + strings.Replace(row, `"a"`, `7`, 1) + `]}`, "items[0].sessionId is not a string"},
		{history, `{"events":[]}`, "hasMore is missing"},
		{history, `{"hasMore":false}`, "events is missing"},
		{history, `{"hasMore":false,"events":[{}]}`, "events[0].event.type is missing"},
		{history, `{"hasMore":false,"events":[{"event":{"type":"","seq":1,"time":1,"data":{}}}]}`, "events[0].event.type is empty"},
		{history, `{"hasMore":false,"events":[{"event":{"type":"t","time":1,"data":{}}}]}`, "events[0].event.seq is missing"},
		{history, `{"hasMore":false,"events":[{"event":{"type":"t","seq":1,"time":1}}]}`, "events[0].event.data is missing"},
		{history, `{"hasMore":false,"events":[{"event":{"type":"t","seq":1.5,"time":1,"data":{}}}]}`, "events[0].event.seq is not an integer"},
		{history, `{"hasMore":false,"events":[` + event(-1) + `]}`, "events[0].event.seq is negative"},
		{history, `{"hasMore":false,"events":[` + event(4) + `,` + event(6) + `]}`, "events[1].event.seq does not follow"},
		{history, `{"hasMore":false,"events":[` + event(4) + `,` + event(4) + `]}`, "events[1].event.seq does not follow"},
		{history, `{"hasMore":false,"events":[` + event(4) + `,` + event(3) + `]}`, "events[1].event.seq does not follow"},
		{create, `{"agentPreset":"x"}`, "sessionId is missing"},
		{create, `{"sessionId":"a b"}`, "sessionId is not a valid id"},
		{create, `{"sessionId":"other"}`, "sessionId is not the one asked for"},
		{models, `{"routable":true}`, "current.provider is missing"},
		{models, `{"current":{"provider":"p","model":"m"}}`, "routable is missing"},
		{presets, `{"presets":[{"trust":"user","isDefault":true}]}`, "presets[0].id is missing"},
		{children, `{"entries":[{"kind":"child","mode":"one-shot","activity":"running"}]}`, "entries[0].id is missing"},
		{children, `{"entries":[{"kind":"child","id":"../x","mode":"one-shot","activity":"running"}]}`, "entries[0].id is not a valid id"},
		{cancel, `{}`, "accepted is missing"},
		{cancel, `{"accepted":false}`, "accepted is not true"},
		{rename, `{}`, "seq is missing"},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			c := clientOf(t, Options{}, answering(t, `{"ok":true,"value":`+test.value+`}`))
			err := test.call(c, t)
			if KindOf(err) != Malformed || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want it to say %q", err, test.says)
			}
		})
	}
}

func TestHistoryPages(t *testing.T) {
	tests := map[string]struct {
		req     HistoryRequest
		method  string
		payload string
	}{
		"the end":    {HistoryRequest{SessionID: "s-1"}, "session.history", `{"sessionId":"s-1"}`},
		"a page":     {HistoryRequest{SessionID: "s-1", BeforeSeq: 9, MaxMessages: 5}, "session.history", `{"sessionId":"s-1","beforeSeq":9,"maxMessages":5}`},
		"a subagent": {HistoryRequest{SessionID: "c-1", ParentSessionID: "s-1", SubagentMode: "one-shot"}, "subagent.history", `{"parentSessionId":"s-1","childSessionId":"c-1","mode":"one-shot"}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := clientOf(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				got := readRequest(t, r)
				if diff := cmp.Diff(anyOf(t, []byte(test.payload)), anyOf(t, got.Payload)); got.Method != test.method || diff != "" {
					t.Error(got.Method, diff)
				}
				writeResult(t, w, got.RPCID, []byte(`{"ok":true,"value":{"hasMore":true,"events":[`+
					`{"event":{"type":"turn/start","seq":7,"time":1.5,"data":{"turn":1},"new":1},"view":{}},`+
					`{"event":{"type":"novelty","seq":8,"time":2,"data":[1, 2]}}]}}`))
			})
			got, err := c.History(t.Context(), test.req)
			want := HistoryPage{HasMore: true, Events: []Event{
				{Type: "turn/start", Seq: 7, Time: 1, Data: []byte(`{"turn":1}`)},
				{Type: "novelty", Seq: 8, Time: 2, Data: []byte(`[1, 2]`)},
			}}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

func TestPromptOnTheWire(t *testing.T) {
	c := clientOf(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		got := readRequest(t, r)
		want := `{"sessionId":"s-1","mode":"steer","content":[{"type":"text","text":"a <b> \u0000"}],"clientTimeZone":"Europe/Vienna"}`
		if diff := cmp.Diff(anyOf(t, []byte(want)), anyOf(t, got.Payload)); got.RPCID != "mine-1" || diff != "" {
			t.Error(got.RPCID, diff)
		}
		writeResult(t, w, got.RPCID, []byte(`{"ok":true,"value":{"accepted":true,"command":{"kind":"success"}}}`))
	})
	err := c.Prompt(t.Context(), PromptRequest{RPCID: "mine-1", SessionID: "s-1", Mode: ModeSteer, Text: "a <b> \x00", TimeZone: "Europe/Vienna"})
	if err != nil {
		t.Error(err)
	}
}

// Calls choose an id of their own each time.
func TestEveryCallHasItsOwnID(t *testing.T) {
	seen := map[string]bool{}
	c := clientOf(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		got := readRequest(t, r)
		if seen[got.RPCID] || !ValidID(got.RPCID) {
			t.Errorf("rpcId %q", got.RPCID)
		}
		seen[got.RPCID] = true
		writeResult(t, w, got.RPCID, []byte(`{"ok":true,"value":{"accepted":true}}`))
	})
	for range 3 {
		if err := c.Cancel(t.Context(), "s-1"); err != nil {
			t.Fatal(err)
		}
	}
}
