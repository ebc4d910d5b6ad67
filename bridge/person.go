package bridge

import (
	"context"
	"crypto/rand"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// Values of DSH_APPROVAL_CONFIRM: whether allowing a call takes a person's word through the client.
const (
	ConfirmAuto     = "auto"     // where the client can ask one
	ConfirmRequired = "required" // always; a client that cannot ask allows nothing
	ConfirmOff      = "off"      // never; the client's own tool prompt is the gate
)

// confirmID names the one question of a confirmation among a call's input requests.
const confirmID = "confirm"

// person reaches whoever sits at the client of one tool call.
type person struct {
	canAsk bool
	modern bool
	// responses and state are what the client brought along when it repeats a call that had asked for input.
	responses mcp.InputResponses
	state     string
	request   func(ctx context.Context, params mcp.ElicitationParams) (*mcp.ElicitationResult, error)
}

type personKey struct{}

// withPerson makes the client of a request reachable below.
func withPerson(ctx context.Context, request mcp.CallToolRequest) context.Context {
	p := &person{modern: server.IsModernRequest(ctx), responses: request.Params.InputResponses, state: request.Params.RequestState}
	if session, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok {
		capability := session.GetClientCapabilities().Elicitation
		// A client that names no mode means forms; one that names only the other mode has none.
		p.canAsk = capability != nil && (capability.Form != nil || capability.URL == nil)
	}
	if s := server.ServerFromContext(ctx); s != nil {
		p.request = func(ctx context.Context, params mcp.ElicitationParams) (*mcp.ElicitationResult, error) {
			return s.RequestElicitation(ctx, mcp.ElicitationRequest{
				Request: mcp.Request{Method: string(mcp.MethodElicitationCreate)}, Params: params})
		}
	}
	return context.WithValue(ctx, personKey{}, p)
}

// personOf returns the person of a call; there is none behind a call that did not come over MCP.
func personOf(ctx context.Context) *person {
	p, _ := ctx.Value(personKey{}).(*person)
	if p == nil {
		return &person{}
	}
	return p
}

// needsInput asks the client to repeat the call with a person's answer. It is not a failure.
type needsInput struct{ result *mcp.CallToolResult }

func (needsInput) Error() string { return "the call needs a person's answer" }

// confirmations remembers what was shown to a person until the answer comes back, for clients that repeat the call.
// What a client brings back is only a key to it: an answer to something that was never shown is no answer.
type confirmations struct {
	mu    sync.Mutex
	shown map[string]string // key -> the text that was shown
	order []string
}

// maxConfirmations bounds the questions that wait for a client to come back.
const maxConfirmations = 64

// remember returns the key of a text that is being shown.
func (c *confirmations) remember(text string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown == nil {
		c.shown = map[string]string{}
	}
	if len(c.order) >= maxConfirmations {
		delete(c.shown, c.order[0])
		c.order = c.order[1:]
	}
	key := rand.Text()
	c.shown[key] = text
	c.order = append(c.order, key)
	return key
}

// take reports whether exactly this text was shown under the key. A key is good for one answer.
func (c *confirmations) take(key, text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	shown, ok := c.shown[key]
	delete(c.shown, key)
	return ok && shown == text
}

// confirm shows the text to the person at the client and returns the answer. It fails with needsInput where the client
// brings the answer with a repeated call.
func (b *Bridge) confirm(ctx context.Context, text string) (mcp.ElicitationResponseAction, error) {
	p := personOf(ctx)
	// No fields: clients show a bare message as a plain approval prompt.
	params := mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: text,
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}
	if !p.modern {
		result, err := p.request(ctx, params)
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err != nil || result == nil:
			return "", &Error{Code: CodeConfirmationUnavailable, Message: "the client was asked to show the approval to a person and could not; nothing was sent",
				Hint: confirmHint}
		}
		return result.Action, nil
	}
	if answer := server.ElicitationResponse(p.responses, confirmID); answer != nil && b.confirmations.take(p.state, text) {
		return answer.Action, nil
	}
	key := b.confirmations.remember(text)
	return "", needsInput{server.NewInputRequestBuilder(key).Elicit(confirmID, params).ToolResult()}
}

const confirmHint = "The person can decide it in the DSH web UI, or reject it here with outcome reject. Some clients decline by themselves when nobody is there (codex exec does): run the client where a person can answer, or let the operator set DSH_APPROVAL_CONFIRM=off, which leaves the client's own tool prompt as the gate."
