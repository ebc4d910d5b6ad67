package mux

import (
	"slices"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// A turn that is cancelled before the model has said anything in its step ends, on a real host, with step/end and
// nothing more: no turn/end, neither live nor in the history. Between two steps of a living turn nothing lasts, so a
// session whose open turn is silent behind a step/end is asked for.
const (
	minSilence = 700 * time.Millisecond
	maxSilence = 30 * time.Second
)

// silence is a session that is silent in an open turn, or the root without one, while prompts from before the connection
// are unfinished.
type silence struct {
	session string
	turn    int
	mark    int64 // its watermark
	prompts bool
}

// fallsSilent reports whether a turn can end silently behind an event of that type: behind the end of a step, or what a
// person or the making of a title brings at any time.
func fallsSilent(event string) bool {
	return event == "step/end" || event == "session/title" || event == "agent/inbox/spliced"
}

// watchSilence looks for open turns that are silent and for prompts of which nothing comes, and has each of them asked
// for until it moves on.
func (t *Task) watchSilence(epoch int) error {
	quiet := map[silence]bool{}
	since := t.m.since()
	if err := t.ledger.View(func(state *ledger.State) {
		if root := state.Sessions[state.Root]; root != nil && !root.Turn.Open() && anyUnfinished(state, since) {
			quiet[silence{state.Root, root.Turn.Number, root.Watermark, true}] = true
		}
		for id, s := range state.Sessions {
			if s.Turn.Open() && fallsSilent(s.LastEvent) {
				quiet[silence{id, s.Turn.Number, s.Watermark, false}] = true
			}
		}
	}); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.epoch != epoch {
		return nil
	}
	for q := range quiet {
		if !t.silent[q] {
			t.m.spawn(func() { t.askSilent(epoch, q) })
		}
	}
	t.silent = quiet
	return nil
}

// askSilent asks the host, at growing intervals, whether a silent session still runs, and records the end of its turn, or
// what became of its prompts, when it does not.
func (t *Task) askSilent(epoch int, q silence) {
	ctx := t.m.ctx
	for pause := minSilence; ; pause = min(pause*2, maxSilence) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if err := t.refresh(); err != nil {
			continue // it may have been told by another process, and cannot be seen
		}
		if _, _, lasts := t.stillSilent(epoch, q); !lasts {
			return
		}
		before, err := t.silentEnd(source{id: q.session}, q)
		if err != nil {
			continue
		}
		sessions, err := t.m.List(ctx)
		if err != nil {
			continue
		}
		i := slices.IndexFunc(sessions, func(s dsh.Session) bool { return s.ID == q.session })
		s, reach, lasts := t.stillSilent(epoch, q)
		switch {
		case !lasts:
			return
		case i < 0:
			continue
		case sessions[i].LastSeq >= reach:
			t.require(epoch, q.session) // it went on, and that got lost
			return
		case !sessions[i].Running && sessions[i].LastSeq < q.mark && !q.prompts:
			t.require(epoch, q.session) // the host has let go of it, and closes the turn when its log is read
			return
		case sessions[i].Running || sessions[i].LastSeq != q.mark || q.prompts && !s.covered:
			continue
		case s.heard == 0:
			// One that the host does not hold in memory died with it, and is no matter of silence. When that was looked
			// into, something was still missing.
			t.recheck()
			continue
		}
		end, err := t.silentEnd(s, q)
		if err != nil {
			continue
		}
		end = slices.DeleteFunc(end, func(e ledger.Entry) bool {
			// The host was asked before it got this one, so its answer says nothing of it.
			return !slices.ContainsFunc(before, func(b ledger.Entry) bool { return b.Coordination.RequestID == e.Coordination.RequestID })
		})
		if err := t.append(t.m.during(epoch), epoch, end); err != nil {
			t.log.Warn("what a silence means is not recorded yet", "session", q.session, "err", err)
			t.nudge()
		}
		return
	}
}

// silentEnd is what a silence turned out to be.
func (t *Task) silentEnd(s source, q silence) (batch []ledger.Entry, err error) {
	if !q.prompts {
		return []ledger.Entry{record(ledger.TypeTurnInterrupted, s, ledger.Coordination{Turn: q.turn, Reason: ledger.ReasonAborted})}, nil
	}
	since := t.m.since()
	err = t.ledger.View(func(state *ledger.State) {
		waiting, stranded := unfinished(state, since)
		batch = fates(s, waiting, stranded)
	})
	return batch, err
}

// require has a session's history read.
func (t *Task) require(epoch int, session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[session]; s != nil && t.epoch == epoch {
		s.need = true
		t.start()
	}
}

// stillSilent reports whether nothing has come of the session since, and how far it was seen.
func (t *Task) stillSilent(epoch int, q silence) (s source, reach int64, lasts bool) {
	silent := false
	since := t.m.since()
	err := t.ledger.View(func(state *ledger.State) {
		s := state.Sessions[q.session]
		silent = s != nil && s.Turn.Open() != q.prompts && s.Watermark == q.mark && (!q.prompts || anyUnfinished(state, since))
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.sessions[q.session]
	if t.epoch != epoch || known == nil {
		return source{}, 0, false
	}
	return *known, t.reach(known), err != nil || silent
}
