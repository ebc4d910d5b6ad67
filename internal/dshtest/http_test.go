package dshtest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCarrier(t *testing.T) {
	h := started(t, Options{})
	good := `{"type":"client-request","rpcId":"r","method":"host.describe","payload":{}}`
	const json, plain = "application/json", "text/plain;charset=UTF-8"
	tests := []struct {
		name         string
		method, path string
		header       map[string]string
		body         string
		status       int
		kind         string
		answer       string // how the answer begins
	}{
		{"a call", "POST", "/api/host.describe", nil, good, 200, json, `{"type":"server-response","rpcId":"r","result":{"ok":true,`},
		{"a content type with a parameter", "POST", "/api/host.describe", map[string]string{"content-type": "application/json; charset=utf-8"},
			good, 200, json, `{"type":"server-response"`},
		{"another content type", "POST", "/api/host.describe", map[string]string{"content-type": "text/plain"}, good, 415, plain, "content type must be application/json"},
		{"no JSON", "POST", "/api/host.describe", nil, "{bad", 400, plain, "body is not JSON"},
		{"no JSON in an answer", "POST", "/api/respond", nil, "{bad", 400, plain, "body is not JSON"},
		{"an unknown method", "POST", "/api/foo.bar", nil, good, 404, plain, "not found"},
		{"a method read", "GET", "/api/host.describe", nil, "", 404, plain, "not found"},
		{"another path", "POST", "/other", nil, good, 404, plain, "not found"},
		{"the page", "GET", "/", nil, "", 200, "text/html; charset=utf-8", "<!doctype html>"},
		{"the stream without an upgrade", "GET", "/api/events.mux", nil, "", 426, plain, "upgrade required"},
		{"another host", "POST", "/api/host.describe", map[string]string{"Host": "evil.example"}, good, 403, plain, "forbidden"},
		{"another machine", "POST", "/api/host.describe", map[string]string{"Host": "192.0.2.1"}, good, 403, plain, "forbidden"},
		{"a loopback name with another port", "POST", "/api/host.describe", map[string]string{"Host": "localhost:9"}, good, 200, json, `{`},
		{"IPv6 loopback", "POST", "/api/host.describe", map[string]string{"Host": "[::1]:80"}, good, 200, json, `{`},
		{"a foreign origin", "POST", "/api/host.describe", map[string]string{"Origin": "http://evil.example"}, good, 403, plain, "forbidden"},
		{"the own origin", "POST", "/api/host.describe", map[string]string{"Origin": h.URL()}, good, 200, json, `{`},
		{"a foreign origin of the stream", "GET", "/api/events.mux", map[string]string{"Origin": "http://evil.example", "Upgrade": "websocket"}, "", 403, plain, "forbidden"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(within(t), tt.method, h.URL()+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Close = true
			req.Header.Set("content-type", json)
			for name, value := range tt.header {
				req.Header.Set(name, value)
			}
			if host, ok := tt.header["Host"]; ok {
				req.Host = host
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.status || resp.Header.Get("content-type") != tt.kind || !strings.HasPrefix(string(body), tt.answer) {
				t.Errorf("HTTP %d, %s: %.200s", resp.StatusCode, resp.Header.Get("content-type"), body)
			}
		})
	}
}

// What is wrong with a call is said in the words of a real host. All of these were seen on one.
func TestBadRequests(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	wrong := func(want, got string, path ...any) any {
		return object{
			"expected": want, "code": "invalid_type", "path": pathOf(path),
			"message": "Invalid input: expected " + want + ", received " + got,
		}
	}
	notPositive := object{
		"origin": "number", "code": "too_small", "minimum": 0, "inclusive": false, "path": []any{"maxMessages"},
		"message": "Too small: expected number to be >0",
	}
	tests := []struct {
		name, method string
		payload      object
		issues       []any
	}{
		{"no session", "session.history", object{}, []any{wrong("string", "undefined", "sessionId")}},
		{"an empty session id", "session.create", object{"sessionId": ""}, []any{object{
			"origin": "string", "code": "too_small", "minimum": 1, "inclusive": true, "path": []any{"sessionId"},
			"message": "Too small: expected string to have >=1 characters",
		}}},
		{"a cwd that is a number", "session.create", object{"cwd": 5}, []any{wrong("string", "number", "cwd")}},
		{"a mode that is none", "session.prompt", object{"sessionId": id, "mode": "zzz", "content": []any{}}, []any{object{
			"code": "invalid_union", "path": []any{"mode"}, "message": "Invalid input", "errors": []any{
				[]any{object{"code": "invalid_value", "values": []any{"queue"}, "path": []any{}, "message": `Invalid input: expected "queue"`}},
				[]any{object{"code": "invalid_value", "values": []any{"steer"}, "path": []any{}, "message": `Invalid input: expected "steer"`}},
			},
		}}},
		{"no content", "session.prompt", object{"sessionId": id, "mode": "queue"}, []any{wrong("array", "undefined", "content")}},
		{"content that is a text", "session.prompt", object{"sessionId": id, "mode": "queue", "content": "x"}, []any{wrong("array", "string", "content")}},
		{"a block without text", "session.prompt", object{"sessionId": id, "mode": "queue", "content": []any{object{"type": "text"}}},
			[]any{wrong("string", "undefined", "content", 0, "text")}},
		{"no messages", "session.history", object{"sessionId": id, "maxMessages": 0}, []any{notPositive}},
		{"fewer messages", "session.history", object{"sessionId": id, "maxMessages": -1}, []any{notPositive}},
		{"half a message", "session.history", object{"sessionId": id, "maxMessages": 1.5}, []any{object{
			"expected": "int", "format": "safeint", "code": "invalid_type", "path": []any{"maxMessages"},
			"message": "Invalid input: expected int, received number",
		}}},
		{"a seq before the first", "session.history", object{"sessionId": id, "beforeSeq": -1}, []any{object{
			"origin": "number", "code": "too_small", "minimum": 0, "inclusive": true, "path": []any{"beforeSeq"},
			"message": "Too small: expected number to be >=0",
		}}},
		{"an action that is none", "session.updateQueue", object{"sessionId": id, "itemId": "i", "action": object{"kind": "bad"}}, []any{object{
			"code": "invalid_union", "errors": []any{}, "note": "No matching discriminator", "discriminator": "kind",
			"options": []any{"edit", "remove", "steer"}, "path": []any{"action", "kind"},
			"message": "Invalid discriminator value. Expected 'edit' | 'remove' | 'steer'",
		}}},
		{"no refs", "credentials.describe", object{}, []any{wrong("array", "undefined", "refs")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := object{"type": "server-response", "rpcId": "r", "result": object{"ok": false, "error": object{
				"code": "bad-request", "message": "invalid payload for " + tt.method, "details": object{"issues": tt.issues},
			}}}
			if diff := cmp.Diff(asJSON(t, encode(want)), asJSON(t, callRaw(t, h, tt.method, "r", tt.payload))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBadEnvelopes(t *testing.T) {
	h := started(t, Options{})
	tests := []struct{ name, body, want string }{
		{"an array", `[]`, `{"type":"server-response","rpcId":"invalid-request","result":{"ok":false,"error":{"code":"bad-request",` +
			`"message":"invalid client-request message","details":{"issues":[{"expected":"object","code":"invalid_type","path":[],` +
			`"message":"Invalid input: expected object, received array"}]}}}}`},
		{"nothing in it", `{}`, `{"type":"server-response","rpcId":"invalid-request","result":{"ok":false,"error":{"code":"bad-request",` +
			`"message":"invalid client-request message","details":{"issues":[` +
			`{"code":"invalid_value","values":["client-request"],"path":["type"],"message":"Invalid input: expected \"client-request\""},` +
			`{"expected":"string","code":"invalid_type","path":["rpcId"],"message":"Invalid input: expected string, received undefined"},` +
			`{"expected":"string","code":"invalid_type","path":["method"],"message":"Invalid input: expected string, received undefined"},` +
			`{"code":"invalid_type","expected":"nonoptional","path":["payload"],"message":"Invalid input: expected nonoptional, received undefined"}]}}}}`},
		{"another method's", `{"type":"client-request","rpcId":"r","method":"session.list","payload":{}}`,
			`{"type":"server-response","rpcId":"r","result":{"ok":false,"error":{"code":"bad-request",` +
				`"message":"method \"session.list\" does not match path \"host.describe\"","details":{"issues":[]}}}}`},
		{"no payload", `{"type":"client-request","rpcId":"r","method":"host.describe"}`,
			`{"type":"server-response","rpcId":"r","result":{"ok":false,"error":{"code":"bad-request","message":"invalid client-request message",` +
				`"details":{"issues":[{"code":"invalid_type","expected":"nonoptional","path":["payload"],` +
				`"message":"Invalid input: expected nonoptional, received undefined"}]}}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, answer, err := post(within(t), h.URL()+"/api/host.describe", "application/json", tt.body)
			if err != nil || status != 200 {
				t.Fatalf("HTTP %d, %v", status, err)
			}
			if diff := cmp.Diff(asJSON(t, []byte(tt.want)), asJSON(t, answer)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func asJSON(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return v
}

func TestRefusals(t *testing.T) {
	h := started(t, Options{})
	h.SetPresets(append(DefaultPresets(), Preset{ID: "bad", Trust: "user", Broken: "no composition"})...)
	id := newRoot(t, h)
	said := []object{{"type": "text", "text": "hi"}}
	tests := []struct {
		name, method string
		payload      object
		code         string
	}{
		{"another cwd", "session.create", object{"sessionId": id, "cwd": "/elsewhere"}, "session-conflict"},
		{"the host's cwd", "session.create", object{"sessionId": id}, "session-conflict"},
		{"another preset", "session.create", object{"sessionId": id, "cwd": project, "agentPreset": "code"}, "agent-preset-conflict"},
		{"another preset and cwd", "session.create", object{"sessionId": id, "agentPreset": "code"}, "agent-preset-conflict"},
		{"an unknown preset", "session.create", object{"agentPreset": "nope"}, "agent-preset-not-found"},
		{"a broken preset", "session.create", object{"agentPreset": "bad"}, "agent-preset-invalid"},
		{"a relative cwd", "session.create", object{"cwd": "here"}, "internal"},
		{"the same again", "session.create", object{"sessionId": id, "cwd": project, "agentPreset": "standard"}, ""},
		{"a time zone that is none", "session.prompt", object{"sessionId": id, "mode": "queue", "content": said, "clientTimeZone": "No/Where"}, "invalid-time-zone"},
		{"a prompt to nobody", "session.prompt", object{"sessionId": "nope", "mode": "queue", "content": said}, "session-not-found"},
		{"a cancel of nothing", "session.cancel", object{"sessionId": id}, ""},
		{"a cancel of nobody", "session.cancel", object{"sessionId": "nope"}, "session-not-found"},
		{"models of nobody", "session.models", object{"sessionId": "nope"}, "session-not-found"},
		{"a title of nothing", "session.rename", object{"sessionId": id, "title": " \n "}, "title-invalid"},
		{"an item that is gone", "session.updateQueue", object{"sessionId": id, "itemId": "i", "action": object{"kind": "remove"}}, "queue-item-not-found"},
		{"an item of nobody", "session.updateQueue", object{"sessionId": "nope", "itemId": "i", "action": object{"kind": "remove"}}, "queue-item-not-found"},
		{"a child that is none", "subagent.history", object{"parentSessionId": id, "childSessionId": id, "mode": "one-shot"}, "subagent-not-found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, refused := try(t, h, tt.method, tt.payload)
			switch {
			case refused == nil && tt.code != "":
				t.Errorf("accepted, want %s", tt.code)
			case refused != nil && refused.Code != tt.code:
				t.Errorf("refused with %+v, want %q", *refused, tt.code)
			}
		})
	}
}

func TestRename(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	got := call[struct {
		Title string
		Seq   int64
	}](t, h, "session.rename", object{"sessionId": id, "title": "  a\n b " + strings.Repeat("x", 100)})
	if want := "a b " + strings.Repeat("x", 76); got.Title != want || got.Seq != 3 {
		t.Errorf("renamed to %+v", got)
	}
	// A session with a name of its own gets no other.
	tell(t, h, id, "queue", "hello")
	if err := h.WaitIdle(within(t), id); err != nil {
		t.Fatal(err)
	}
	if title := h.Sessions()[0].Title; title != got.Title {
		t.Errorf("the title became %q", title)
	}
}

// No payload of any method brings the host down or makes it answer with something that is no answer.
func FuzzCall(f *testing.F) {
	f.Add("session.create", `{"cwd":"/x","sessionId":"s"}`)
	f.Add("session.prompt", `{"sessionId":"root","mode":"steer","content":[{"type":"text","text":"LAB:{\"loop\":2}"}]}`)
	f.Add("session.history", `{"sessionId":"root","beforeSeq":3,"maxMessages":1}`)
	f.Add("session.updateQueue", `{"sessionId":"root","itemId":"x","action":{"kind":"edit","content":[]}}`)
	f.Add("session.fork", `{"sessionId":"root","atSeq":9007199254740993}`)
	f.Add("subagent.prompt", `{"parentSessionId":"root","childSessionId":"child","mode":"continuable","content":[]}`)
	f.Add("credentials.describe", `{"refs":["A",1,null]}`)
	f.Add("goal.create", `{"sessionId":"root","objective":"o","maxGoalRounds":1e300}`)
	f.Add("goal.edit", `{"sessionId":"root","ref":{"id":"g","revision":1},"maxGoalRounds":0}`)
	f.Add("goal.clear", `{"sessionId":"root","ref":null}`)
	f.Add("respond", `{"type":"client-response","rpcId":"r","result":{"ok":false}}`)
	f.Fuzz(func(t *testing.T, method, payload string) {
		if !json.Valid([]byte(payload)) {
			return
		}
		h := New(Options{})
		if _, err := h.AddSession(SessionSpec{ID: "root", Turns: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.AddSession(SessionSpec{ID: "child", ParentID: "root", Mode: modeContinuable}); err != nil {
			t.Fatal(err)
		}
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if method == "respond" {
			if receipt, ok := h.respond(h.life, []byte(payload)); !ok || !json.Valid(receipt) {
				t.Fatalf("receipt %s", receipt)
			}
			return
		}
		if methods[method] == nil {
			return
		}
		body := `{"type":"client-request","rpcId":"r","method":"` + method + `","payload":` + payload + `}`
		answer, ok := h.dispatch(h.life, method, []byte(body))
		if !ok || !json.Valid(answer) {
			t.Fatalf("answer %s", answer)
		}
	})
}
