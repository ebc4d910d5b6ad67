package dsh

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
)

// hostStream is the host's end of a stream.
type hostStream struct {
	t    *testing.T
	conn *websocket.Conn
}

func (h *hostStream) text(frame string) { h.write(websocket.MessageText, frame) }

func (h *hostStream) write(kind websocket.MessageType, frame string) {
	if err := h.conn.Write(context.Background(), kind, []byte(frame)); err != nil {
		h.t.Logf("the client is gone: %v", err)
	}
}

func (h *hostStream) closed(code int) { h.conn.Close(websocket.StatusCode(code), "secret reason") }

// hostOf starts a host whose stream is played by play, and returns a client of it. The connection is dropped when
// play returns; ctx ends when the client goes.
func hostOf(t *testing.T, opts Options, play func(ctx context.Context, host *hostStream)) *Client {
	t.Helper()
	var playing sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		playing.Add(1)
		defer playing.Done()
		if r.URL.Path != "/api/events.mux" || r.Header.Get("Sec-WebSocket-Protocol") != "" {
			t.Errorf("%s, subprotocol %q", r.URL, r.Header.Get("Sec-WebSocket-Protocol"))
		}
		if extensions := r.Header.Get("Sec-WebSocket-Extensions"); extensions != "" {
			t.Errorf("asks for %s", extensions)
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		play(r.Context(), &hostStream{t, conn})
	}))
	c := clientAt(t, server.URL, opts)
	t.Cleanup(func() {
		playing.Wait()
		server.Close()
	})
	return c
}

func subscribe(t *testing.T, c *Client) *MuxStream {
	t.Helper()
	stream, err := c.Subscribe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
	})
	return stream.(*MuxStream)
}

func streamOf(t *testing.T, opts Options, play func(ctx context.Context, host *hostStream)) *MuxStream {
	t.Helper()
	return subscribe(t, hostOf(t, opts, play))
}

// untilGone reads, which answers pings, until the client has gone.
func untilGone(_ context.Context, host *hostStream) {
	_, _, _ = host.conn.Read(context.Background())
}

const goodFrame = `{"type":"server-request","rpcId":"r-1","method":"session/subscribed",` +
	`"payload":{"type":"session/subscribed","sessionId":"s-1","lastSeq":7}}`

func TestMalformedFramesAreSkipped(t *testing.T) {
	bad := []string{
		`secret`,
		`"secret"`,
		`[]`,
		`{}`,
		`{"rpcId":"r-1","payload":{"sessionId":"s-1"}}`,
		`{"payload":{"type":"session/jobs","sessionId":"s-1","jobs":[]}}`,
		`{"rpcId":"r-1","payload":{"type":"session/jobs","jobs":[]}}`,
		`{"rpcId":"r-1","payload":{"type":"session/jobs","sessionId":"a secret","jobs":[]}}`,
		`{"rpcId":"a secret","payload":{"type":"session/jobs","sessionId":"s-1","jobs":[]}}`,
		`{"rpcId":"r-1","payload":{"type":"session/jobs","sessionId":7,"jobs":[]}}`,
		`{"rpcId":"r-1","payload":{"type":"session/jobs","sessionId":"s-1","jobs":[}}`,
		`{"rpcId":"r-1","payload":{"type":"session/jobs","sessionId":"s-1","jobs":[]}`,
		`{"rpcId":"r-1","payload":{"type":"session/subscribed","sessionId":"s-1"}}`,
		`{"rpcId":"r-1","payload":{"type":"session/subscribed","sessionId":"s-1","lastSeq":-2}}`,
		`{"rpcId":"r-1","payload":{"type":"session/subscribed","sessionId":"s-1","lastSeq":1.5}}`,
		`{"rpcId":"r-1","payload":{"type":"session/event","sessionId":"s-1","event":{"seq":1,"data":{}}}}`,
		`{"rpcId":"r-1","payload":{"type":"session/event","sessionId":"s-1","event":{"type":"turn/start","data":{}}}}`,
		`{"rpcId":"r-1","payload":{"type":"session/event","sessionId":"s-1","event":{"type":"turn/start","seq":-1}}}`,
	}
	var log bytes.Buffer
	stream := streamOf(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, func(ctx context.Context, host *hostStream) {
		for _, frame := range bad {
			host.text(frame)
		}
		host.write(websocket.MessageBinary, goodFrame)
		host.text(goodFrame)
		untilGone(ctx, host)
	})
	got, err := stream.Next(t.Context())
	if err != nil || got.Seq != 7 {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := stream.Malformed(); n != len(bad)+1 {
		t.Errorf("%d malformed frames, want %d", n, len(bad)+1)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || strings.Contains(log.String(), "secret") {
		t.Errorf("the log:\n%s", log.String())
	}
}

func TestFramesOfUnknownKindsArePassedOn(t *testing.T) {
	const payload = `{"type":"host/novelty","x":[1]}`
	stream := streamOf(t, Options{}, func(ctx context.Context, host *hostStream) {
		host.text(`{"payload":` + payload + `,"rpcId":"r-1"}`)
		untilGone(ctx, host)
	})
	got, err := stream.Next(t.Context())
	want := Frame{Kind: "host/novelty", RPCID: "r-1", Payload: []byte(payload)}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestLargeFrames(t *testing.T) {
	text := strings.Repeat("x", 5<<20)
	large := fmt.Sprintf(`{"rpcId":"r-1","payload":{"type":"session/event","sessionId":"s-1",`+
		`"event":{"type":"tool/result","seq":3,"time":1,"data":{"text":%q}}}}`, text)
	play := func(ctx context.Context, host *hostStream) {
		host.text(large)
		untilGone(ctx, host)
	}
	t.Run("within the limit", func(t *testing.T) {
		frame, err := streamOf(t, Options{}, play).Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e, err := frame.Event(); err != nil || len(e.Data) != len(text)+len(`{"text":""}`) {
			t.Errorf("%d bytes, %v", len(e.Data), err)
		}
	})
	t.Run("over it", func(t *testing.T) {
		c := hostOf(t, Options{}, play)
		c.maxFrame = 1 << 20
		if _, err := subscribe(t, c).Next(t.Context()); KindOf(err) != TooLarge {
			t.Errorf("got %v", err)
		}
	})
}

func TestCloseCodes(t *testing.T) {
	for _, code := range []int{1000, 1001, 1011, 1012, 4001} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			stream := streamOf(t, Options{}, func(_ context.Context, host *hostStream) { host.closed(code) })
			_, err := stream.Next(t.Context())
			if CloseCode(err) != code || !strings.Contains(err.Error(), fmt.Sprint(code)) {
				t.Errorf("code %d of %v", CloseCode(err), err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%v repeats the host's words", err)
			}
			if _, err := stream.Next(t.Context()); err == nil {
				t.Error("the stream lives on")
			}
		})
	}
	t.Run("dropped", func(t *testing.T) {
		stream := streamOf(t, Options{}, func(context.Context, *hostStream) {})
		_, err := stream.Next(t.Context())
		if err == nil || CloseCode(err) != 0 || KindOf(err) != OutcomeUnknown {
			t.Errorf("got %v", err)
		}
	})
}

func TestHandshakeFailures(t *testing.T) {
	tests := map[string]struct {
		answer http.HandlerFunc
		want   Kind
	}{
		"404":      {status(404), Incompatible},
		"401":      {status(401), Incompatible},
		"403":      {status(403), Incompatible},
		"426":      {status(426), Refused},
		"500":      {status(500), OutcomeUnknown},
		"redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, Incompatible},
		"a page":   {func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>")) }, Incompatible},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := clientOf(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/events.mux" {
					t.Errorf("went on to %s", r.URL)
				}
				test.answer(w, r)
			})
			if stream, err := c.Subscribe(t.Context()); KindOf(err) != test.want {
				t.Errorf("got %v, %v; want %v", stream, err, test.want)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		if _, err := clientAt(t, closedAddress(t), Options{}).Subscribe(t.Context()); KindOf(err) != NotSent {
			t.Errorf("got %v", err)
		}
	})
}

// The context of the opening has no say in the stream that it opened.
func TestOpeningContextIsForTheOpening(t *testing.T) {
	c := hostOf(t, Options{}, func(ctx context.Context, host *hostStream) {
		host.text(goodFrame)
		untilGone(ctx, host)
	})
	opening, cancel := context.WithCancel(t.Context())
	stream, err := c.Subscribe(opening)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	cancel()
	if _, err := stream.Next(t.Context()); err != nil {
		t.Error(err)
	}
}
