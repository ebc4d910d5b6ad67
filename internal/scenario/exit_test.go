package scenario

import (
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// exitScenarios are about the end of the process, and about its beginning.
var exitScenarios = []scenario{
	{name: "it ends in the middle of a wait", run: endsInWait},
	{name: "it ends with its parent", run: endsWithParent},
	{name: "it ends while the host hangs", run: endsInHang, scriptedOnly: true},
	{name: "it ends while the host is away", run: endsAlone, hostAway: true},
	{name: "the handshake to come", run: modernHandshake},
}

// endsInWait ends processes by all the ways there are. What must not be left behind is looked for at the end of every
// scenario.
func endsInWait(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.thinking()), nil)
	e.inThought(b, t)
	for name, end := range map[string]func(*bridge){
		"end of input": func(b *bridge) { b.stop() },
		"SIGTERM":      func(b *bridge) { b.signal(syscall.SIGTERM) },
		"SIGINT":       func(b *bridge) { b.signal(os.Interrupt) },
		"SIGHUP":       func(b *bridge) { b.signal(syscall.SIGHUP) },
	} {
		b := e.bridge()
		cursor := b.status(t).want(args{"execution": "running"}).num("cursor")
		wait := b.begin(e.t.Context(), "dsh_wait", args{"taskId": t.id, "sinceCursor": cursor, "until": "attention", "timeoutSec": 30})
		e.eventually(func() string {
			if strings.Count(b.sent.String(), `"dsh_wait"`) == 0 {
				return "the wait was not sent"
			}
			return ""
		})
		b.status(t) // the wait came before it
		if wait.over() {
			e.t.Fatalf("%s: the wait is over before the end: %+v %v", name, wait.got, wait.err)
		}
		end(b)
		b.exits()
		<-wait.done
	}
	b.call("dsh_cancel", args{"taskId": t.id}).want(args{"execution": "canceled"})
}

// endsWithParent lets the program die that started the bridge, while the pipes stay open.
func endsWithParent(e *env) {
	leash, hold, err := os.Pipe()
	if err != nil {
		e.t.Fatal(err)
	}
	defer hold.Close()
	defer leash.Close()
	parent := exec.Command("sh", "-c", `exec 4<&0; "$0" <&4 3<&- & read -r line <&3 || exit 0`, binary)
	parent.ExtraFiles = []*os.File{leash}
	b := e.launch(parent, nil)
	b.call("dsh_host_status", args{})
	if err := hold.Close(); err != nil {
		e.t.Fatal(err)
	}
	// The process is gone when nobody holds its output any more.
	b.exits()
}

func endsInHang(e *env) {
	b := e.bridge()
	t := e.delegate(b, e.prompt(e.say("fine")), nil)
	b.ended(t, t.cursor)
	e.scripted().HangNext("session.prompt", 1)
	b.begin(e.t.Context(), "dsh_followup", args{"taskId": t.id, "prompt": e.prompt(e.say("hangs"))})
	ctx, cancel := e.within()
	defer cancel()
	if err := e.scripted().WaitCalls(ctx, "session.prompt", 2); err != nil {
		e.t.Fatal(err)
	}
	b.signal(syscall.SIGTERM)
	b.exits()
	b = e.bridge()
	b.status(t).want(args{"execution": "turn_completed", "turn.number": 1})
}

func endsAlone(e *env) {
	b := e.bridge()
	b.mustFail("host_unreachable", "dsh_host_status", args{})
	b.stop()
	if _, err := os.Stat(e.home); !os.IsNotExist(err) {
		e.t.Errorf("a bridge with nothing to keep has made its folder (%v)", err)
	}
}

// modernHandshake speaks to the server without initialize, as callers of the next protocol version will.
func modernHandshake(e *env) {
	b := e.bridgeWith(nil, client.WithProtocolVersion(mcp.LATEST_PROTOCOL_VERSION))
	if b.hello.ProtocolVersion != mcp.LATEST_PROTOCOL_VERSION {
		e.t.Errorf("protocol version %s was agreed on, want %s", b.hello.ProtocolVersion, mcp.LATEST_PROTOCOL_VERSION)
	}
	b.lists()
	t := e.delegate(b, e.prompt(e.say("hello")), nil)
	b.ended(t, t.cursor).want(args{"finalMessage.text": e.text("hello")})
}
