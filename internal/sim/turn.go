package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dsh-agentlink/internal/dsh"
)

// Why a turn was stopped, as the causes of its context.
var (
	errUser   = errors.New("user")   // by a person
	errParent = errors.New("parent") // because the agent that waits for it was stopped
)

// turn is a running turn of a session's agent, in a goroutine of its own, which touches the session only with the
// host's lock held and only while the host lives.
type turn struct {
	h      *Host
	s      *session
	life   *life
	ctx    context.Context
	cancel context.CancelCauseFunc
	dice   *dice
	number int
	step   int
	script []act
	taken  []*message    // what was claimed for the step that begins
	done   chan struct{} // closed when the session is idle again
}

// startTurn begins a turn of an idle session that has messages waiting. The host's lock is held.
func (h *Host) startTurn(s *session) {
	if s.turn == nil && !s.inbox.empty() && h.life != nil {
		h.launch(h.beginTurn(s, make(chan struct{})))
	}
}

// launch lets a turn run, and those that begin by themselves when it ends.
func (h *Host) launch(t *turn) {
	t.life.wait.Go(func() {
		for t.run() {
			if t = t.next(); t == nil {
				return
			}
		}
	})
}

// beginTurn makes a session's next turn: the part of it that happens at once.
func (h *Host) beginTurn(s *session, done chan struct{}) *turn {
	s.turns++
	t := &turn{h: h, s: s, life: h.life, number: s.turns, done: done, dice: newDice(h.seed, "turn", s.id, h.number("turn of "+s.id))}
	t.ctx, t.cancel = context.WithCancelCause(h.life.ctx)
	t.script = h.script(t.dice, strings.Count(s.id, "."))
	s.turn = t
	h.emit(s, "turn/start", `{"turn":%d}`, t.number)
	t.taken = h.claim(s, true)
	return t
}

// locked runs f with the host's lock, unless the host died: then nothing happens any more and it reports false.
func (t *turn) locked(f func()) bool {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if t.h.life != t.life {
		return false
	}
	f()
	return true
}

// emit appends an event of the running step; more are further members of its body.
func (t *turn) emit(kind, more string) *event {
	return t.h.emit(t.s, kind, `{"turn":%d,"step":%d%s}`, t.number, t.step, more)
}

// pause lets time pass, and reports false when the turn is stopped.
func (t *turn) pause(most time.Duration) bool {
	if t.dice.chance(0.4) {
		return t.ctx.Err() == nil // things that happen at once
	}
	return sleep(t.ctx, t.dice.between(0, most))
}

// run plays the turn to its end. It reports whether the session may have another turn to run, which next begins.
func (t *turn) run() bool {
	defer t.cancel(nil)
	if !t.pause(50 * time.Millisecond) {
		return t.locked(t.abort) // stopped before its first step: what was claimed for it is lost
	}
	for {
		if !t.locked(t.begin) {
			return false
		}
		a := act(say)
		if len(t.script) > 0 {
			a, t.script = t.script[0], t.script[1:]
		}
		switch how := a(t); how {
		case vanished:
			return false
		case goesOn, completed:
			over := false
			if !t.locked(func() { over = t.finish(how) }) {
				return false
			}
			if over {
				return true
			}
		case silent:
			// Stopped before the model said anything: the turn ends without turn/end.
			return t.locked(func() { t.emit("step/end", ""); t.leave(dsh.TurnAborted) })
		case aborted:
			return t.locked(func() { t.emit("step/end", ""); t.abort() })
		default: // failed, cutOff
			return t.locked(func() {
				t.emit("step/end", "")
				t.end(map[ending]string{failed: `{"kind":"error","error":{"message":"words"}}`, cutOff: `{"kind":"max-tokens"}`}[how])
			})
		}
	}
}

// begin opens the next step.
func (t *turn) begin() {
	h, s := t.h, t.s
	t.step++
	t.emit("step/start", "")
	asked := false
	for _, m := range t.taken {
		h.emit(s, "user/message", "%s", encode(m))
		if m.Source.Kind == dsh.SourceUser {
			s.prompted, asked = now(), true
		}
	}
	t.taken = nil
	if !s.greeted {
		s.greeted = true
		h.emit(s, "user/message", "%s", encode(h.newMessage(dsh.SourcePlugin, "")))
	}
	if asked && !s.titled {
		s.titled = true
		h.emit(s, "session/title", `{"title":"words"}`)
		s.titling = !s.subagent()
	}
	if t.step == 1 {
		h.emit(s, "request/header", `{"reason":"resume"}`)
	}
	s.flush()
}

// settleTitle brings the title that the model was asked for, whenever there is time for it.
func (t *turn) settleTitle() {
	if t.s.titling {
		t.s.titling = false
		t.h.emit(t.s, "session/title", `{"title":"words"}`)
	}
}

// finish closes a step that went well and says whether the turn is over.
func (t *turn) finish(how ending) bool {
	t.emit("step/end", "")
	t.s.flush()
	if how == goesOn && t.ctx.Err() != nil {
		t.abort()
		return true
	}
	t.taken = t.h.claim(t.s, false)
	if how == completed && len(t.taken) == 0 {
		t.end(`{"kind":"completed"}`)
		return true
	}
	return false
}

// abort closes a turn that was stopped.
func (t *turn) abort() {
	cause := errUser
	if errors.Is(context.Cause(t.ctx), errParent) {
		cause = errParent
	}
	t.end(fmt.Sprintf(`{"kind":"aborted","reason":{"kind":%q}}`, cause))
}

// end closes the turn for the reason that turn/end gives.
func (t *turn) end(reason string) {
	e := t.h.emit(t.s, "turn/end", `{"turn":%d,"reason":%s}`, t.number, reason)
	kind := dsh.TurnEndOf(e.wire()).Kind
	t.s.saved = t.s.last()
	t.settleTitle()
	t.leave(kind)
}

// leave makes the session idle, or begins its next turn: only a turn that completed lets the next message come. After
// any other, what waits stays until something new arrives.
func (t *turn) leave(kind string) {
	t.s.turn, t.s.outcome = nil, kind
	switch {
	case kind == dsh.TurnCompleted && len(t.s.inbox.turn) > 0:
		t.h.beginTurn(t.s, t.done)
	case t.s.subagent():
		t.h.settle(t.s)
	}
}

// next is the turn that began when this one ended, if one did. Otherwise those who wait for the session hear of it.
func (t *turn) next() *turn {
	t.h.mu.Lock()
	defer t.h.mu.Unlock()
	if t.h.life == t.life && t.s.turn != nil && t.s.turn.done == t.done {
		return t.s.turn
	}
	close(t.done)
	return nil
}

// stopped tells a stop from the death of the host, when ctx ended.
func (t *turn) stopped(how ending) ending {
	if t.life.ctx.Err() != nil {
		return vanished
	}
	return how
}
