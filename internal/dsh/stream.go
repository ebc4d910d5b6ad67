package dsh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const eventsMux = "events.mux"

// maxFrame is the largest frame that is read. The host bounds neither a tool result nor the tool schemas of a
// request/header event. What the history can answer ([MaxAnswer]) has to come through here with its envelope and the
// view beside it, or the stream would break on the same event again and again.
const maxFrame = 80 << 20

// A stream with no news is silent for hours, and a host that went away without closing (a laptop that slept, a
// dropped tunnel) looks the same. A ping every 15 s, answered within 10 s, tells them apart.
const (
	pingEvery  = 15 * time.Second
	pingWithin = 10 * time.Second
)

// MuxStream is the [Stream] of a [Client].
//
// Pongs are read by Next, so Next has to be called again soon: a reader that stays away for longer than a ping takes
// loses the stream.
type MuxStream struct {
	conn       *websocket.Conn
	log        *slog.Logger
	pingWithin time.Duration

	alive  context.Context // ends with the stream
	end    context.CancelFunc
	pinger sync.WaitGroup

	// Of the goroutine that reads.
	buf     []byte          // what a frame is read into; nil until the first
	given   <-chan struct{} // ends the stream, by the caller's context
	forget  func() bool     // stops waiting for it
	release bool            // the last frame was large, and is not needed any more when the next is asked for

	silent    atomic.Bool // a ping was not answered
	malformed atomic.Int64
}

var _ Stream = (*MuxStream)(nil)

// Subscribe implements [Host]. ctx and the request timeout bound the opening only.
func (c *Client) Subscribe(ctx context.Context) (Stream, error) {
	began := time.Now()
	stream, err := c.dial(ctx)
	c.record(ctx, eventsMux, began, err)
	if err != nil {
		return nil, err
	}
	return stream, nil
}

func (c *Client) dial(ctx context.Context) (*MuxStream, error) {
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	traced, sent := traceSending(bounded)
	conn, resp, err := websocket.Dial(traced, c.origin+"/api/"+eventsMux, &websocket.DialOptions{
		HTTPClient:      c.http,
		HTTPHeader:      http.Header{"User-Agent": {userAgent}},
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, c.handshakeError(ctx, resp, sent.Load(), err)
	}
	conn.SetReadLimit(c.maxFrame)
	s := &MuxStream{conn: conn, log: c.log, pingWithin: c.pingWithin}
	s.alive, s.end = context.WithCancel(context.Background())
	s.pinger.Go(func() { s.ping(c.pingEvery) })
	return s, nil
}

func (c *Client) handshakeError(ctx context.Context, resp *http.Response, sent bool, err error) error {
	if resp == nil {
		return c.lost(ctx, eventsMux, sent, err)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusSwitchingProtocols {
		return c.carrierError(eventsMux, resp)
	}
	return &Error{Kind: Incompatible, Method: eventsMux, Message: "what answers at " + c.origin + " opens no WebSocket"}
}

// Next implements [Stream]. Frames that make no sense (binary, not JSON, without a kind or a session, with an id that
// is not a valid one) are skipped: the stream carries every session of the host, and one odd frame of a stranger must
// not end it. They are counted ([MuxStream.Malformed]), and the first one is logged.
//
// An error is an *[Error]; [CloseCode] tells how the host closed the stream, if it did.
func (s *MuxStream) Next(ctx context.Context) (Frame, error) {
	if s.release {
		s.release = false
		debug.FreeOSMemory()
	}
	for {
		kind, data, err := s.read(ctx)
		if err != nil {
			s.end()
			s.forget()
			return Frame{}, s.ended(ctx, err)
		}
		bad := "binary"
		if kind == websocket.MessageText {
			var frame Frame
			if frame, bad = decodeFrame(data); bad == "" {
				if len(data) <= cap(s.buf) {
					frame.Payload = bytes.Clone(frame.Payload)
				}
				return frame, nil
			}
		}
		if s.malformed.Add(1) == 1 {
			s.log.LogAttrs(ctx, slog.LevelWarn, "the host sends frames that make no sense; they are skipped",
				slog.String("first", bad))
		}
	}
}

const (
	// usualFrame is the size up to which frames are read into the same memory, one after the other. All but a few of a
	// session's frames are smaller.
	usualFrame = 16 << 10
	// largeFrame is the size from which on the memory of a frame is given back to the system at once. The runtime by
	// itself keeps it for minutes, several times over.
	largeFrame = 8 << 20
)

// read reads one message. What fits into s.buf is in it, until the next call.
func (s *MuxStream) read(ctx context.Context) (websocket.MessageType, []byte, error) {
	s.watch(ctx)
	// A context that can end costs a registration with every read of a few bytes.
	kind, r, err := s.conn.Reader(context.Background())
	if err != nil {
		return 0, nil, err
	}
	if s.buf == nil {
		s.buf = make([]byte, usualFrame)
	}
	n := 0
	for n < len(s.buf) {
		m, err := r.Read(s.buf[n:])
		n += m
		if errors.Is(err, io.EOF) {
			return kind, s.buf[:n], nil
		}
		if err != nil {
			return 0, nil, err
		}
	}
	data, err := io.ReadAll(io.MultiReader(bytes.NewReader(s.buf), r))
	s.release = len(data) >= largeFrame
	return kind, data, err
}

// watch makes the end of ctx end the stream.
func (s *MuxStream) watch(ctx context.Context) {
	if s.forget != nil {
		if s.given == ctx.Done() {
			return
		}
		s.forget()
	}
	s.given = ctx.Done()
	s.forget = context.AfterFunc(ctx, func() { _ = s.conn.CloseNow() })
}

// Malformed returns how many frames were skipped because they made no sense.
func (s *MuxStream) Malformed() int { return int(s.malformed.Load()) }

// Close implements [Stream]. It drops the connection without a farewell: the stream carries nothing upwards, and the
// closing handshake would make the end of the process wait for a host that may be gone.
func (s *MuxStream) Close() error {
	s.end()
	// It fails only when the connection is closed already.
	_ = s.conn.CloseNow()
	s.pinger.Wait()
	return nil
}

// ping asks for a sign of life until the stream ends. A missing one ends the stream.
func (s *MuxStream) ping(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-s.alive.Done():
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(s.alive, s.pingWithin)
		err := s.conn.Ping(ctx)
		cancel()
		if err != nil {
			if s.alive.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				s.silent.Store(true)
			}
			_ = s.conn.CloseNow()
			return
		}
	}
}

// ended explains the end of the stream.
func (s *MuxStream) ended(ctx context.Context, err error) error {
	e := &Error{Kind: OutcomeUnknown, Method: eventsMux}
	code := websocket.CloseStatus(err)
	switch {
	case s.silent.Load():
		e.Message = fmt.Sprintf("the host did not answer a ping within %v", s.pingWithin)
	case code != -1:
		// The host's reason is left out: it is free text.
		e.Message, e.Err = "the host closed the stream", closeCode(code)
	case errors.Is(err, websocket.ErrMessageTooBig):
		e.Kind, e.Message = TooLarge, "a frame exceeds the limit"
	case ctx.Err() != nil:
		e.Message, e.Err = "reading was given up", ctx.Err()
	case errors.Is(err, net.ErrClosed):
		e.Message, e.Err = "the stream is closed", net.ErrClosed
	default:
		e.Message, e.Err = "the connection broke", err
	}
	return e
}

// closeCode is a WebSocket close code as an error.
type closeCode int

func (c closeCode) Error() string { return fmt.Sprintf("close code %d", int(c)) }

// CloseCode returns the WebSocket close code with which the host ended a stream (1000 and up; 1005 for none given),
// or 0 when err tells of no such end.
func CloseCode(err error) int {
	code, _ := errors.AsType[closeCode](err)
	return int(code)
}
