package dsh

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
)

// The tests of this file are about time, and run with a clock of their own: connections are pipes, and nothing waits.

// pipes is a host inside the test: a listener whose connections are pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipedClient returns a client of a host that answers with handler over pipes. A nil handler is a host that takes no
// connection.
func pipedClient(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	if handler != nil {
		server := &http.Server{Handler: handler}
		go server.Serve(p)
		t.Cleanup(func() { server.Close() })
	}
	return clientAt(t, "http://127.0.0.1:3080", Options{HTTPClient: &http.Client{
		Transport: &http.Transport{DialContext: p.dial, IdleConnTimeout: idleTimeout},
	}})
}

func TestCallsAreBoundedInTime(t *testing.T) {
	tests := map[string]struct {
		host http.HandlerFunc
		want Kind
	}{
		"no connection": {nil, NotSent},
		"no answer":     {untilClientGoes, OutcomeUnknown},
		"an answer that never ends": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, " ")
			w.(http.Flusher).Flush()
			untilClientGoes(w, r)
		}, OutcomeUnknown},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := pipedClient(t, test.host)
				began := time.Now()
				err := c.Cancel(context.Background(), "s-1")
				if KindOf(err) != test.want || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "30s") {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took != DefaultRequestTimeout {
					t.Errorf("after %v", took)
				}
			})
		})
	}
}

func TestOpeningAStreamIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := pipedClient(t, untilClientGoes).Subscribe(context.Background())
		if KindOf(err) != OutcomeUnknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// A host that does not answer pings is gone, whatever its socket says.
func TestUnansweredPingEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipedClient(t, func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
				OnPingReceived: func(context.Context, []byte) bool { return false },
			})
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.CloseNow()
			_, _, _ = conn.Read(context.Background())
		})
		stream, err := c.Subscribe(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = stream.Next(context.Background())
		if err == nil || !strings.Contains(err.Error(), "ping") || KindOf(err) != OutcomeUnknown || CloseCode(err) != 0 {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != pingEvery+pingWithin {
			t.Errorf("after %v", took)
		}
		stream.Close()
	})
}

// A quiet host that answers pings is kept for as long as it likes.
func TestAnsweredPingsKeepTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pings := 0
		c := pipedClient(t, func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
				OnPingReceived: func(context.Context, []byte) bool { pings++; return true },
			})
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.CloseNow()
			conn.CloseRead(context.Background())
			time.Sleep(10*time.Minute + time.Second) // on the fake clock of the bubble: that long it says nothing is what is tested
			(&hostStream{t, conn}).text(goodFrame)
		})
		stream, err := c.Subscribe(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if frame, err := stream.Next(context.Background()); err != nil || frame.Seq != 7 {
			t.Errorf("%+v, %v", frame, err)
		}
		stream.Close()
		synctest.Wait()
		if pings != 40 {
			t.Errorf("%d pings in 10 minutes", pings)
		}
	})
}

// Giving up reading, and closing, end a Next that waits.
func TestWaitingForAFrameEnds(t *testing.T) {
	quiet := func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		_, _, _ = conn.Read(context.Background())
	}
	tests := map[string]struct {
		end  func(cancel func(), stream Stream)
		want error
	}{
		"given up": {func(cancel func(), _ Stream) { cancel() }, context.Canceled},
		"closed":   {func(_ func(), stream Stream) { stream.Close() }, net.ErrClosed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stream, err := pipedClient(t, quiet).Subscribe(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				ended := make(chan error, 1)
				go func() {
					_, err := stream.Next(ctx)
					ended <- err
				}()
				synctest.Wait() // Next waits
				test.end(cancel, stream)
				if err := <-ended; !errors.Is(err, test.want) {
					t.Errorf("Next: %v", err)
				}
				for range 2 {
					if err := stream.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
