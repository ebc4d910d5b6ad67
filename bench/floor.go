package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/dshtest"
)

// plain is the plainest reader of a host's answers: net/http, the whole body, one pass of gjson.Valid.
type plain struct {
	url    string
	client *http.Client
}

func newPlain(url string) *plain {
	return &plain{url: url, client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
}

func (p *plain) close() { p.client.CloseIdleConnections() }

// post sends a call as it was recorded, and returns the answer.
func (p *plain) post(ctx context.Context, method string, body []byte) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/api/"+method, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	answer := string(data)
	if !gjson.Valid(answer) {
		return "", fmt.Errorf("%s: the answer is not JSON", method)
	}
	return answer, nil
}

// call makes a call with that payload.
func (p *plain) call(ctx context.Context, method string, payload any) (string, error) {
	body, err := json.Marshal(map[string]any{"type": "client-request", "rpcId": "bench", "method": method, "payload": payload})
	if err != nil {
		return "", err
	}
	return p.post(ctx, method, body)
}

// event is what the floor takes of an event.
type event struct {
	kind      string
	seq, time int64
	data      string
}

// history fetches a session's whole history and parses every event of it, the body left as it is.
func (p *plain) history(ctx context.Context, sessionID string) ([]event, error) {
	answer, err := p.call(ctx, "session.history", map[string]any{"sessionId": sessionID, "maxMessages": 100_000})
	if err != nil {
		return nil, err
	}
	var events []event
	gjson.Get(answer, "result.value.events").ForEach(func(_, entry gjson.Result) bool {
		var e event
		entry.Get("event").ForEach(func(key, value gjson.Result) bool {
			switch key.Str {
			case "type":
				e.kind = value.Str
			case "seq":
				e.seq = value.Int()
			case "time":
				e.time = value.Int()
			case "data":
				e.data = value.Raw
			}
			return true
		})
		events = append(events, e)
		return true
	})
	return events, nil
}

// decoded is the same with encoding/json, for comparison.
func (p *plain) decoded(ctx context.Context, sessionID string) (int, error) {
	answer, err := p.call(ctx, "session.history", map[string]any{"sessionId": sessionID, "maxMessages": 100_000})
	if err != nil {
		return 0, err
	}
	var page struct {
		Result struct {
			Value struct {
				Events []struct {
					Event struct {
						Type string
						Seq  int64
						Time int64
						Data json.RawMessage
					}
				}
			}
		}
	}
	err = json.Unmarshal([]byte(answer), &page)
	return len(page.Result.Value.Events), err
}

// replay makes the same calls again, one after the other.
func (p *plain) replay(ctx context.Context, calls []dshtest.Request) error {
	for _, c := range calls {
		if _, err := p.post(ctx, c.Method, c.Body); err != nil {
			return err
		}
	}
	return nil
}
