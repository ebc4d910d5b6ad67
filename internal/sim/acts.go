package sim

import (
	"fmt"
	"slices"
	"time"

	"dsh-agentlink/internal/dsh"
)

// ending is how a step came out.
type ending int

const (
	goesOn    ending = iota // there is more to do
	completed               // the model has said its last word
	failed                  // the model could not be asked
	cutOff                  // it said too much
	aborted                 // stopped by somebody
	silent                  // stopped before the model said anything
	vanished                // the host is dead
)

// act is what the model does in one step.
type act func(*turn) ending

// script draws what a turn does. Deeper sessions do less.
func script(d *dice, depth int) []act {
	var acts []act
	for range d.upTo(max(4-2*depth, 1)) {
		acts = append(acts, one(d, []act{bash, bash, bash, ask, approve, spawn, delegate, background, hang}))
	}
	last := one(d, []act{say, say, say, say, say, say, fail, blab, mute})
	return append(acts, last)
}

// chunks streams pieces of an answer.
func (t *turn) chunks(n int) (first int64, ok bool) {
	first = -1
	for range n {
		if !t.locked(func() {
			e := t.emit(dsh.EventChunk, `,"chunk":{"type":"text-delta"}`)
			if first < 0 {
				first = e.seq
			}
		}) {
			return first, false
		}
		if !t.pause(300 * time.Millisecond) {
			break
		}
	}
	return first, true
}

// message records the whole message that the chunks from first on are of.
func (t *turn) message(first int64, content string) {
	e := event{kind: "assistant/message", first: first}
	added := t.s.add(e.kind, fmt.Sprintf(`{"turn":%d,"step":%d,"message":{"role":"assistant","content":[%s]}}`, t.number, t.step, content))
	if first >= 0 {
		added.first = first
	}
	t.h.publish(t.s, *added)
}

const words = `{"type":"text","text":"words"}`

// say speaks, and ends the turn unless a message waits to steer it.
func say(t *turn) ending {
	first, ok := t.chunks(1 + t.dice.upTo(4))
	if !ok || !t.locked(func() { t.settleTitle(); t.message(first, words) }) {
		return vanished
	}
	if t.ctx.Err() != nil {
		return t.stopped(aborted) // what there is of the message was recorded
	}
	return completed
}

// mute ends the turn with a message that has no words.
func mute(t *turn) ending {
	if how := t.call("bash", func(string) ending { return goesOn }); how != goesOn {
		return how
	}
	return completed
}

func fail(t *turn) ending {
	if !t.pause(time.Second) {
		return t.stopped(silent)
	}
	if !t.locked(func() { t.emit(dsh.EventChunk, `,"chunk":{"type":"finish"}`) }) {
		return vanished
	}
	return failed
}

func blab(t *turn) ending {
	first, ok := t.chunks(2)
	if !ok || !t.locked(func() { t.message(first, words) }) {
		return vanished
	}
	return cutOff
}

// hang is a model that thinks for long.
func hang(t *turn) ending {
	if !t.locked(t.settleTitle) {
		return vanished
	}
	if !sleep(t.ctx, t.dice.between(time.Second, 20*time.Second)) {
		return t.stopped(silent)
	}
	return bash(t)
}

// call plays the call of a tool, with its body in the middle.
func (t *turn) call(tool string, body func(callID string) ending) ending {
	first, ok := t.chunks(t.dice.upTo(2))
	var id string
	if !ok || !t.locked(func() {
		id = fmt.Sprintf("call-%d", t.h.number("call"))
		content := fmt.Sprintf(`{"type":"tool-call","id":%q,"name":%q,"arguments":"{}"}`, id, tool)
		if t.dice.chance(0.3) {
			content = words + "," + content
		}
		t.message(first, content)
		t.emit("tool/call", fmt.Sprintf(`,"callId":%q,"name":%q,"arguments":"{}"`, id, tool))
		t.settleTitle()
		t.s.flush()
	}) {
		return vanished
	}
	how := body(id)
	if how == vanished || !t.locked(func() {
		t.emit("tool/result", fmt.Sprintf(`,"message":{"source":{"kind":"tool","callId":%q},"content":[]}`, id))
	}) {
		return vanished
	}
	return how
}

func bash(t *turn) ending {
	return t.call("bash", func(string) ending {
		if !t.pause(3 * time.Second) {
			return t.stopped(aborted)
		}
		return goesOn
	})
}

// background starts a job, whose end comes as a message. What becomes of the job of a subagent that is done has not been
// observed, so subagents start none.
func background(t *turn) ending {
	if t.s.subagent() {
		return bash(t)
	}
	return t.call("bash", func(string) ending {
		lasts := t.dice.between(0, 15*time.Second)
		if !t.locked(func() {
			if t.h.budget--; t.h.budget < 0 {
				return
			}
			j := &job{ID: fmt.Sprintf("bash-%d", t.h.number("job")), Kind: "bash", Label: "words", Status: "running", StartedAt: now()}
			t.s.jobs = append(t.s.jobs, j)
			t.h.send(t.h.jobsFrame(t.s))
			t.life.wait.Go(func() { t.h.runJob(t.life, t.s, j, lasts) })
		}) {
			return vanished
		}
		return goesOn
	})
}

func (h *Host) runJob(l *life, s *session, j *job, lasts time.Duration) {
	ok := sleep(l.ctx, lasts)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !ok || h.life != l {
		return
	}
	j.Status, j.FinishedAt = "completed", now()
	h.send(h.jobsFrame(s))
	h.deliver(s, h.newMessage(dsh.SourcePlugin, ""))
}

// spawn starts a subagent that reports by a message when it is done.
func spawn(t *turn) ending {
	return t.call("subagent", func(string) ending {
		if !t.locked(func() {
			if t.h.budget--; t.h.budget >= 0 {
				t.h.launch(t.h.startChild(t.h.newChild(t.s, continuable)))
			}
		}) {
			return vanished
		}
		return goesOn
	})
}

// delegate starts a subagent and waits for its last words.
func delegate(t *turn) ending {
	return t.call("subagent", func(string) ending {
		var child *session
		var work *turn
		if !t.locked(func() {
			if t.h.budget--; t.h.budget < 0 {
				return
			}
			child = t.h.newChild(t.s, oneShot)
			work = t.h.startChild(child)
			t.h.emit(child, "subagent/descriptor", `{"mode":%q}`, oneShot)
			t.h.launch(work)
		}) {
			return vanished
		}
		if work == nil {
			return goesOn
		}
		select {
		case <-work.done:
		case <-t.ctx.Done():
			work.cancel(errParent)
			select {
			case <-work.done:
			case <-t.life.ctx.Done():
				return vanished
			}
		}
		how := goesOn
		if !t.locked(func() {
			if child.outcome == dsh.TurnAborted && t.ctx.Err() != nil {
				how = aborted
			}
		}) {
			return vanished
		}
		return how
	})
}

// newChild makes the session of a subagent and attaches it.
func (h *Host) newChild(parent *session, mode string) *session {
	s := h.newSession(fmt.Sprintf("%s.%d", parent.id, h.number("child of "+parent.id)))
	s.parent, s.origin, s.mode = parent.id, dsh.OriginSubagent, mode
	if mode == continuable {
		s.add("subagent/descriptor", fmt.Sprintf(`{"mode":%q}`, mode))
		s.add("session/end-seed", "{}")
	}
	s.add("sandbox/mode", "{}")
	s.add("approval/policy", "{}")
	s.flush()
	h.attach(s)
	return s
}

// startChild begins a subagent's first turn; launch lets it run.
func (h *Host) startChild(s *session) *turn {
	h.enqueue(s, dsh.InboxNextTurn, h.newMessage(dsh.SourceUser, ""))
	return h.beginTurn(s, make(chan struct{}))
}

// settle lets go of a subagent whose work is done. Its parent hears of it when it does not wait for it.
func (h *Host) settle(s *session) {
	if s.turn != nil {
		return
	}
	s.goCold()
	h.life.attached = slices.DeleteFunc(h.life.attached, func(a *session) bool { return a == s })
	parent := h.sessions[s.parent]
	if s.mode == continuable && parent != nil && parent.attached {
		h.deliver(parent, h.newMessage("subagent-settled", ""))
	}
}
