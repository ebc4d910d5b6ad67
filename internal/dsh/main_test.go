package dsh

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clientOf returns a client of a server that answers with handler.
func clientOf(t *testing.T, opts Options, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	c := clientAt(t, server.URL, opts)
	t.Cleanup(server.Close) // runs first: handlers that wait for their client end with it
	return c
}

func clientAt(t *testing.T, address string, opts Options) *Client {
	t.Helper()
	base, err := ParseURL(address, false)
	if err != nil {
		t.Fatal(err)
	}
	c := New(base, opts)
	t.Cleanup(c.CloseIdle)
	return c
}

// request is what a server sees of a unary call.
type request struct {
	Type    string
	RPCID   string
	Method  string
	Payload json.RawMessage
	Result  json.RawMessage // of an answer to the host
}

func readRequest(t *testing.T, r *http.Request) request {
	t.Helper()
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		t.Errorf("the body of %s: %v", r.URL.Path, err)
	}
	return req
}

// answering returns a handler that answers every call with result, a JSON text.
func answering(t *testing.T, result string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		writeResult(t, w, readRequest(t, r).RPCID, json.RawMessage(result))
	}
}

func writeResult(t *testing.T, w http.ResponseWriter, rpcID string, result json.RawMessage) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	if _, err := fmt.Fprintf(w, `{"type":"server-response","rpcId":%q,"result":%s}`, rpcID, result); err != nil {
		t.Error(err)
	}
}

// captured is one line of a capture: a frame of the stream or a unary exchange.
type captured struct {
	K        string
	Method   string
	Request  json.RawMessage
	Response json.RawMessage
	Frame    json.RawMessage
}

// eachCapture runs test once for every recorded session with a real host.
func eachCapture(t *testing.T, test func(t *testing.T, lines []captured)) {
	files, err := filepath.Glob("testdata/captures/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no captures", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { test(t, readCapture(t, file)) })
	}
}

func readCapture(t testing.TB, file string) []captured {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []captured
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var line captured
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		lines = append(lines, line)
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// canceled returns a context that is over.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
