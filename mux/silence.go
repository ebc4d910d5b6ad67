package mux

import (
	"context"
	"maps"
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

// watchSilence looks for open turns behind a step/end, and has each of them asked for until it moves on.
func (t *Task) watchSilence(epoch int) error {
	quiet := map[string]int64{}
	if err := t.ledger.View(func(state *ledger.State) {
		for id, s := range state.Sessions {
			if s.Turn.Open() && s.LastEvent == "step/end" {
				quiet[id] = s.Watermark
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
	for id, mark := range quiet {
		if at, watched := t.silent[id]; !watched || at != mark {
			t.m.spawn(func() { t.askSilent(epoch, id, mark) })
		}
	}
	t.silent = maps.Clone(quiet)
	return nil
}

// askSilent asks the host, at growing intervals, whether a silent session still runs, and records the end of its turn
// when it does not.
func (t *Task) askSilent(epoch int, id string, mark int64) {
	ctx := t.m.ctx
	for pause := minSilence; ; pause = min(pause*2, maxSilence) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if !t.stillSilent(epoch, id, mark) {
			return
		}
		sessions, err := t.m.List(ctx)
		if err != nil {
			continue
		}
		i := slices.IndexFunc(sessions, func(s dsh.Session) bool { return s.ID == id })
		if i < 0 || sessions[i].Running || sessions[i].LastSeq > mark || !t.stillSilent(epoch, id, mark) {
			continue
		}
		if err := t.recordSilentEnd(ctx, epoch, id); err != nil {
			t.log.Warn("the silent end of a turn is not recorded yet", "session", id, "err", err)
			continue
		}
		return
	}
}

// stillSilent reports whether nothing has come of the session since.
func (t *Task) stillSilent(epoch int, id string, mark int64) bool {
	t.mu.Lock()
	same := t.epoch == epoch
	t.mu.Unlock()
	silent := false
	err := t.ledger.View(func(state *ledger.State) {
		s := state.Sessions[id]
		silent = s != nil && s.Turn.Open() && s.Watermark == mark
	})
	return same && (err != nil || silent)
}

func (t *Task) recordSilentEnd(ctx context.Context, epoch int, id string) error {
	t.mu.Lock()
	s := t.sessions[id]
	var known source
	if s != nil {
		known = *s
	}
	t.mu.Unlock()
	if s == nil {
		return nil
	}
	return t.append(ctx, epoch, []ledger.Entry{record(ledger.TypeTurnInterrupted, known, ledger.Coordination{Reason: ledger.ReasonAborted})})
}
