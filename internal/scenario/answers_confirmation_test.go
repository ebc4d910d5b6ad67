package scenario

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// confirmationScenarios are about the person at the client who is asked before anything is allowed, in both
// generations of the protocol.
var confirmationScenarios = slices.Concat(
	generations("a person confirms", personConfirms),
	generations("a person declines", personDeclines),
	generations("the request ends while the person thinks", endsWhileThinking),
	generations("the client ends while the person thinks", clientEndsThinking),
	generations("a person is required and cannot be asked", personRequired),
	generations("a person is not to be asked", personNotAsked),
)

// generations makes a scenario of each generation of the protocol.
func generations(name string, run func(e *env, version string)) []scenario {
	var list []scenario
	for _, version := range []string{"2025-06-18", "2026-07-28"} {
		list = append(list, scenario{name: name + " over " + version, run: func(e *env) { run(e, version) }})
	}
	return list
}

// confirmer is the person at a client. It keeps what was shown.
type confirmer struct {
	decide func(ctx context.Context) (mcp.ElicitationResponseAction, error)

	mu    sync.Mutex
	shown []mcp.ElicitationParams
}

// Elicit implements client.ElicitationHandler.
func (c *confirmer) Elicit(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	c.mu.Lock()
	c.shown = append(c.shown, request.Params)
	c.mu.Unlock()
	action, err := c.decide(ctx)
	if err != nil {
		return nil, err
	}
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: action, Content: map[string]any{}}}, nil
}

func (c *confirmer) seen() []mcp.ElicitationParams {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.shown)
}

func always(action mcp.ElicitationResponseAction) *confirmer {
	return &confirmer{decide: func(context.Context) (mcp.ElicitationResponseAction, error) { return action, nil }}
}

// confirming starts a process behind the relay with a client of that generation. Without a person it cannot ask one.
func (e *env) confirming(r *relay, version string, c *confirmer, set ...string) *bridge {
	e.t.Helper()
	options := []client.ClientOption{client.WithProtocolVersion(version)}
	if c != nil {
		options = append(options, client.WithElicitationHandler(c))
	}
	b := e.bridgeWith(append([]string{"DSH_HOST_URL=" + r.url}, set...), options...)
	if got := b.client.ProtocolVersion(); got != version {
		e.t.Fatalf("the client speaks %s, want %s", got, version)
	}
	return b
}

// undecided checks that nothing was sent, nothing was done, and the request is pending as it was.
func (e *env) undecided(b *bridge, r *relay, t task, target string) {
	e.t.Helper()
	e.oneShown(b, t)
	e.wantFile(target, false)
	if n := r.sent(); n != 0 {
		e.t.Errorf("%d decisions were sent that nobody has taken", n)
	}
}

func personConfirms(e *env, version string) {
	r, c := e.relay(), always(mcp.ElicitationResponseActionAccept)
	b := e.confirming(r, version, c)
	target := e.outside()
	t, a := e.writing(b, target)
	b.allows(t, a)
	b.ended(t, t.cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("over")})
	e.wantFile(target, true)
	shown := c.seen()
	if len(shown) != 1 || r.sent() != 1 {
		e.t.Fatalf("the person was asked %d times and %d answers were sent, want one each", len(shown), r.sent())
	}
	_, command := e.write(target)
	want := "Allow this one call, once?\n\n" +
		"Task:      " + t.id + "\n" +
		"Asked by:  the task's agent\n" +
		"Directory: " + t.cwd + "\n" +
		"Tool:      bash\n" +
		"Reason:    escalate sandbox to danger-full-access: " + e.text("it is needed") + "\n" +
		"Command:\n  | " + command + "\n"
	if shown[0].Message != want {
		e.t.Errorf("the person was shown\n%s\nwant\n%s", shown[0].Message, want)
	}
	if form, ok := shown[0].RequestedSchema.(map[string]any); !ok || len(form["properties"].(map[string]any)) > 0 {
		e.t.Errorf("the form has fields, which keeps clients from showing it as a plain prompt: %v", shown[0].RequestedSchema)
	}
}

func personDeclines(e *env, version string) {
	r, c := e.relay(), &confirmer{}
	b := e.confirming(r, version, c)
	target := e.outside()
	t, a := e.writing(b, target)
	for _, action := range []mcp.ElicitationResponseAction{mcp.ElicitationResponseActionDecline, mcp.ElicitationResponseActionCancel} {
		c.decide = always(action).decide
		declined := b.mustFail("confirmation_declined", "dsh_resolve_approval", decision(t, a, "allow_once"))
		declined.want(args{"error.details.action": string(action)}).str("error.hint")
		e.undecided(b, r, t, target)
	}
	c.decide = func(context.Context) (mcp.ElicitationResponseAction, error) { return "", errors.New("no terminal") }
	ctx, cancel := e.within()
	defer cancel()
	failed := b.begin(ctx, "dsh_resolve_approval", decision(t, a, "allow_once"))
	<-failed.done
	// A client of the newer generation fails its own call where it cannot ask; to one of the older the bridge says so.
	if failed.err == nil {
		failed.answer().failed("confirmation_unavailable")
	}
	e.undecided(b, r, t, target)
	if n := len(c.seen()); n != 3 {
		e.t.Errorf("the person was asked %d times, want 3", n)
	}
	// To reject takes nobody's word.
	b.rejects(t, a)
	e.over(b, t, "over")
	e.wantFile(target, false)
	if n := len(c.seen()); n != 3 || r.sent() != 1 {
		e.t.Errorf("in the end the person was asked %d times and %d answers were sent, want 3 and 1", n, r.sent())
	}
}

func endsWhileThinking(e *env, version string) {
	r, c := e.relay(), &confirmer{}
	b, other := e.confirming(r, version, c), e.bridge()
	target := e.outside()
	t, a := e.writing(b, target)
	c.decide = func(context.Context) (mcp.ElicitationResponseAction, error) {
		other.call("dsh_cancel", args{"taskId": t.id}).want(args{"execution": "canceled"})
		return mcp.ElicitationResponseActionAccept, nil
	}
	b.mustFail("not_pending", "dsh_resolve_approval", decision(t, a, "allow_once"))
	e.wantFile(target, false)
	if n := r.sent(); n != 0 {
		e.t.Errorf("%d decisions were sent about what was cancelled", n)
	}
	b.status(t).want(args{"execution": "canceled", "pending": nil})
}

func clientEndsThinking(e *env, version string) {
	r, c := e.relay(), &confirmer{}
	asked := make(chan struct{})
	c.decide = func(ctx context.Context) (mcp.ElicitationResponseAction, error) {
		close(asked)
		<-ctx.Done()
		return "", ctx.Err()
	}
	b := e.confirming(r, version, c)
	target := e.outside()
	t, a := e.writing(b, target)
	ctx, cancel := e.within()
	defer cancel()
	call := b.begin(ctx, "dsh_resolve_approval", decision(t, a, "allow_once"))
	select {
	case <-asked:
	case <-call.done:
		e.t.Fatalf("nobody was asked: %+v %v", call.got, call.err)
	}
	b.stop()
	cancel()
	<-call.done
	if call.err == nil && !call.got.IsError {
		e.t.Errorf("a call of a client that went away was done: %+v", call.got)
	}

	b = e.confirming(r, version, always(mcp.ElicitationResponseActionDecline))
	e.undecided(b, r, t, target)
	e.sameRequest(a, e.oneShown(b, t))
	b.rejects(t, a)
	e.over(b, t, "over")
	e.wantFile(target, false)
}

func personRequired(e *env, version string) {
	r := e.relay()
	b := e.confirming(r, version, nil, "DSH_APPROVAL_CONFIRM=required")
	target := e.outside()
	t, a := e.writing(b, target)
	b.mustFail("confirmation_unavailable", "dsh_resolve_approval", decision(t, a, "allow_once")).str("error.hint")
	e.undecided(b, r, t, target)
	b.rejects(t, a)
	e.over(b, t, "over")
	e.wantFile(target, false)
}

// personNotAsked leaves the decision to the client's own prompt, though the client could ask.
func personNotAsked(e *env, version string) {
	r, c := e.relay(), always(mcp.ElicitationResponseActionDecline)
	b := e.confirming(r, version, c, "DSH_APPROVAL_CONFIRM=off")
	target := e.outside()
	t, a := e.writing(b, target)
	b.allows(t, a)
	e.over(b, t, "over")
	e.wantFile(target, true)
	if n := len(c.seen()); n != 0 {
		e.t.Errorf("the person was asked %d times, though nobody was to be asked", n)
	}
}
