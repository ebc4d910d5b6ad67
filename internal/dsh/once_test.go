package dsh

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// A prompt that reaches the host twice is two prompts. These tests are about the connections that are kept between
// calls, where an HTTP transport may send a request again by itself.

// tally counts how often the host read each call.
type tally struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *tally) add(rpcID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[rpcID]++
}

func (c *tally) of(rpcID string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[rpcID]
}

// serveOne reads one request, counts it and answers it unless it is to hang up.
func (c *tally) serveOne(t *testing.T, conn net.Conn, r *bufio.Reader, answer bool) error {
	req, err := http.ReadRequest(r)
	if err != nil {
		return err
	}
	got := readRequest(t, req)
	c.add(got.RPCID)
	if answer {
		text := fmt.Sprintf(`{"type":"server-response","rpcId":%q,"result":{"ok":true,"value":{"accepted":true}}}`, got.RPCID)
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}
	return nil
}

func prompt(ctx context.Context, c *Client, rpcID string) error {
	return c.Prompt(ctx, PromptRequest{RPCID: rpcID, SessionID: "s-1", Mode: ModeQueue, Text: "hello"})
}

func TestConnectionsAreReused(t *testing.T) {
	var mu sync.Mutex
	opened := 0
	server := httptest.NewUnstartedServer(answering(t, `{"ok":true,"value":{"accepted":true}}`))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			mu.Lock()
			defer mu.Unlock()
			opened++
		}
	}
	server.Start()
	defer server.Close()
	c := clientAt(t, server.URL, Options{})
	for i := range 20 {
		if err := prompt(t.Context(), c, fmt.Sprintf("r-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if opened != 1 {
		t.Errorf("%d connections for 20 calls in a row", opened)
	}
}

// The host reads the call on a kept connection and dies: whether it was done is unknown, and it is not sent again.
func TestHangUpOnAKeptConnection(t *testing.T) {
	var host tally
	c := clientAt(t, rawHost(t, func(conn net.Conn, r *bufio.Reader) {
		if host.serveOne(t, conn, r, true) == nil {
			_ = host.serveOne(t, conn, r, false)
		}
	}), Options{})
	if err := prompt(t.Context(), c, "first"); err != nil {
		t.Fatal(err)
	}
	if err := prompt(t.Context(), c, "second"); KindOf(err) != OutcomeUnknown {
		t.Errorf("got %v", err)
	}
	if n := host.of("second"); n != 1 {
		t.Errorf("the host read it %d times", n)
	}
}

// The host closes the connection after every answer without saying so, as a keep-alive that runs out does. Whichever
// side is faster, a call is never read twice, and one that succeeds was read once.
func TestIdleConnectionsThatTheHostCloses(t *testing.T) {
	var host tally
	c := clientAt(t, rawHost(t, func(conn net.Conn, r *bufio.Reader) { _ = host.serveOne(t, conn, r, true) }), Options{})
	for i := range 200 {
		id := fmt.Sprintf("r-%d", i)
		err := prompt(t.Context(), c, id)
		switch n := host.of(id); {
		case n > 1:
			t.Errorf("the host read %s %d times", id, n)
		case err == nil && n != 1, KindOf(err) == NotSent && n != 0:
			t.Errorf("the host read %s %d times, and the client says %v", id, n, err)
		}
	}
}

// brittleConn fails to write once it was told to: nothing leaves, as on a connection that died in the meantime.
type brittleConn struct {
	net.Conn
	broken *bool
}

func (c brittleConn) Write(b []byte) (int, error) {
	if *c.broken {
		return 0, errors.New("broken on purpose")
	}
	return c.Conn.Write(b)
}

// brittleClient makes connections of which the first one breaks when its flag is set, and dials with again after that.
func brittleClient(t *testing.T, address string, again func(context.Context) (net.Conn, error)) (*Client, *bool) {
	broken := new(bool)
	dialed := false
	return clientAt(t, address, Options{HTTPClient: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if dialed {
				return again(ctx)
			}
			dialed = true
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return brittleConn{conn, broken}, err
		},
	}}}), broken
}

// Nothing of the call was written to the kept connection: it goes out on a new one, once.
func TestDeadConnectionIsReplaced(t *testing.T) {
	var host tally
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := readRequest(t, r)
		host.add(req.RPCID)
		writeResult(t, w, req.RPCID, []byte(`{"ok":true,"value":{"accepted":true}}`))
	}))
	defer server.Close()
	c, broken := brittleClient(t, server.URL, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	})
	if err := prompt(t.Context(), c, "first"); err != nil {
		t.Fatal(err)
	}
	*broken = true
	if err := prompt(t.Context(), c, "second"); err != nil {
		t.Error(err)
	}
	if n := host.of("second"); n != 1 {
		t.Errorf("the host read it %d times", n)
	}
}

// Nothing was written to the kept connection and there is no new one: the call was not sent.
func TestDeadConnectionAndNoOther(t *testing.T) {
	server := httptest.NewServer(answering(t, `{"ok":true,"value":{"accepted":true}}`))
	defer server.Close()
	c, broken := brittleClient(t, server.URL, func(context.Context) (net.Conn, error) {
		return nil, errors.New("refused on purpose")
	})
	if err := prompt(t.Context(), c, "first"); err != nil {
		t.Fatal(err)
	}
	*broken = true
	if err := prompt(t.Context(), c, "second"); KindOf(err) != NotSent {
		t.Errorf("got %v", err)
	}
}

// A transport that announces nothing cannot show that nothing was sent.
func TestUntracedTransportIsNotTrusted(t *testing.T) {
	c := clientAt(t, closedAddress(t), Options{HTTPClient: &http.Client{Transport: failing{}}})
	if err := prompt(t.Context(), c, "r-1"); KindOf(err) != OutcomeUnknown || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

// The client lets go of a connection before the host does, see idleTimeout.
func TestConnectionsAreNotKeptLongerThanTheHostDoes(t *testing.T) {
	const host = 5 * time.Second
	base, err := ParseURL("http://127.0.0.1:3080", false)
	if err != nil {
		t.Fatal(err)
	}
	if kept := newTransport(base).IdleConnTimeout; kept <= 0 || kept > host-time.Second {
		t.Errorf("kept for %v", kept)
	}
}
