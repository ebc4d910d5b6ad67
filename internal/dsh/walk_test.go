package dsh

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// carefully is decodeHistory without its quick way.
func carefully(text string) (page HistoryPage, bad string) {
	o := root(gjson.Parse(text), &bad)
	readPage(o, &page, &bad)
	return page, bad
}

// Whatever the quick way takes, the careful one takes as well, and makes the same of it.
func checkWalk(t *testing.T, text string) (quick bool) {
	t.Helper()
	page, ok := walkHistory(text)
	if !ok {
		return false
	}
	want, bad := carefully(text)
	if bad != "" {
		t.Fatalf("%q was taken, but %s", text, bad)
	}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Fatalf("%q:\n%s", text, diff)
	}
	return true
}

func TestQuickHistory(t *testing.T) {
	const event = `{"event":{"type":"turn/start","seq":4,"time":1796059200372,"data":{"turn":1}}}`
	for text, quick := range map[string]bool{
		`{"events":[],"hasMore":false}`:                                                                               true,
		`{"events":[` + event + `],"hasMore":true,"projections":{"asOfSeq":4}}`:                                       true,
		`{ "hasMore" : true , "events" : [ ` + event + ` ] } `:                                                        true,
		`{"events":[{"view":{"a":"}]\\\""},"event":{"data":[1,"]\\"],"time":0,"seq":0,"type":"x"}}],"hasMore":false}`: true,
		`{"events":[` + event + `,` + event + `],"hasMore":true}`:                                                     false, // a seq twice
		`{"events":[` + event + `]}`:                                                                                  false,
		`{"hasMore":true}`:                                                                                            false,
		`{"hasMore":true,"hasMore":false,"events":[]}`:                                                                false,
		`{"events":[{}],"hasMore":false}`:                                                                             false,
		`{"events":[3],"hasMore":false}`:                                                                              false,
		`{"events":{},"hasMore":false}`:                                                                               false,
		`{"events":[{"event":{"type":"x","seq":1,"time":1.5,"data":{}}}],"hasMore":false}`:                            false, // a fraction
		`{"events":[{"event":{"type":"x","seq":1,"time":1,"data":null}}],"hasMore":false}`:                            false,
		`{"events":[{"event":{"type":"","seq":1,"time":1,"data":{}}}],"hasMore":false}`:                               false,
		`{"events":[{"event":{"type":"a\u0062","seq":1,"time":1,"data":{}}}],"hasMore":false}`:                        false, // an escape
		`{"events":[{"event":{"type":"x","seq":-1,"time":1,"data":{}}}],"hasMore":false}`:                             false,
		`{"events":[{"event":{"type":"x","seq":1,"seq":2,"time":1,"data":{}}}],"hasMore":false}`:                      false,
		`{"events":[{"event":{"type":"x","seq":1234567890123456,"time":1,"data":{}}}],"hasMore":false}`:               false,
		`[]`: false, `3`: false, `null`: false, `""`: false,
	} {
		if got := checkWalk(t, text); got != quick {
			t.Errorf("%s: quick is %t", text, got)
		}
	}
}

// The pages of a real host are of the plain form.
func TestRealHistoriesAreQuick(t *testing.T) {
	n := 0
	for _, line := range readCapture(t, "testdata/captures/subagent.jsonl") {
		if line.Method != "session.history" && line.Method != "subagent.history" {
			continue
		}
		n++
		if text := gjson.GetBytes(line.Response, "result.value").Raw; text != "" && !checkWalk(t, text) {
			t.Errorf("not quick: %.200s", text)
		}
	}
	if n == 0 {
		t.Error("the capture has no history")
	}
}

func FuzzWalkHistory(f *testing.F) {
	f.Add(`{"events":[{"event":{"type":"x","seq":1,"time":1,"data":{}},"view":[]}],"hasMore":false}`)
	f.Fuzz(func(t *testing.T, text string) {
		page, _ := walkHistory(text) // ends on any text
		for _, e := range page.Events {
			if cap(e.Data) != len(e.Data) {
				t.Fatal("a body has room to grow into its neighbour")
			}
		}
		if validJSON(text) {
			checkWalk(t, text)
		}
	})
}

func TestQuickEnvelope(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"server-response","rpcId":"r","result":{"ok":true,"value":{"a":[1,"]"]}}}`:              `{"a":[1,"]"]}`,
		`{"rpcId":"r", "type":"server-response","result":{ "ok":true,"value": 3}}`:                       `3`,
		`{"result":{"value":3,"ok":true},"rpcId":"r","type":"server-response"}`:                          "",
		`{"type":"server-response","rpcId":"r","result":{"ok":true,"value":3,"x":{}}}`:                   "",
		`{"type":"server-response","rpcId":"r","result":{"ok":true,"value":3},"x":{}}`:                   "",
		`{"type":"server-response","rpcId":"r","result":{"ok":true,"value":3 }}`:                         "",
		`{"type":"server-response","rpcId":"r","result":{"ok":true,"value":3}} `:                         "",
		`{"type":"server-response","rpcId":"r","result":{"ok":true,"value":3}`:                           "",
		`{"type":"server-response","rpcId":"r","result":{"x":1,"ok":true,"value":3}}`:                    "",
		`{"type":"server-response","rpcId":"r","result":{"ok":false,"value":3}}`:                         "",
		`{"type":"server-response","rpcId":"other","result":{"ok":true,"value":3}}`:                      "",
		`{"type":"server-request","rpcId":"r","result":{"ok":true,"value":3}}`:                           "",
		`{"type":"server-response","rpcId":"r","result":{"ok":true}}`:                                    "",
		`{"type":"server-response","rpcId":"r","result":{"value":3}}`:                                    "",
		`{"type":"server-response","rpcId":"r","result":{"ok":true,"value":}}`:                           "",
		`{"type":"server-response","type":"server-response","rpcId":"r","result":{"ok":true,"value":3}}`: "",
		`{"type":"server-response","rpcId":"r","result":{"ok":true,"value":3},"result":{"ok":true}}`:     "",
		`{"type":"server-response","rpcId":"r","result":{"ok":false,"ok":true,"value":3}}`:               "",
		`{"type":"server-response","rpcId":"r","result":[]}`:                                             "",
		`[]`: "",
	} {
		value, ok := cutEnvelope(text, "r")
		ok = ok && validJSON(value)
		if ok != (want != "") || (ok && value != want) {
			t.Errorf("%s: %q, %t", text, value, ok)
		}
	}
}

// checkHeader holds the quick way of reading a frame against the careful one.
func checkHeader(t *testing.T, data []byte) (quick bool) {
	t.Helper()
	f, ok := walkFrame(data)
	if !ok {
		return false
	}
	want, bad := readFrame(data)
	if bad != "" {
		t.Fatalf("%q was taken, but %s", data, bad)
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Fatalf("%q:\n%s", data, diff)
	}
	return true
}

func TestQuickFrames(t *testing.T) {
	for text, quick := range map[string]bool{
		`{"type":"server-request","rpcId":"r","method":"m","payload":{"type":"session/event","sessionId":"s","event":{"type":"turn/start","seq":4,"time":1,"data":{}}}}`: true,
		`{"rpcId":"r","payload":{"type":"session/event","sessionId":"s","event":{"type":"assistant/chunk","seq":4,"data":`:                                               true, // nobody reads the rest
		`{"rpcId":"r","payload":{"type":"session/projection","sessionId":"s","value":`:                                                                                   true,
		`{"rpcId":"r","payload":{"type":"session/queue","sessionId":"s","items":[]}}`:                                                                                    true,
		`{"payload":{"event":{"type":"turn/start","seq":4},"sessionId":"s","type":"session/event"},"rpcId":"r"}`:                                                         false, // another order
		`{"rpcId":"r","payload":{"type":"session/subscribed","sessionId":"s","lastSeq":-1}}`:                                                                             false,
		`{"rpcId":"r","payload":{"type":"stream/error","error":{}}}`:                                                                                                     false,
		`{"rpcId":"r r","payload":{"type":"session/queue","sessionId":"s"}}`:                                                                                             false,
		`{"rpcId":"r","payload":{"type":"session/event","sessionId":"s"}}`:                                                                                               false,
		`{"rpcId":"r","payload":{"type":"session/event","sessionId":"s","event":{"type":"x"}}}`:                                                                          false,
		`{"rpcId":"r","payload":{"type":"session/event","sessionId":"s","event":{"type":"","seq":1}}}`:                                                                   false,
		`{"rpcId":"r","payload":{"type":"session/event","sessionId":"s","event":{"type":"x","seq":-1}}}`:                                                                 false,
		`{"rpcId":"r","payload":{"type":"session/queue","sessionId":"s"}}}`:                                                                                              false,
		`{"rpcId":"r","payload":{"type":"session/queue","sessionId":"s"}`:                                                                                                false,
		`{"rpcId":"r","payload":[]}`: false, `{}`: false, `[]`: false, ``: false,
	} {
		if got := checkHeader(t, []byte(text)); got != quick {
			t.Errorf("%s: quick is %t", text, got)
		}
	}
}

func FuzzWalkFrame(f *testing.F) {
	f.Add([]byte(`{"rpcId":"r","payload":{"type":"session/event","sessionId":"s","event":{"type":"x","seq":1}}}`))
	f.Add([]byte(`{"rpcId":"r","payload":{"type":"session/projection","sessionId":"s","key":"k","value":{},"seq":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		walkFrame(data) // ends on any text
		if validJSON(string(data)) {
			checkHeader(t, data)
		}
	})
}

// checkRows holds the quick way of reading session.list against the careful one.
func checkRows(t *testing.T, text string) (quick bool) {
	t.Helper()
	sessions, ok := walkSessions(text)
	if !ok {
		return false
	}
	want, bad := readSessions(gjson.Parse(text))
	if bad != "" {
		t.Fatalf("%q was taken, but %s", text, bad)
	}
	if diff := cmp.Diff(want, sessions); diff != "" {
		t.Fatalf("%q:\n%s", text, diff)
	}
	return true
}

func TestQuickSessions(t *testing.T) {
	const row = `"sessionId":"s","updatedAt":5,"running":true,"blank":false`
	for text, quick := range map[string]bool{
		`{"items":[]}`:              true,
		`{"items":[{` + row + `}]}`: true,
		`{"items":[{` + row + `,"cwd":"/a \"b\"\u00e4","origin":"subagent","parentSessionId":"p","agentPreset":"x","more":[{}]}]}`: true,
		`{"items":[{` + row + `,"projections":{"asOfSeq":7,"values":{"title":"T","todos":[],"goal":{"id":"g"}}}}]}`:                true,
		`{"items":[{"sessionId":"no id","updatedAt":5,"running":true,"blank":false}]}`:                                             true, // left out
		`{"items":[{` + row + `,"cwd":null}]}`:                                         false,
		`{"items":[{` + row + `,"projections":null}]}`:                                 false,
		`{"items":[{` + row + `,"projections":{"asOfSeq":-1}}]}`:                       false,
		`{"items":[{"sessionId":"s","updatedAt":5.5,"running":true,"blank":false}]}`:   false,
		`{"items":[{"sessionId":"s","updatedAt":5,"running":1,"blank":false}]}`:        false,
		`{"items":[{"sessionId":"s","updatedAt":5,"running":true}]}`:                   false,
		`{"items":[{` + row + `,"cwd":"","cwd":"x"}]}`:                                 false,
		`{"items":[{` + row + `,"projections":{"values":{},"values":{"title":"T"}}}]}`: false,
		`{"items":[{` + row + `,"sessionId":"t"}]}`:                                    false,
		`{"items":3}`: false, `{}`: false, `[]`: false,
	} {
		if got := checkRows(t, text); got != quick {
			t.Errorf("%s: quick is %t", text, got)
		}
	}
}

func FuzzWalkSessions(f *testing.F) {
	f.Add(`{"items":[{"sessionId":"s","updatedAt":5,"running":true,"blank":false,"cwd":"\n","projections":{"asOfSeq":7,"values":{"title":"T","goal":{}}}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		walkSessions(text) // ends on any text
		if validJSON(text) {
			checkRows(t, text)
		}
	})
}

func FuzzCutEnvelope(f *testing.F) {
	f.Add(`{"type":"server-response","rpcId":"r","result":{"ok":true,"value":{}}}`)
	f.Add(`{"type":"server-response","rpcId":"r","result":{"ok":true,"value":3},"x":{"y":4}}`)
	f.Fuzz(func(t *testing.T, text string) {
		value, ok := cutEnvelope(text, "r") // ends on any text
		if !ok || !validJSON(value) {
			return
		}
		if !validJSON(text) {
			t.Fatalf("%q: %q was taken, and it is not JSON", text, value)
		}
		want, err := readEnvelope("m", "r", text)
		if err != nil || want.Raw != value {
			t.Fatalf("%q: %q was taken, want %q, %v", text, value, want.Raw, err)
		}
	})
}
