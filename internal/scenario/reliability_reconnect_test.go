//go:build reliability

package scenario

import (
	"fmt"
	"strings"

	"dsh-agentlink/internal/labmodel"
)

// reconnectScenarios are about connections that break again and again.
var reconnectScenarios = []scenario{
	{name: "connections drop again and again in mid-turn", run: reconnectStorm, ownHost: true},
}

// Drops and restarts of a reconnect storm: the scripted host's connections cost next to nothing, a real one's do.
const (
	scriptedDrops = 200
	realDrops     = 20
	hostRestarts  = 3
)

// endlessly is a prompt like endless, of steps that take next to no time.
func (e *env) endlessly() string {
	step := e.bash("sleep 0.03; echo " + e.canary)
	return labmodel.Script{Loop: 1_000_000, Tool: step.Tool, Args: step.Args}.Prompt(e.canary + " go on")
}

// streams is how many streams of events a bridge has opened.
func (b *bridge) streams() int { return strings.Count(b.stderr.String(), "method=events.mux") }

// reconnectStorm cuts connections in the middle of long turns, under waits, and then kills the host in mid-turn.
// Nothing of it is lost, no cursor changes its meaning, and every wait is answered.
func reconnectStorm(e *env) {
	drops, drop, set := realDrops, func() {}, []string{}
	if e.host.Name() == "scripted" {
		drops, drop = scriptedDrops, e.scripted().DropConnections
	} else {
		w := e.between()
		drop, set = w.drop, []string{w.env()}
	}
	b := e.bridge(set...)
	meaning := &storm{e: e, meaning: map[string]string{}}
	parent := e.delegate(b, e.prompt(e.tool("subagent", args{"description": e.text("child"), "prompt": e.endlessly()}), e.bash("sleep 0.05; echo "+e.canary), e.say("words of the root")), nil)
	t := e.delegate(b, e.endlessly(), nil)
	e.inCommand(b, t)
	cursor := t.cursor
	for n := 0; b.streams() <= drops; n++ {
		wait := b.begin(e.t.Context(), "dsh_wait", args{"taskId": t.id, "sinceCursor": cursor, "until": "attention", "timeoutSec": 30})
		e.eventually(func() string {
			if wait.over() {
				return ""
			}
			drop()
			return "a wait goes on although connections drop"
		})
		wait.answer().want(args{"reason": "availability"})
		a := b.call("dsh_wait", args{"taskId": t.id, "sinceCursor": cursor, "timeoutSec": 30})
		switch next := a.num("nextCursor"); {
		case next < cursor:
			e.t.Fatalf("round %d: the cursor went back from %d: %s", n, cursor, a.text)
		case a.str("reason") == "progress" && next == cursor, a.str("reason") == "terminal", a.str("reason") == "timeout":
			e.t.Fatalf("round %d: the wait behind cursor %d was answered with %s", n, cursor, a.text)
		default:
			cursor = next
		}
		if n%50 == 0 {
			meaning.heard(t, b.call("dsh_tail", args{"taskId": t.id, "sinceCursor": max(0, cursor-400), "maxEvents": 500, "maxBytes": 1_000_000}).text)
		}
	}
	for _, ev := range b.tail(t, 0) {
		meaning.heard(t, `{"events":[`+ev.Raw+`]}`)
	}
	end := b.followup(t, "steer", e.prompt(e.say("nothing was lost")))
	b.ended(t, end).want(args{"execution": "turn_completed", "finalMessage.text": e.text("nothing was lost"), "fault": nil})
	b.status(t).want(args{"turn.number": 1, "recovery": "live", "gaps": nil})
	e.complete(t)

	for n := range hostRestarts {
		said := fmt.Sprint("after restart ", n+1)
		cursor := b.followup(t, "queue", e.endlessly())
		e.eventually(func() string {
			if calls := pick(b.tail(t, cursor), "tool/call", nil); len(calls) == 0 {
				return "the turn runs no command"
			}
			return ""
		})
		wait := b.begin(e.t.Context(), "dsh_wait", args{"taskId": t.id, "sinceCursor": cursor, "until": "attention", "timeoutSec": 30})
		e.host.Kill()
		wait.answer().want(args{"reason": "availability", "availability": "host_unreachable", "status": "unknown"})
		e.host.Start(e.t)
		e.until(b, t, "interrupted", func(a answer) bool {
			return a.str("availability") == "connected" && a.str("execution") == "interrupted"
		}).want(args{"recovery": "live", "gaps": nil, "fault": nil})
		e.works(b, t, said)
		e.complete(t)
	}
	// The subagent went down with the host, and its task goes on.
	e.until(b, parent, "quiet", func(a answer) bool { return a.str("execution") != "running" })
	e.works(b, parent, "the last words")
}
