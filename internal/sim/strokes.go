package sim

import (
	"time"

	"dsh-agentlink/internal/dsh"
)

// cutStream breaks a stream, or all of them.
func (w *World) cutStream() {
	streams := w.streams()
	if len(streams) == 0 {
		return
	}
	if w.dice.chance(0.7) {
		streams = []*stream{one(w.dice, streams)}
	}
	for _, s := range streams {
		s.cut(w.dice.chance(0.5))
	}
}

// holdStream lets nothing through a stream for a while.
func (w *World) holdStream() {
	if streams := w.streams(); len(streams) > 0 {
		one(w.dice, streams).hold(w.dice.between(0, 12*time.Second))
	}
}

// halfOpenStream lets nothing through a stream any more, until the client finds out that it is dead.
func (w *World) halfOpenStream() {
	streams := w.streams()
	if len(streams) == 0 {
		return
	}
	s := one(w.dice, streams)
	s.silence()
	unanswered := w.dice.between(10*time.Second, 25*time.Second) // a ping every 15 s has 10 s for its answer
	w.wait.Go(func() {
		timer := time.NewTimer(unanswered)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.calm:
		}
		s.sever()
	})
}

// after does something later, unless the schedule is over by then: the end of the schedule ends all faults.
func (w *World) after(d time.Duration, do func()) {
	w.wait.Go(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			do()
		case <-w.calm:
		case <-w.over:
		}
	})
}

// loseFrames lets streams lose frames for a while.
func (w *World) loseFrames() {
	w.faults.set(func(f *faults) { f.losing = true })
	w.after(w.dice.between(0, 3*time.Second), func() { w.faults.set(func(f *faults) { f.losing = false }) })
}

// killHost kills the host and starts it again.
func (w *World) killHost() {
	w.untilBusy()
	w.host.kill(false)
	w.after(w.hostAway(), w.host.start)
}

// killForgetfulHost kills the host before it has written down what it said last.
func (w *World) killForgetfulHost() {
	w.untilBusy()
	for range w.host.kill(true) {
		w.count("host: a session lost its last events")
	}
	w.after(w.hostAway(), w.host.start)
}

// untilBusy waits, mostly, for a moment in which the host has just said something: it is idle for most of the time, and
// then its death is easily survived.
func (w *World) untilBusy() {
	if w.dice.chance(0.8) {
		w.host.event()
		time.Sleep(w.dice.between(0, writeDelay*time.Millisecond))
	}
}

func (w *World) hostAway() time.Duration {
	if w.dice.chance(0.2) {
		return w.dice.between(0, 40*time.Second)
	}
	return w.dice.between(time.Millisecond, 3*time.Second)
}

// killBridge kills a bridge's process wherever it is.
func (w *World) killBridge() { one(w.dice, w.slots).kill() }

// lightFuse kills a bridge's process within one of its next operations.
func (w *World) lightFuse() {
	if b := one(w.dice, w.slots).running(); b != nil {
		b.p.light(1 + w.dice.upTo(25))
	}
}

// losePower kills everything on the bridges' machine at once.
func (w *World) losePower() {
	// No process begins while the power is away, for beginning takes the slot's lock.
	for _, s := range w.slots {
		s.mu.Lock()
	}
	for _, s := range w.slots {
		if s.bridge != nil {
			s.bridge.p.kill()
		}
	}
	w.disk.losePower()
	for _, s := range w.slots {
		s.mu.Unlock()
	}
}

// wearDisk breaks an operation of the disk for a while.
func (w *World) wearDisk() {
	op := one(w.dice, diskOps)
	w.disk.wear(op, one(w.dice, diskErrors[op]))
	w.after(w.dice.between(0, 15*time.Second), w.disk.mend)
}

// beAPerson does something that people do in the host's own user interface.
func (w *World) beAPerson() {
	h := w.host
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil || len(h.order) == 0 {
		return
	}
	s := one(w.dice, h.order)
	switch w.dice.upTo(6) {
	case 0:
		if s.attached && !s.subagent() {
			_ = h.cancel(s.id) // it may have ended
		} else if s.turn != nil && s.mode == continuable {
			s.turn.cancel(errUser)
		}
	case 1:
		// A subagent's session refuses it.
		_ = h.prompt(dsh.PromptRequest{SessionID: s.id, RPCID: w.sent.person(), Mode: one(w.dice, []dsh.Mode{dsh.ModeQueue, dsh.ModeSteer})})
	case 2:
		h.attach(s)
	case 3:
		if !s.subagent() {
			h.fork(s.id)
		}
	case 4:
		_ = h.rename(s.id)
	default:
		if len(h.life.pending) > 0 {
			r := one(w.dice, h.life.pending)
			outcome := one(w.dice, []string{"answered", "cancelled"})
			if r.approval != "" {
				outcome = one(w.dice, []string{"allowed-once", "rejected"})
			}
			h.take(r, outcome)
			r.reply <- outcome
		}
	}
}
