package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/home"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a bridge on a scripted host, in one process.
type rig struct {
	t    *testing.T
	host *dshtest.Host
	b    *Bridge
	dir  string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigWith(t, func(string) dshtest.Options { return dshtest.Options{} })
}

// newRigWith lets the host's options depend on the rig's folder.
func newRigWith(t *testing.T, options func(dir string) dshtest.Options) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	r.host = dshtest.New(options(r.dir))
	if err := r.host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.host.Close)
	r.b = r.open()
	return r
}

// open starts a bridge on the rig's home.
func (r *rig) open() *Bridge { return r.openWith(0) }

// openWith starts one that lets events linger for that long.
func (r *rig) openWith(linger time.Duration) *Bridge {
	r.t.Helper()
	u, err := dsh.ParseURL(r.host.URL(), false)
	if err != nil {
		r.t.Fatal(err)
	}
	h, err := home.Open(filepath.Join(r.dir, "bridge"))
	if err != nil {
		r.t.Fatal(err)
	}
	client := dsh.New(u, dsh.Options{RequestTimeout: 2 * time.Second})
	b := New(Options{Host: client, HostURL: u.String(), Home: h, Version: "test", TimeZone: "UTC", LockTimeout: 5 * time.Second, Quiet: 50 * time.Millisecond, Linger: linger})
	b.Start()
	r.t.Cleanup(func() { b.Close(); client.CloseIdle() })
	return b
}

// workspace makes a directory to delegate into.
func (r *rig) workspace(name string) string {
	r.t.Helper()
	dir := filepath.Join(r.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	return real
}

// try calls a tool and returns its answer or failure.
func (r *rig) try(ctx context.Context, name string, args any) (json.RawMessage, *Error) {
	r.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, tool := range r.b.tools() {
		if tool.definition.Name == name {
			answer, err := tool.handle(ctx, raw)
			if err != nil {
				return nil, asError(err, r.b.hostURL)
			}
			text, err := encode(answer)
			if err != nil {
				r.t.Fatal(err)
			}
			return json.RawMessage(text), nil
		}
	}
	r.t.Fatalf("there is no tool %s", name)
	return nil, nil
}

// call calls a tool that has to succeed, and reads its answer into out.
func (r *rig) call(name string, args, out any) json.RawMessage {
	r.t.Helper()
	text, failed := r.try(r.t.Context(), name, args)
	if failed != nil {
		r.t.Fatalf("%s %v: %v (%v)", name, args, failed, failed.Details)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			r.t.Fatalf("%s: %v", name, err)
		}
	}
	return text
}

// fails calls a tool that has to fail with the code.
func (r *rig) fails(code Code, name string, args any) *Error {
	r.t.Helper()
	text, failed := r.try(r.t.Context(), name, args)
	if failed == nil {
		r.t.Fatalf("%s %v succeeded: %s", name, args, text)
	}
	if failed.Code != code {
		r.t.Fatalf("%s %v failed with %s (%s), want %s", name, args, failed.Code, failed.Message, code)
	}
	return failed
}

// args are the arguments of a call.
type args map[string]any

// seen is what the tests look at in answers.
type seen struct {
	TaskID, SessionID, Status, Execution, Reason, Revision, Recovery, FinalMessageStatus string

	Accepted, Repeated, TimedOut, HasMore bool
	Cursor, NextCursor                    int64
	FinalMessage                          *message
	Failure                               *failure
	Pending                               []pendingRequest
	Jobs                                  []job
	Queue                                 queueView
	Delegation                            *launchView
	Events                                []digest
	Tasks                                 []listRow
	Workspace                             *workspace
}

// delegate launches a task with a prompt and waits for the end of its turn.
func (r *rig) delegate(prompt string) seen {
	r.t.Helper()
	var s seen
	r.call("dsh_delegate", args{"prompt": prompt, "cwd": r.workspace(fmt.Sprintf("ws-%d", time.Now().UnixNano())), "waitSeconds": 20}, &s)
	return s
}
