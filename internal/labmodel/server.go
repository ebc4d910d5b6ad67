package labmodel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxRequest bounds a model request. Real ones carry all tool schemas and the whole conversation.
const maxRequest = 64 << 20

// closeGrace bounds the wait for handlers at the end; a connection that never sent anything would hold it up for longer.
const closeGrace = 500 * time.Millisecond

// Title is the answer to a request without tools, which is how a host asks for a session title.
const Title = "Lab title"

// Server is a scripted model behind the OpenAI chat-completions protocol.
type Server struct {
	url     string
	cancel  context.CancelFunc
	http    *http.Server
	wait    sync.WaitGroup
	answers atomic.Int64
}

// Serve starts a server on a loopback address such as "127.0.0.1:0". It runs until ctx ends or Close is called.
func Serve(ctx context.Context, addr string) (*Server, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("scripted model: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("scripted model: %s is not a loopback address", addr)
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("scripted model: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Server{url: "http://" + listener.Addr().String(), cancel: cancel}
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.handle),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // a host that goes away in mid-answer is nothing to report
	}
	s.wait.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			cancel()
		}
	})
	s.wait.Go(func() {
		<-ctx.Done()
		// The requests' contexts ended with ctx, so that the handlers are about to return by themselves.
		grace, stop := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer stop()
		s.http.Shutdown(grace)
		s.http.Close()
	})
	return s, nil
}

// URL is the base address to give to a host as its model provider.
func (s *Server) URL() string { return s.url }

// Close stops the server and cuts the answers that are under way. It may be called more than once.
func (s *Server) Close() {
	s.cancel()
	s.wait.Wait()
}

// request is what a chat-completions call holds, as far as scripts care.
type request struct {
	Model    string            `json:"model"`
	Messages []chatMessage     `json:"messages"`
	Tools    []json.RawMessage `json:"tools"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// text is the message's content, which is a string or a list of blocks.
func (m chatMessage) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &blocks) != nil {
		return ""
	}
	var b strings.Builder
	for _, block := range blocks {
		b.WriteString(block.Text)
	}
	return b.String()
}

// answer is the step that answers the request.
func (r request) answer() Step {
	if len(r.Tools) == 0 {
		return Step{Say: Title}
	}
	var c Conversation
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			c.User(m.text())
		case "tool":
			c.ToolResult(m.text())
		}
	}
	return c.Next()
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("content-type", "application/json")
		io.WriteString(w, `{"object":"list","data":[{"id":"deepseek-v4-flash","object":"model"}]}`)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, `{"error":{"message":"request too large","type":"lab"}}`, http.StatusRequestEntityTooLarge)
		return
	}
	var req request
	if json.Unmarshal(body, &req) != nil {
		req = request{} // answered as an empty request, as a lenient provider would
	}
	step := req.answer()
	if step.Status != 0 {
		w.Header().Set("content-type", "application/json")
		w.WriteHeader(validStatus(step.Status))
		io.WriteString(w, `{"error":{"message":"lab","type":"lab"}}`)
		return
	}
	if !pause(r.Context(), step.HangMs) {
		return
	}
	stream := &stream{
		w: w, flush: http.NewResponseController(w), model: req.Model,
		id: fmt.Sprintf("lab-%d", s.answers.Add(1)),
	}
	w.Header().Set("content-type", "text/event-stream")
	stream.play(r.Context(), step)
}

// validStatus keeps a status that net/http would refuse to write from ending the handler.
func validStatus(status int) int {
	if status < 200 || status > 599 {
		return http.StatusInternalServerError
	}
	return status
}

// pause waits, and reports false when ctx ended first.
func pause(ctx context.Context, ms int) bool {
	if ms <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
