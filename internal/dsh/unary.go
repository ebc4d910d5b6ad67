package dsh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// clientRequest is the envelope of a unary call.
type clientRequest struct {
	Type    string `json:"type"`
	RPCID   string `json:"rpcId"`
	Method  string `json:"method"`
	Payload any    `json:"payload"`
}

// call makes one unary call and returns the value of its answer. The value is valid JSON.
func (c *Client) call(ctx context.Context, method, rpcID string, payload any) (value gjson.Result, err error) {
	began := time.Now()
	defer func() { c.record(ctx, method, began, err) }()
	answer, err := c.post(ctx, method, clientRequest{"client-request", rpcID, method, payload})
	if err != nil {
		return gjson.Result{}, err
	}
	return openEnvelope(method, rpcID, answer)
}

// openEnvelope takes the value, or the host's refusal, out of a server-response.
func openEnvelope(method, rpcID, answer string) (gjson.Result, error) {
	if value, ok := cutEnvelope(answer, rpcID); ok && validJSON(value) {
		return gjson.Parse(value), nil
	}
	if !validJSON(answer) {
		return gjson.Result{}, &Error{Kind: Malformed, Method: method, Message: "the answer is not JSON"}
	}
	return readEnvelope(method, rpcID, answer)
}

// readEnvelope is openEnvelope without its quick way. The answer is JSON.
func readEnvelope(method, rpcID, answer string) (gjson.Result, error) {
	malformed := func(message string) (gjson.Result, error) {
		return gjson.Result{}, &Error{Kind: Malformed, Method: method, Message: message}
	}
	var bad string
	o := root(gjson.Parse(answer), &bad)
	kind, echoed := o.text("type"), o.text("rpcId")
	result := o.within("result")
	ok := result.flag("ok")
	switch {
	case bad != "":
		return malformed(bad)
	case kind != "server-response":
		return malformed("type is not server-response")
	case echoed != rpcID:
		return malformed("rpcId is not that of the call")
	}
	if ok {
		return gjson.Get(answer, "result.value"), nil
	}
	failure := result.within("error")
	refused := &Error{Kind: Refused, Method: method, Code: failure.text("code"), Message: failure.optText("message")}
	if details, ok := failure.member("details"); ok {
		refused.Details = copyRaw(details)
	}
	if bad != "" {
		return malformed(bad)
	}
	return gjson.Result{}, refused
}

// post sends message to /api/<method> and reads the answer, whatever it is: JSON or not, but not more than the limit.
func (c *Client) post(ctx context.Context, method string, message any) (answer string, err error) {
	body, err := json.Marshal(message)
	if err != nil {
		return "", &Error{Kind: NotSent, Method: method, Message: "the call cannot be encoded", Err: err}
	}
	if ctx.Err() != nil {
		return "", c.lost(ctx, method, false, ctx.Err())
	}
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	traced, sent := traceSending(bounded)
	req, err := http.NewRequestWithContext(traced, http.MethodPost, c.origin+"/api/"+method, bytes.NewReader(body))
	if err != nil {
		return "", &Error{Kind: NotSent, Method: method, Message: "the call cannot be encoded", Err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.http.Do(req)
	if err != nil {
		return "", c.lost(ctx, method, sent.Load(), err)
	}
	defer resp.Body.Close()
	if err := c.carrierError(method, resp); err != nil {
		return "", err
	}
	return c.readAnswer(ctx, method, resp)
}

const userAgent = "dsh-agentlink"

// traceSending makes ctx tell whether a request that failed may have reached the host.
//
// The transport announces the headers before the first byte leaves its buffer, and it reports a failure only after its
// writer has stopped: when the flag is off by then, nothing was sent. It starts over by itself only when not a byte
// was written to a kept connection that turned out to be dead (the request is a POST, so nothing else is repeated);
// the new attempt begins at GetConn. The flag is on at first, since only a transport that announces its steps can show
// that nothing left.
func traceSending(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	sent.Store(true)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { sent.Store(false) },
		WroteHeaders: func() { sent.Store(true) },
	}), sent
}

// lost explains a call that got no answer.
func (c *Client) lost(ctx context.Context, method string, sent bool, err error) error {
	// The outer text repeats the method and the URL.
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	e := &Error{Kind: NotSent, Method: method, Message: "cannot reach " + c.origin, Err: err}
	if sent {
		e.Kind, e.Message = OutcomeUnknown, "the connection to "+c.origin+" broke before the answer came"
	}
	switch {
	case ctx.Err() != nil:
		e.Message, e.Err = "the caller gave up waiting for "+c.origin, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		e.Message = fmt.Sprintf("no answer from %s within %v", c.origin, c.timeout)
	}
	return e
}

// carrierError sorts what the HTTP answer says before its body is looked at. The host uses the status for the carrier
// only: its own refusals come with 200.
func (c *Client) carrierError(method string, resp *http.Response) error {
	status := resp.StatusCode
	e := &Error{Method: method}
	switch {
	case status == http.StatusOK:
		media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		if media == "" || media == "application/json" {
			return nil
		}
		e.Kind, e.Message = Incompatible, fmt.Sprintf("what answers at %s is not a DSH host: it sends %s", c.origin, media)
	case status == http.StatusNotFound || status == http.StatusUnauthorized:
		e.Kind, e.Message = Incompatible, fmt.Sprintf("%s answers HTTP %d; spoken here is the wire of DSH %s, "+
			"hosts from 0.1.2 on speak another, and what is no DSH host none at all", c.origin, status, SpokenVersions)
	case status == http.StatusForbidden:
		e.Kind, e.Message = Incompatible, fmt.Sprintf("%s answers HTTP 403: the host does not trust this address, "+
			"or something in front of it asks for a login", c.origin)
	case status >= 500:
		e.Kind, e.Message = OutcomeUnknown, fmt.Sprintf("the host failed in the call (HTTP %d)", status)
	case status >= 400:
		e.Kind, e.Code = Refused, fmt.Sprintf("http-%d", status)
		e.Message = "the host refused the request: " + strings.ToLower(http.StatusText(status))
	case status >= 300:
		e.Kind, e.Message = Incompatible, fmt.Sprintf("%s answers with a redirect (HTTP %d), which is not followed; "+
			"set the address it leads to", c.origin, status)
	default:
		e.Kind, e.Message = Malformed, fmt.Sprintf("unexpected HTTP %d", status)
	}
	return e
}

func (c *Client) readAnswer(ctx context.Context, method string, resp *http.Response) (string, error) {
	tooLarge := &Error{Kind: TooLarge, Method: method, Message: fmt.Sprintf("the limit is %d bytes", c.maxAnswer)}
	if resp.ContentLength > c.maxAnswer {
		return "", tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.maxAnswer+1))
	if err != nil {
		return "", c.lost(ctx, method, true, err)
	}
	if int64(len(body)) > c.maxAnswer {
		return "", tooLarge
	}
	return stringOf(body), nil
}

// record writes the debug line of a call. The host's own words stay out of it, since they can quote the call.
func (c *Client) record(ctx context.Context, method string, began time.Time, err error) {
	if !c.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{slog.String("method", method), slog.Duration("took", time.Since(began))}
	if e, ok := errors.AsType[*Error](err); ok {
		attrs = append(attrs, slog.String("failure", e.Kind.String()), slog.String("code", e.Code))
	}
	c.log.LogAttrs(ctx, slog.LevelDebug, "host call", attrs...)
}
