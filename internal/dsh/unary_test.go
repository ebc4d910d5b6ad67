package dsh

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret words", code) }
}

func page(media, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		io.WriteString(w, text)
	}
}

// untilClientGoes answers nothing. The body has to be read for the server to notice that the client is gone.
func untilClientGoes(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// closedAddress returns the URL of a port that nobody listens at.
func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

func TestKindsOfFailure(t *testing.T) {
	const describe = `{"cwd":"/","attachedSessions":0,"home":"/"}`
	tests := map[string]struct {
		answer http.HandlerFunc
		want   Kind
		says   string
	}{
		"fine":             {answering(t, `{"ok":true,"value":`+describe+`}`), 0, ""},
		"unknown fields":   {answering(t, `{"ok":true,"new":[{}],"value":{"new":1,`+describe[1:]+`}`), 0, ""},
		"refused":          {answering(t, `{"ok":false,"error":{"code":"agent-busy","message":"busy","details":{"a":1}}}`), Refused, "agent-busy"},
		"refusal, no code": {answering(t, `{"ok":false,"error":{"message":"busy"}}`), Malformed, "result.error.code is missing"},
		"neither":          {answering(t, `{"value":{}}`), Malformed, "result.ok is missing"},
		"no value":         {answering(t, `{"ok":true}`), Malformed, "the value is not an object"},
		"missing field":    {answering(t, `{"ok":true,"value":{"cwd":"/","attachedSessions":0}}`), Malformed, "home is missing"},
		"null field":       {answering(t, `{"ok":true,"value":{"cwd":null,"attachedSessions":0,"home":"/"}}`), Malformed, "cwd is missing"},
		"wrong type":       {answering(t, `{"ok":true,"value":{"cwd":1,"attachedSessions":0,"home":"/"}}`), Malformed, "cwd is not a string"},

		"another rpcId":    {page("application/json", `{"type":"server-response","rpcId":"x","result":{"ok":true,"value":{}}}`), Malformed, "rpcId"},
		"no rpcId":         {page("application/json", `{"type":"server-response","result":{"ok":true,"value":{}}}`), Malformed, "rpcId is missing"},
		"another type":     {page("application/json", `{"type":"client-request","rpcId":"x","result":{"ok":true}}`), Malformed, "type"},
		"another service":  {page("application/json", `{"hello":"world"}`), Malformed, "type is missing"},
		"an array":         {page("application/json", `[]`), Malformed, "not an object"},
		"broken JSON":      {page("application/json", `{"type":`), Malformed, "not JSON"},
		"empty":            {page("application/json", ``), Malformed, "not JSON"},
		"a page":           {page("text/html; charset=utf-8", `<!doctype html>`), Incompatible, "not a DSH host"},
		"text":             {page("text/plain", `ok`), Incompatible, "not a DSH host"},
		"charset is fine":  {page("application/json; charset=utf-8", `{`), Malformed, "not JSON"},
		"HTTP 204":         {status(204), Malformed, "204"},
		"HTTP 400":         {status(400), Refused, "http-400"},
		"HTTP 401":         {status(401), Incompatible, SpokenVersions},
		"HTTP 403":         {status(403), Incompatible, "trust"},
		"HTTP 404":         {status(404), Incompatible, "0.1.2"},
		"HTTP 413":         {status(413), Refused, "too large"},
		"HTTP 415":         {status(415), Refused, "http-415"},
		"HTTP 500":         {status(500), OutcomeUnknown, "500"},
		"HTTP 503":         {status(503), OutcomeUnknown, "503"},
		"deep nesting":     {page("application/json", strings.Repeat("[", 2*maxBrackets)), Malformed, "not JSON"},
		"promised too big": {page("application/json", strings.Repeat(" ", 1<<20+1)), TooLarge, "1048576"},
		"sent too much": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for range 3 {
				io.WriteString(w, strings.Repeat(" ", 1<<19))
				w.(http.Flusher).Flush()
			}
		}, TooLarge, "1048576"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"type":"server-response",`)
		}, OutcomeUnknown, "broke before the answer"},
		"hung up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, OutcomeUnknown, "broke before the answer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := clientOf(t, Options{}, test.answer)
			c.maxAnswer = 1 << 20
			_, err := c.Describe(t.Context())
			if KindOf(err) != test.want {
				t.Fatalf("got %v; want the kind %q", err, test.want)
			}
			if err == nil {
				return
			}
			if !strings.HasPrefix(err.Error(), "host.describe: ") || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%q does not say %q", err, test.says)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q repeats the host's page", err)
			}
		})
	}
}

func TestRefusalIsTheHostsOwn(t *testing.T) {
	c := clientOf(t, Options{}, answering(t,
		`{"ok":false,"error":{"code":"agent-preset-not-found","message":"none","details":{"available":["standard"]}}}`))
	_, err := c.Create(t.Context(), CreateRequest{Cwd: "/"})
	e, ok := errors.AsType[*Error](err)
	if !ok || !IsCode(err, CodePresetNotFound) || e.Message != "none" || string(e.Details) != `{"available":["standard"]}` {
		t.Errorf("got %+v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		c := clientOf(t, Options{HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}},
			func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/session.cancel" {
					t.Errorf("HTTP %d led to %s", code, r.URL)
				}
				http.Redirect(w, r, "/elsewhere", code)
			})
		if err := c.Cancel(t.Context(), "s-1"); KindOf(err) != Incompatible || !strings.Contains(err.Error(), "redirect") {
			t.Errorf("HTTP %d: %v", code, err)
		}
	}
}

func TestNotSent(t *testing.T) {
	tests := map[string]func(*testing.T) error{
		"nobody there": func(t *testing.T) error {
			return clientAt(t, closedAddress(t), Options{}).Cancel(t.Context(), "s-1")
		},
		"given up before": func(t *testing.T) error {
			return clientAt(t, closedAddress(t), Options{}).Cancel(canceled(), "s-1")
		},
		"given up while dialing": func(t *testing.T) error {
			ctx, cancel := context.WithCancel(t.Context())
			transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				cancel()
				<-ctx.Done()
				return nil, ctx.Err()
			}}
			return clientAt(t, closedAddress(t), Options{HTTPClient: &http.Client{Transport: transport}}).Cancel(ctx, "s-1")
		},
		"no rpcId": func(t *testing.T) error {
			return clientAt(t, closedAddress(t), Options{}).Prompt(t.Context(), PromptRequest{SessionID: "s-1"})
		},
	}
	for name, call := range tests {
		t.Run(name, func(t *testing.T) {
			if err := call(t); KindOf(err) != NotSent {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestOutcomeUnknownAfterSending(t *testing.T) {
	t.Run("given up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := clientOf(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			cancel()
			untilClientGoes(w, r)
		})
		if err := c.Cancel(ctx, "s-1"); KindOf(err) != OutcomeUnknown || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no HTTP", func(t *testing.T) {
		c := clientAt(t, rawHost(t, func(conn net.Conn, r *bufio.Reader) {
			if _, err := http.ReadRequest(r); err == nil {
				io.WriteString(conn, "550 what?\r\n")
			}
		}), Options{})
		if err := c.Cancel(t.Context(), "s-1"); KindOf(err) != OutcomeUnknown {
			t.Errorf("got %v", err)
		}
	})
}

func TestLogHasNoContent(t *testing.T) {
	var log bytes.Buffer
	c := clientOf(t, Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))},
		answering(t, `{"ok":false,"error":{"code":"internal","message":"secret","details":{"a":"secret"}}}`))
	_ = c.Prompt(t.Context(), PromptRequest{RPCID: "r-1", SessionID: "s-1", Mode: ModeQueue, Text: "secret"})
	_ = c.Rename(t.Context(), "s-1", "secret")
	if lines := strings.Count(log.String(), "\n"); lines != 2 || strings.Contains(log.String(), "secret") {
		t.Errorf("the log:\n%s", log.String())
	}
	if !strings.Contains(log.String(), "method=session.prompt") || !strings.Contains(log.String(), "code=internal") {
		t.Errorf("the log:\n%s", log.String())
	}
}

// rawHost serves every connection with serve, which gets a reader of it, and returns the host's URL.
func rawHost(t *testing.T, serve func(net.Conn, *bufio.Reader)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn, bufio.NewReader(conn))
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return fmt.Sprintf("http://%s", listener.Addr())
}
