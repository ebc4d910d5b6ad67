package scenario

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// person does to a host what a person does in its web UI: the calls go past the bridge.
type person struct {
	t   *testing.T
	url string
}

func (e *env) person() person { return person{e.t, e.host.URL()} }

// try makes one unary call and returns its result, with ok and value or error.
func (p person) try(method string, payload any) gjson.Result {
	p.t.Helper()
	return gjson.Get(p.post(method, args{"type": "client-request", "rpcId": uuid.NewString(), "method": method, "payload": payload}), "result")
}

// post sends an envelope and returns what is answered.
func (p person) post(method string, envelope any) string {
	p.t.Helper()
	body, err := json.Marshal(envelope)
	if err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+"/api/"+method, bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("content-type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %s %.300s (%v)", method, resp.Status, text, err)
	}
	return string(text)
}

// call makes a call that has to succeed, and returns its value.
func (p person) call(method string, payload any) gjson.Result {
	p.t.Helper()
	result := p.try(method, payload)
	if !result.Get("ok").Bool() {
		p.t.Fatalf("%s: %s", method, result.Raw)
	}
	return result.Get("value")
}

// prompt says something in a session.
func (p person) prompt(session, mode, text string) {
	p.t.Helper()
	p.call("session.prompt", args{"sessionId": session, "mode": mode, "content": []args{{"type": "text", "text": text}}})
}

// event is one durable event: of the host's history, or as the ledger has it.
type event struct {
	Session string
	Seq     int64
	Type    string
}

// history is all that the host keeps of a session, without the pieces of streamed text. It is nil for a session that
// the host does not know.
func (p person) history(session string) []event {
	p.t.Helper()
	result := p.try("session.history", args{"sessionId": session, "maxMessages": 1_000_000})
	if result.Get("error.code").String() == "session-not-found" {
		return nil
	}
	if !result.Get("ok").Bool() || result.Get("value.hasMore").Bool() {
		p.t.Fatalf("history of %s: %.300s", session, result.Raw)
	}
	events := []event{}
	for _, item := range result.Get("value.events").Array() {
		ev := event{session, item.Get("event.seq").Int(), item.Get("event.type").String()}
		if ev.Type != "assistant/chunk" {
			events = append(events, ev)
		}
	}
	return events
}

// subagents are the sessions below a session, as the host lists them.
func (p person) subagents(root string) []string {
	p.t.Helper()
	below := []string{root}
	items := p.call("session.list", args{}).Get("items").Array()
	for grown := true; grown; {
		grown = false
		for _, item := range items {
			id := item.Get("sessionId").String()
			if item.Get("origin").String() == "subagent" && slices.Contains(below, item.Get("parentSessionId").String()) && !slices.Contains(below, id) {
				below, grown = append(below, id), true
			}
		}
	}
	return below[1:]
}

// outcome is how a session's last turn came out, as its history tells: the execution that the bridge has to show, and
// the turn's last words, nil for none.
func (p person) outcome(session string) (execution string, said any) {
	p.t.Helper()
	for _, item := range p.call("session.history", args{"sessionId": session, "maxMessages": 1_000_000}).Get("events").Array() {
		ev := item.Get("event")
		switch ev.Get("type").String() {
		case "turn/start":
			execution, said = "running", nil
		case "assistant/message":
			if text := ev.Get("data.message.content.#(type==text).text"); text.String() != "" {
				said = text.String()
			}
		case "turn/end":
			execution = map[string]string{"completed": "turn_completed", "interrupted": "interrupted", "aborted": "canceled", "error": "failed"}[ev.Get("data.reason.kind").String()]
		}
	}
	return execution, said
}
