package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"dsh-agentlink/bridge"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/labmodel"
)

// The two generations of the protocol that clients speak.
var generations = []string{"2025-06-18", "2026-07-28"}

// person answers elicitations as told, and keeps what was shown.
type person struct {
	answer func(shown string) (mcp.ElicitationResponseAction, error)
	shown  []string
}

func (p *person) Elicit(_ context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	p.shown = append(p.shown, request.Params.Message)
	action, err := p.answer(request.Params.Message)
	if err != nil {
		return nil, err
	}
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: action, Content: map[string]any{}}}, nil
}

func always(action mcp.ElicitationResponseAction) *person {
	return &person{answer: func(string) (mcp.ElicitationResponseAction, error) { return action, nil }}
}

// rig is a bridge behind a pair of pipes, a client at its other end, and a scripted host.
type rig struct {
	t      *testing.T
	dir    string
	host   *dshtest.Host
	client *client.Client
}

// newRig connects a client of the given generation. Without a person it declares that it cannot ask one.
func newRig(t *testing.T, version, confirm string, p *person) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	r.host = dshtest.New(dshtest.Options{AllowWrites: r.dir})
	if err := r.host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.host.Close)
	u, err := dsh.ParseURL(r.host.URL(), false)
	if err != nil {
		t.Fatal(err)
	}
	h, err := home.Open(filepath.Join(r.dir, "bridge"))
	if err != nil {
		t.Fatal(err)
	}
	wire := dsh.New(u, dsh.Options{RequestTimeout: 5 * time.Second})
	b := bridge.New(bridge.Options{Host: wire, HostURL: u.String(), Home: h, LockTimeout: 5 * time.Second, ApprovalConfirm: confirm})
	b.StartSoon(time.Hour) // the first request that needs the host begins the connection
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, b, "test", fromClient, toClient, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		_ = toServer.Close()
		select {
		case <-served:
		case <-time.After(20 * time.Second):
			t.Error("the server did not end with its input")
		}
		stop()
		_ = toClient.Close()
		b.Close()
		wire.CloseIdle()
	})
	opts := []client.ClientOption{client.WithProtocolVersion(version)}
	if p != nil {
		opts = append(opts, client.WithElicitationHandler(p))
	}
	r.client = client.NewClient(transport.NewIO(fromServer, toServer, io.NopCloser(strings.NewReader(""))), opts...)
	if err := r.client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Initialize(t.Context(), mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: version, ClientInfo: mcp.Implementation{Name: "test", Version: "1"}}}); err != nil {
		t.Fatal(err)
	}
	if got := r.client.ProtocolVersion(); got != version {
		t.Fatalf("the client speaks %s, want %s", got, version)
	}
	return r
}

// call calls a tool; code is the failure's, empty for none.
func (r *rig) call(tool string, args map[string]any) (answer map[string]any, code string) {
	r.t.Helper()
	result, err := r.client.CallTool(r.t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}})
	if err != nil {
		r.t.Fatalf("%s: %v", tool, err)
	}
	text, ok := result.Content[0].(mcp.TextContent)
	if !ok || len(result.Content) != 1 {
		r.t.Fatalf("%s did not answer with one text block", tool)
	}
	if err := json.Unmarshal([]byte(text.Text), &answer); err != nil {
		r.t.Fatal(err)
	}
	if failed, ok := answer["error"].(map[string]any); ok {
		return failed, failed["code"].(string)
	}
	return answer, ""
}

// What a client begins with is answered without the host, and does not wait for a connection to it. What needs the tasks or
// the host begins it.
func TestGreeting(t *testing.T) {
	for _, version := range generations {
		for name, need := range map[string]func(*rig) error{
			"a tool": func(r *rig) error {
				if answer, code := r.call("dsh_host_status", nil); code != "" {
					return fmt.Errorf("%s: %v", code, answer)
				}
				return nil
			},
			"a resource": func(r *rig) error {
				_, err := r.client.ReadResource(r.t.Context(), mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: "dsh://tasks"}})
				return err
			},
			"the resources": func(r *rig) error {
				_, err := r.client.ListResources(r.t.Context(), mcp.ListResourcesRequest{})
				return err
			},
		} {
			t.Run(version+", "+name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, version, "", nil)
				if _, err := r.client.ListTools(t.Context(), mcp.ListToolsRequest{}); err != nil {
					t.Fatal(err)
				}
				if _, err := r.client.ListPrompts(t.Context(), mcp.ListPromptsRequest{}); err != nil {
					t.Fatal(err)
				}
				if calls := r.host.Requests(); len(calls) > 0 {
					t.Errorf("the host was asked for %s", calls[0].Method)
				}
				if err := need(r); err != nil {
					t.Fatal(err)
				}
				for limit := time.After(20 * time.Second); len(r.host.Requests()) == 0; {
					select {
					case <-limit:
						t.Fatal("the connection was not begun")
					case <-time.After(time.Millisecond):
					}
				}
			})
		}
	}
}

// approval delegates a task that asks to write a file outside of its workspace, and returns the pending request.
func (r *rig) approval() (taskID, requestID, target string) {
	r.t.Helper()
	work := filepath.Join(r.dir, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		r.t.Fatal(err)
	}
	target = filepath.Join(r.dir, "outside")
	args, err := json.Marshal(map[string]string{"command": "touch " + target, "description": "Write", "sandbox_permissions": "danger-full-access", "justification": "it is needed"})
	if err != nil {
		r.t.Fatal(err)
	}
	task, code := r.call("dsh_delegate", map[string]any{"cwd": work, "waitSeconds": 20, "prompt": dshtest.Script(labmodel.Step{Tool: "bash", Args: args})})
	if code != "" {
		r.t.Fatal(task)
	}
	pending := task["pending"].([]any)[0].(map[string]any)
	return task["taskId"].(string), pending["requestId"].(string), target
}

// allow asks for the approval to be allowed once and reports whether the host ran the call.
func (r *rig) allow(taskID, requestID string) (code string) {
	r.t.Helper()
	_, code = r.call("dsh_resolve_approval", map[string]any{"taskId": taskID, "requestId": requestID, "outcome": "allow_once"})
	return code
}

func (r *rig) pending(taskID string) int {
	r.t.Helper()
	status, code := r.call("dsh_status", map[string]any{"taskId": taskID})
	if code != "" {
		r.t.Fatal(status)
	}
	list, _ := status["pending"].([]any)
	return len(list)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestPersonAccepts(t *testing.T) {
	for _, version := range generations {
		t.Run(version, func(t *testing.T) {
			p := always(mcp.ElicitationResponseActionAccept)
			r := newRig(t, version, bridge.ConfirmAuto, p)
			taskID, requestID, target := r.approval()
			if code := r.allow(taskID, requestID); code != "" {
				t.Fatal(code)
			}
			if len(p.shown) != 1 {
				t.Fatalf("the person was asked %d times", len(p.shown))
			}
			want := "Allow this one call, once?\n\n" +
				"Task:      " + taskID + "\n" +
				"Asked by:  the task's agent\n" +
				"Directory: " + filepath.Join(r.dir, "work") + "\n" +
				"Tool:      bash\n" +
				"Reason:    escalate sandbox to danger-full-access: it is needed\n" +
				"Command:\n  | touch " + target + "\n"
			if p.shown[0] != want {
				t.Errorf("the person was shown\n%q\nwant\n%q", p.shown[0], want)
			}
			r.call("dsh_wait", map[string]any{"taskId": taskID, "until": "attention"})
			if !exists(target) {
				t.Error("the allowed call did not run")
			}
		})
	}
}

// Whoever says anything but yes allows nothing, and the request stays pending for the one who decides.
func TestPersonDoesNotAccept(t *testing.T) {
	for _, version := range generations {
		for _, action := range []mcp.ElicitationResponseAction{mcp.ElicitationResponseActionDecline, mcp.ElicitationResponseActionCancel, "maybe"} {
			t.Run(version+"/"+string(action), func(t *testing.T) {
				r := newRig(t, version, bridge.ConfirmAuto, always(action))
				taskID, requestID, target := r.approval()
				if code := r.allow(taskID, requestID); code != "confirmation_declined" {
					t.Fatalf("got %q", code)
				}
				if n := r.host.Calls("respond"); n != 0 || exists(target) {
					t.Errorf("%d answers were sent, the file is there: %t", n, exists(target))
				}
				if n := r.pending(taskID); n != 1 {
					t.Errorf("%d requests are pending", n)
				}
			})
		}
	}
}

// What was shown is what is allowed: a request that came to its end while the person was thinking is not allowed.
func TestRequestEndsWhileThePersonThinks(t *testing.T) {
	for _, version := range generations {
		t.Run(version, func(t *testing.T) {
			p := &person{}
			r := newRig(t, version, bridge.ConfirmAuto, p)
			taskID, requestID, target := r.approval()
			p.answer = func(string) (mcp.ElicitationResponseAction, error) {
				if _, code := r.call("dsh_cancel", map[string]any{"taskId": taskID}); code != "" {
					return "", errors.New(code)
				}
				return mcp.ElicitationResponseActionAccept, nil
			}
			if code := r.allow(taskID, requestID); code != "not_pending" {
				t.Errorf("got %q", code)
			}
			if n := r.host.Calls("respond"); n != 0 || exists(target) {
				t.Errorf("%d answers were sent, the file is there: %t", n, exists(target))
			}
		})
	}
}

func TestClientThatFailsToAsk(t *testing.T) {
	r := newRig(t, generations[0], bridge.ConfirmAuto, &person{answer: func(string) (mcp.ElicitationResponseAction, error) { return "", errors.New("no terminal") }})
	taskID, requestID, _ := r.approval()
	if code := r.allow(taskID, requestID); code != "confirmation_unavailable" {
		t.Errorf("got %q", code)
	}
	if n := r.host.Calls("respond"); n != 0 {
		t.Errorf("%d answers were sent", n)
	}
}

// Where the client cannot ask, its own tool prompt is the gate, unless the operator wants more; with off nobody is asked.
func TestConfirmSettings(t *testing.T) {
	for _, c := range []struct {
		confirm string
		canAsk  bool
		code    string
	}{
		{bridge.ConfirmAuto, false, ""},
		{bridge.ConfirmRequired, false, "confirmation_unavailable"},
		{bridge.ConfirmRequired, true, "confirmation_declined"},
		{bridge.ConfirmOff, true, ""},
		{bridge.ConfirmOff, false, ""},
	} {
		for _, version := range generations {
			t.Run(c.confirm+"/"+version, func(t *testing.T) {
				var p *person
				if c.canAsk {
					p = always(mcp.ElicitationResponseActionDecline)
				}
				r := newRig(t, version, c.confirm, p)
				taskID, requestID, target := r.approval()
				if code := r.allow(taskID, requestID); code != c.code {
					t.Errorf("got %q, want %q", code, c.code)
				}
				if c.code == "" {
					r.call("dsh_wait", map[string]any{"taskId": taskID, "until": "attention"})
				}
				if exists(target) != (c.code == "") {
					t.Errorf("the file is there: %t", exists(target))
				}
			})
		}
	}
}

// A client of the newer generation that brings along an answer to something that was never shown is asked first; an
// answer that was used once is used up.
func TestForgedConfirmation(t *testing.T) {
	r := newRig(t, generations[1], bridge.ConfirmAuto, always(mcp.ElicitationResponseActionDecline))
	taskID, requestID, target := r.approval()
	call := func(state string) map[string]any {
		t.Helper()
		response, err := r.client.GetTransport().SendRequest(t.Context(), transport.JSONRPCRequest{
			JSONRPC: "2.0", ID: mcp.NewRequestId(state), Method: "tools/call", Params: map[string]any{
				"name":           "dsh_resolve_approval",
				"arguments":      map[string]any{"taskId": taskID, "requestId": requestID, "outcome": "allow_once"},
				"inputResponses": map[string]any{"confirm": map[string]any{"action": "accept", "content": map[string]any{}}},
				"requestState":   state,
				"_meta": map[string]any{
					mcp.MetaKeyProtocolVersion:    generations[1],
					mcp.MetaKeyClientInfo:         map[string]any{"name": "test", "version": "1"},
					mcp.MetaKeyClientCapabilities: map[string]any{"elicitation": map[string]any{}},
				},
			}})
		if err != nil {
			t.Fatal(err)
		}
		if response.Error != nil {
			t.Fatalf("%+v", response.Error)
		}
		var result map[string]any
		if err := json.Unmarshal(response.Result, &result); err != nil {
			t.Fatal(err)
		}
		return result
	}
	asked := call("guessed")
	if asked["resultType"] != string(mcp.ResultTypeInputRequired) {
		t.Fatalf("a forged answer was not asked for: %v", asked)
	}
	if n := r.host.Calls("respond"); n != 0 || exists(target) {
		t.Fatalf("%d answers were sent, the file is there: %t", n, exists(target))
	}
	if done := call(asked["requestState"].(string)); done["resultType"] == string(mcp.ResultTypeInputRequired) {
		t.Fatalf("the answer to what was shown was not taken: %v", done)
	}
	if again := call(asked["requestState"].(string)); again["isError"] != true {
		t.Errorf("an answer was taken twice: %v", again)
	}
	if n := r.host.Calls("respond"); n != 1 {
		t.Errorf("%d answers were sent", n)
	}
}
