// Package plain is the plainest reader of a host's answers: net/http, the whole body, one pass of gjson.Valid. It is the
// floor under everything that the bridge asks of a host.
package plain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/tidwall/gjson"
)

// Call is one call of a host, its body as it goes over the wire.
type Call struct {
	Method string          `json:"method"`
	Body   json.RawMessage `json:"body"`
}

// Prepared is what a bare server is told beforehand: the calls that it is to make, and the text that it is to answer with.
type Prepared struct {
	Calls []Call `json:"calls"`
	Text  string `json:"text,omitempty"`
}

// Reader makes calls of one host, over connections that it keeps.
type Reader struct {
	url    string
	client *http.Client
}

// New returns a reader of the host at url. It opens no connection.
func New(url string) *Reader {
	return &Reader{url: url, client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
}

// Close drops the connections that are kept. The reader stays usable.
func (r *Reader) Close() { r.client.CloseIdleConnections() }

// Post makes a call and returns the answer, which is JSON.
func (r *Reader) Post(ctx context.Context, c Call) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/api/"+c.Method, bytes.NewReader(c.Body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
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
		return "", fmt.Errorf("%s: the answer is not JSON", c.Method)
	}
	return answer, nil
}

// PostAll makes calls one after the other.
func (r *Reader) PostAll(ctx context.Context, calls []Call) error {
	for _, c := range calls {
		if _, err := r.Post(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// NewCall encodes a call with that payload.
func NewCall(method string, payload any) (Call, error) {
	body, err := json.Marshal(map[string]any{"type": "client-request", "rpcId": "bench", "method": method, "payload": payload})
	return Call{Method: method, Body: body}, err
}
