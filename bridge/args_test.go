package bridge

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/home"
)

// Bad input gets an error that names the argument, before anything is written or asked.
func TestInvalidArguments(t *testing.T) {
	r := newRig(t)
	const id = "dsh_0123456789ab"
	cwd := r.workspace("project")
	before := r.host.Calls("session.create") + r.host.Calls("session.prompt")
	for _, c := range []struct {
		tool  string
		args  string
		names string // what the message has to name
	}{
		{"dsh_delegate", `{"cwd":"` + cwd + `"}`, "prompt"},
		{"dsh_delegate", `{"prompt":" \n","cwd":"` + cwd + `"}`, "prompt"},
		{"dsh_delegate", `{"prompt":"x"}`, "cwd"},
		{"dsh_delegate", `{"prompt":"x","cwd":"project"}`, `"project"`},
		{"dsh_delegate", `{"prompt":"x","cwd":"` + cwd + `/missing"}`, "missing"},
		{"dsh_delegate", `{"prompt":"x","cwd":"` + cwd + `","workspaceMode":"write"}`, "workspaceMode"},
		{"dsh_delegate", `{"prompt":"x","cwd":"` + cwd + `","waitSeconds":31}`, "waitSeconds"},
		{"dsh_delegate", `{"prompt":"x","cwd":"` + cwd + `","waitSeconds":-1}`, "waitSeconds"},
		{"dsh_delegate", `{"prompt":"x","cwd":"` + cwd + `","waitSeconds":"1"}`, "waitSeconds"},
		{"dsh_delegate", `{"prompt":"x","cwd":"` + cwd + `","waitSeconds":1.5}`, "waitSeconds"},
		{"dsh_delegate", `{"prompt":"x","cwd":"` + cwd + `","title":"` + strings.Repeat("t", maxTitle+1) + `"}`, "title"},
		{"dsh_delegate", `{"prompt":"x","cwd":"` + cwd + `","requestId":"` + strings.Repeat("r", maxID+1) + `"}`, "requestId"},
		{"dsh_delegate", `{"prompt":"x","cwd":"` + cwd + `","agentPreset":" code"}`, "agentPreset"},
		{"dsh_delegate", `{"prompt":["x"],"cwd":"` + cwd + `"}`, "prompt"},
		{"dsh_delegate", `{"prompt":"x","cwd":"` + cwd + `","colour":"red"}`, "colour"},
		{"dsh_delegate", `["x"]`, "arguments"},
		{"dsh_delegate", `{"prompt":"x"`, "arguments"},
		{"dsh_followup", `{"taskId":"` + id + `","prompt":"x","mode":"now"}`, "mode"},
		{"dsh_followup", `{"taskId":"` + id + `","prompt":""}`, "prompt"},
		{"dsh_followup", `{"taskId":"../etc","prompt":"x"}`, "taskId"},
		{"dsh_followup", `{"taskId":"` + id + `","prompt":"x","sinceCursor":"1"}`, "sinceCursor"},
		{"dsh_status", `{}`, "taskId"},
		{"dsh_status", `{"taskId":"DSH_0123456789AB"}`, "taskId"},
		{"dsh_status", `{"taskId":5}`, "taskId"},
		{"dsh_tail", `{"taskId":"` + id + `","maxEvents":0}`, "maxEvents"},
		{"dsh_tail", `{"taskId":"` + id + `","maxEvents":501}`, "maxEvents"},
		{"dsh_tail", `{"taskId":"` + id + `","maxBytes":1023}`, "maxBytes"},
		{"dsh_tail", `{"taskId":"` + id + `","maxBytes":1000001}`, "maxBytes"},
		{"dsh_wait", `{"taskId":"` + id + `","timeoutSec":31}`, "timeoutSec"},
		{"dsh_wait", `{"taskId":"` + id + `","until":"done"}`, "until"},
		{"dsh_cancel", `{"taskId":"` + id + `","scope":"all"}`, "scope"},
		{"dsh_list", `{"state":"done"}`, "state"},
		{"dsh_list", `{"limit":0}`, "limit"},
		{"dsh_list", `{"limit":201}`, "limit"},
		{"dsh_release_workspace", `{"taskId":""}`, "taskId"},
		{"dsh_host_status", `{"verbose":true}`, "verbose"},
	} {
		failed := r.fails(CodeInvalidArgument, c.tool, json.RawMessage(orString(c.args)))
		if !strings.Contains(failed.Message, c.names) {
			t.Errorf("%s %s: the message does not name %s: %s", c.tool, c.args, c.names, failed.Message)
		}
	}
	if after := r.host.Calls("session.create") + r.host.Calls("session.prompt"); after != before {
		t.Errorf("%d writes went out for invalid arguments", after-before)
	}
	r.call("dsh_list", args{"state": "all"}, nil)
}

// orString passes broken JSON through json.Marshal of a RawMessage, which refuses it, as a JSON string.
func orString(s string) string {
	if json.Valid([]byte(s)) {
		return s
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		return "null"
	}
	return string(quoted)
}

func TestUnknownTask(t *testing.T) {
	r := newRig(t)
	for _, tool := range []string{"dsh_status", "dsh_tail", "dsh_wait", "dsh_cancel", "dsh_release_workspace"} {
		r.fails(CodeTaskNotFound, tool, args{"taskId": "dsh_0123456789ab"})
	}
	r.fails(CodeTaskNotFound, "dsh_followup", args{"taskId": "dsh_0123456789ab", "prompt": "x"})
}

// No arguments whatever make a tool panic, or fail without a code.
func FuzzToolArguments(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, `[]`, `{"taskId":"dsh_0123456789ab"}`, `{"taskId":"dsh_0123456789ab","prompt":"x","sinceCursor":-1}`,
		`{"prompt":"x","cwd":"/","waitSeconds":1e9}`, `{"taskId":"dsh_0123456789ab","maxBytes":1.0}`, "{\"prompt\":\"\xff\"}", `{"state":"all","limit":200}`} {
		f.Add(seed)
	}
	u, err := url.Parse("http://127.0.0.1:1") // nothing listens there
	if err != nil {
		f.Fatal(err)
	}
	h, err := home.Open(f.TempDir() + "/bridge")
	if err != nil {
		f.Fatal(err)
	}
	b := New(Options{Host: dsh.New(u, dsh.Options{RequestTimeout: time.Second}), HostURL: u.String(), Home: h, LockTimeout: time.Second})
	f.Cleanup(b.Close)
	b.Start()
	f.Fuzz(func(t *testing.T, raw string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for _, tool := range b.tools() {
			if _, err := tool.handle(ctx, json.RawMessage(raw)); err != nil {
				if e := asError(err, b.hostURL); e.Code == "" || e.Message == "" {
					t.Errorf("%s: a failure without code or message: %v", tool.definition.Name, err)
				}
			}
		}
	})
}

func TestShorten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		limit := rapid.IntRange(0, 200).Draw(t, "limit")
		short, chars := shorten(text, limit)
		switch {
		case len(text) <= limit:
			if short != text || chars != 0 {
				t.Fatalf("a text that fits was changed to %q (%d)", short, chars)
			}
		case chars != utf8.RuneCountInString(text):
			t.Fatalf("the full length is %d, not %d", utf8.RuneCountInString(text), chars)
		case len(short) > limit+len(" …[ characters cut]… ")+10:
			t.Fatalf("%d bytes are left of %d, the limit is %d", len(short), len(text), limit)
		case utf8.ValidString(text) && !utf8.ValidString(short):
			t.Fatalf("a character was cut in two: %q", short)
		}
	})
}
