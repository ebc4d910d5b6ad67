//go:build reliability

package scenario

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dsh-agentlink/ledger"
)

// crashScenarios are about bridges that are killed between two steps of a delegation.
var crashScenarios = []scenario{
	{name: "the bridge is killed at a step of a delegation that may be repeated", run: killedAndRepeated},
	{name: "the bridge is killed at a step of a delegation that has no requestId", run: killedAndExplained},
	{name: "the bridge is killed between the mapping and the claim", run: killedBeforeClaim},
	{name: "the bridge is killed before it has noted the prompt", run: killedBeforeRecord},
}

// crash is a moment in a delegation: a call of the host is about to be made, or was made and its answer is not there.
type crash struct {
	method string
	late   bool
	// stage and sent are what the mapping says then; stage is empty where the task is not on the disk yet.
	stage, sent string
	// arrived is set where the host has the prompt.
	arrived bool
}

var crashes = []crash{
	{method: "agentPreset.list"},
	{method: "agentPreset.list", late: true},
	{method: "session.create", stage: "claimed", sent: "no"},
	{method: "session.create", late: true, stage: "claimed", sent: "no"},
	{method: "session.models", stage: "created", sent: "no"},
	{method: "session.models", late: true, stage: "created", sent: "no"},
	{method: "session.prompt", stage: "prompted", sent: "unknown"},
	{method: "session.prompt", late: true, stage: "prompted", sent: "unknown", arrived: true},
	{method: "session.rename", stage: "prompted", sent: "yes", arrived: true},
	{method: "session.rename", late: true, stage: "prompted", sent: "yes", arrived: true},
}

func (c crash) String() string {
	if c.late {
		return "after " + c.method
	}
	return "before " + c.method
}

// strikes kills a bridge in the given moment of a delegation.
func (c crash) strikes(e *env, w *between, call args) {
	e.t.Helper()
	b := e.bridge(w.env())
	h := w.hold(c.method, c.late)
	delegation := b.begin(e.t.Context(), "dsh_delegate", call)
	e.reached(h, delegation)
	b.kill()
	<-delegation.done
}

// reached waits until a call is held.
func (e *env) reached(h *hold, p *pending) {
	e.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-h.reached:
	case <-p.done:
		e.t.Fatalf("%s was over before it came to the call: %+v %v", p.tool, p.got, p.err)
	case <-timer.C:
		e.t.Fatalf("%s did not come to the call", p.tool)
	}
}

// explained reads what a new process says of a delegation that broke off; there is no task when the crash left none.
func (c crash) explained(e *env, b *bridge, cwd string) (t task, s answer) {
	e.t.Helper()
	list := b.call("dsh_list", args{"state": "all", "limit": 200})
	t = task{id: list.get(`tasks.#(workspace.cwd=="` + cwd + `").taskId`).String(), cwd: cwd}
	if c.stage == "" {
		if t.id != "" {
			e.t.Errorf("%v: a task was left: %s", c, list.text)
		}
		return t, s
	}
	if t.id == "" {
		e.t.Fatalf("%v: no task holds the directory: %s", c, list.text)
	}
	s = b.status(t).want(args{"workspace.cwd": cwd})
	t.session = s.str("sessionId")
	if c.arrived {
		s.want(args{"delegation": nil})
		return t, s
	}
	s.want(args{"delegation.stage": c.stage, "delegation.promptSent": c.sent, "execution": "starting", "turn": nil}).str("delegation.next")
	return t, s
}

// single checks that the host has one session in a directory, and that one prompt came.
func (e *env) single(b *bridge, t task, what any) {
	e.t.Helper()
	sessions := e.person().call("session.list", args{}).Get(`items.#(cwd=="` + t.cwd + `")#`).Array()
	if len(sessions) != 1 || sessions[0].Get("sessionId").String() != t.session {
		e.t.Errorf("%v: the sessions in the directory are %v, want %s alone", what, sessions, t.session)
	}
	if prompts := pick(b.tail(t, 0), "user/message", args{"from": "bridge"}); len(prompts) != 1 {
		e.t.Errorf("%v: %d prompts have come, want one: %v", what, len(prompts), prompts)
	}
	b.status(t).want(args{"delegation": nil, "turn.number": 1, "execution": "turn_completed", "finalMessage.text": e.text("arrived")})
}

func killedAndRepeated(e *env) {
	w := e.between()
	for n, c := range crashes {
		cwd := e.workspace()
		call := args{"prompt": e.prompt(e.say("arrived")), "cwd": cwd, "title": e.text("title"), "requestId": fmt.Sprint("request ", n)}
		c.strikes(e, w, call)
		b := e.bridge(w.env())
		t, _ := c.explained(e, b, cwd)
		a := b.try("dsh_delegate", call)
		if a.isError && c.sent == "unknown" && !c.arrived {
			// The host may yet come out with it. Who has looked sends it again.
			a.failed("delegation_incomplete").want(args{"error.details.taskId": t.id, "error.details.promptSent": "unknown", "error.details.stage": "prompted"}).says("dsh_status", "dsh_followup")
			t.cursor = b.followup(t, "queue", call["prompt"].(string))
		} else {
			a.want(args{"accepted": true, "workspace.cwd": cwd})
			if c.stage == "" {
				t = task{id: a.str("taskId"), session: a.str("sessionId"), cwd: cwd}
			}
			a.want(args{"taskId": t.id, "sessionId": t.session})
			t.cursor = a.num("cursor")
		}
		b.ended(t, t.cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("arrived")})
		b.call("dsh_delegate", call).want(args{"accepted": true, "repeated": true, "taskId": t.id, "sessionId": t.session})
		e.single(b, t, c)
		b.stop()
	}
}

// killedAndExplained does what the status says, for nobody can repeat the call.
func killedAndExplained(e *env) {
	w := e.between()
	for _, c := range crashes {
		if c.stage == "" {
			continue
		}
		cwd := e.workspace()
		call := args{"prompt": e.prompt(e.say("arrived")), "cwd": cwd, "title": e.text("title")}
		c.strikes(e, w, call)
		b := e.bridge(w.env())
		t, s := c.explained(e, b, cwd)
		if !c.arrived {
			next := s.str("delegation.next")
			followup := args{"taskId": t.id, "prompt": call["prompt"]}
			switch a := b.try("dsh_followup", followup); {
			case !a.isError:
				t.cursor = a.num("cursor")
			case strings.Contains(next, "dsh_followup"):
				e.t.Errorf("%v: the status says %q, and the follow-up fails: %s", c, next, a.text)
				fallthrough
			default:
				// What is left: end it and begin anew.
				b.call("dsh_release_workspace", args{"taskId": t.id}).want(args{"released": true})
				t = e.delegate(b, call["prompt"].(string), args{"cwd": cwd})
			}
		}
		b.ended(t, t.cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text("arrived")})
		e.single(b, t, c)
		b.stop()
	}
}

// killedBeforeClaim leaves a mapping and nothing else.
func killedBeforeClaim(e *env) {
	b := e.bridge()
	e.finished(b, "first") // so that there is a lock of the claims
	b.stop()
	for _, id := range []string{"the only one", ""} {
		b = e.bridge("DSH_LOCK_TIMEOUT_MS=60000")
		before := e.tasks()
		o := e.holds(filepath.Join(e.home, "claims", "registry.lock"))
		call := args{"prompt": e.prompt(e.say("arrived")), "cwd": e.workspace()}
		if id != "" {
			call["requestId"] = id
		}
		delegation := b.begin(e.t.Context(), "dsh_delegate", call)
		t := task{cwd: call["cwd"].(string)}
		e.eventually(func() string {
			for _, id := range e.tasks() {
				if !slices.Contains(before, id) {
					t.id = id
					return ""
				}
			}
			return "there is no mapping"
		})
		b.kill()
		<-delegation.done
		o.goesOn()

		b = e.bridge()
		s := b.status(t).want(args{"delegation.stage": "mapped", "delegation.promptSent": "no", "execution": "starting", "workspace": nil})
		t.session = s.str("sessionId")
		if next := s.str("delegation.next"); id == "" {
			if a := b.try("dsh_followup", args{"taskId": t.id, "prompt": call["prompt"]}); a.isError && strings.Contains(next, "dsh_followup") {
				e.t.Errorf("the status says %q, and the follow-up fails: %s", next, a.text)
			}
			b.call("dsh_release_workspace", args{"taskId": t.id}).want(args{"released": false})
			again := e.delegate(b, call["prompt"].(string), args{"cwd": t.cwd})
			b.ended(again, again.cursor).want(args{"finalMessage.text": e.text("arrived")})
			e.single(b, again, "before the claim")
		} else {
			a := b.call("dsh_delegate", call).want(args{"accepted": true, "taskId": t.id, "sessionId": t.session, "workspace.cwd": t.cwd})
			b.ended(t, a.num("cursor")).want(args{"finalMessage.text": e.text("arrived")})
			e.single(b, t, "before the claim")
		}
		b.stop()
	}
}

// killedBeforeRecord kills a bridge that has noted that it is about to prompt, and waits for the ledger to say so there.
func killedBeforeRecord(e *env) {
	w := e.between()
	b := e.bridge(w.env(), "DSH_LOCK_TIMEOUT_MS=60000")
	call := args{"prompt": e.prompt(e.say("arrived")), "cwd": e.workspace(), "requestId": "the only one"}
	h := w.hold("session.models", true)
	delegation := b.begin(e.t.Context(), "dsh_delegate", call)
	e.reached(h, delegation)
	t := task{id: e.tasks()[0], cwd: call["cwd"].(string)}
	t.session = e.rootOf(t.id)
	o := e.holds(filepath.Join(e.ledgerDir(t), ledger.LockFile))
	close(h.release)
	e.eventually(func() string {
		if mapping := string(e.read(e.taskPath(t))); !strings.Contains(mapping, `"stage":"prompted"`) {
			return "the mapping is " + mapping
		}
		return ""
	})
	b.kill()
	<-delegation.done
	o.dies()

	b = e.bridge(w.env())
	b.status(t).want(args{"delegation.stage": "prompted", "delegation.promptSent": "unknown", "execution": "starting", "turn": nil})
	a := b.call("dsh_delegate", call).want(args{"accepted": true, "taskId": t.id, "sessionId": t.session})
	b.ended(t, a.num("cursor")).want(args{"finalMessage.text": e.text("arrived")})
	e.single(b, t, "before the record")
}
