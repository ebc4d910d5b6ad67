package dshtest

import (
	"context"
	"errors"

	"dsh-agentlink/internal/labmodel"
)

// Why a turn was stopped, as the causes of its context.
var (
	errUser   = errors.New("user")   // by a person
	errParent = errors.New("parent") // because the agent that waits for this one was stopped
)

// Kinds of turn/end.
const (
	endCompleted   = "completed"
	endError       = "error"
	endAborted     = "aborted"
	endInterrupted = "interrupted"
)

// turn is a running turn of a session's agent. Each runs in a goroutine of its own, which touches the session only
// with the host's lock held and only while the host lives.
type turn struct {
	h      *Host
	s      *session
	life   *life
	ctx    context.Context
	cancel context.CancelCauseFunc
	number int
	step   int
	round  bool       // it is one of the session's goal
	taken  []*message // what was claimed for the step that begins
	done   chan struct{}
}

// ending is how a step or a turn came out.
type ending int

const (
	goesOn    ending = iota // there is more to do
	completed               // the model has said its last word
	failed                  // the model could not be asked
	aborted                 // stopped by somebody
	vanished                // the host is dead
)

// startTurn begins a turn of an idle session that has messages waiting. The host's lock is held.
func (h *Host) startTurn(s *session) {
	if s.turn != nil || s.inbox.empty() || h.life == nil {
		return
	}
	h.launch(h.beginTurn(s, make(chan struct{})))
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

// beginTurn makes the session's next turn: the part of it that happens at once.
func (h *Host) beginTurn(s *session, done chan struct{}) *turn {
	s.turns++
	s.reply = ""
	t := &turn{h: h, s: s, life: h.life, number: s.turns, done: done}
	t.ctx, t.cancel = context.WithCancelCause(h.life.ctx)
	s.turn = t
	h.emit(s, eventTurnStart, object{"turn": t.number})
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

// at is the data that every event of a step has.
func (t *turn) at() object { return object{"turn": t.number, "step": t.step} }

// run plays the turn to its end. It reports whether the session may have another turn to run, which next begins.
func (t *turn) run() bool {
	defer t.cancel(nil)
	if t.ctx.Err() != nil {
		// Stopped before its first step: what was claimed for it is lost.
		return t.locked(t.abort)
	}
	for {
		var step labmodel.Step
		if !t.locked(func() { step = t.begin() }) {
			return false
		}
		out := t.answer(step)
		switch out.ending {
		case vanished:
			return false
		case goesOn, completed:
			over := false
			if !t.locked(func() { over = t.finish(out.ending) }) {
				return false
			}
			if over {
				return true
			}
		case failed:
			return t.locked(func() {
				t.h.emit(t.s, eventStepEnd, t.at())
				t.end(object{"kind": endError, "error": out.failure})
			})
		case aborted:
			return t.locked(func() {
				t.h.emit(t.s, eventStepEnd, t.at())
				if out.silent {
					// As observed: a step that is stopped before the model said anything ends its turn without turn/end.
					t.turnOver(endAborted, true)
					t.leave(endAborted)
					return
				}
				t.abort()
			})
		}
	}
}

// begin opens the next step and says how the model answers it.
func (t *turn) begin() labmodel.Step {
	h, s := t.h, t.s
	t.step++
	h.emit(s, eventStepStart, t.at())
	var prompted int64 // seq of the first prompt that says something
	var words string
	for _, m := range t.taken {
		seq := h.emitMessage(s, eventUser, m, nil, nil)
		s.conversation.User(m.text())
		t.round = s.roundBegins(m) || t.round
		if m.byPerson() {
			s.promptedAt = now()
			if words == "" {
				prompted, words = seq, m.text()
			}
		}
	}
	t.taken = nil
	if !s.snapshot {
		s.snapshot = true
		h.emitMessage(s, eventUser, contextMessage(s), nil, nil)
	}
	titling := words != "" && !s.titled
	if titling {
		h.setTitle(s, shorten(words, 5, 40), []int64{prompted}, object{"kind": "fallback"})
	}
	t.ask()
	if titling && !s.subagent() {
		s.titleOf = prompted
		h.emit(s, "session/title-llm-request", titleRequest(prompted, words))
	}
	return s.conversation.Next()
}

// ask records the model request, as far as it differs from the one before.
func (t *turn) ask() {
	h, s := t.h, t.s
	s.requests++
	pinned := object{"maxTokens": true}
	fresh := object{"maxTokens": true, "reasoningEffort": true}
	switch {
	case s.requests == 1 && !s.header:
		h.emit(s, eventHeader, requestHeader("initial", fresh, h.opts.HeaderBytes))
		h.emit(s, "request/context", object{"provider": provider, "model": model, "contextWindow": 1000000})
	case s.requests == 1 && s.subagent():
		h.emit(s, eventHeader, requestHeader("resume", fresh, h.opts.HeaderBytes))
	case s.requests == 1:
		h.emit(s, eventHeader, requestHeader("resume", pinned, h.opts.HeaderBytes))
	case !s.pinned && !s.subagent():
		h.emit(s, eventHeader, requestHeader("change", pinned, h.opts.HeaderBytes))
	}
	// The first request settles the reasoning effort, which shows in the header of the second.
	s.pinned = s.header
	s.header = true
}

// settleTitle brings the title that the model was asked for. It comes whenever there is time for it.
func (t *turn) settleTitle() {
	if seq := t.s.titleOf; seq != 0 {
		t.s.titleOf = 0
		t.h.setTitle(t.s, labmodel.Title, []int64{seq}, object{
			"kind": "provider", "provider": titleProvider, "model": object{"provider": provider, "model": model},
		})
	}
}

// finish closes a step that went well and says whether the turn is over.
func (t *turn) finish(how ending) bool {
	t.h.emit(t.s, eventStepEnd, t.at())
	if how == goesOn && t.ctx.Err() != nil {
		t.abort()
		return true
	}
	t.taken = t.h.claim(t.s, false)
	if how == completed && len(t.taken) == 0 {
		t.end(object{"kind": endCompleted})
		return true
	}
	return false
}

// abort closes a turn that was stopped.
func (t *turn) abort() { t.end(object{"kind": endAborted, "reason": object{"kind": t.cause()}}) }

// end closes the turn for the reason that turn/end gives.
func (t *turn) end(reason object) {
	t.h.emit(t.s, eventTurnEnd, object{"turn": t.number, "reason": reason})
	t.s.checkpoint()
	t.settleTitle()
	kind, _ := reason["kind"].(string)
	t.turnOver(kind, false)
	t.leave(kind)
}

// leave makes the session idle, or begins its next turn: only a turn that completed lets the next message come. After
// any other, what waits stays until something new arrives.
func (t *turn) leave(kind string) {
	t.s.turn, t.s.outcome = nil, kind
	t.h.notify()
	switch {
	case kind == endCompleted && (len(t.s.inbox.turn) > 0 || t.h.nextRound(t.s)):
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

// cause names who stopped the turn.
func (t *turn) cause() string {
	if errors.Is(context.Cause(t.ctx), errParent) {
		return errParent.Error()
	}
	return errUser.Error()
}
