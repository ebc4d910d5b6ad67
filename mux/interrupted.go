package mux

import (
	"context"
	"slices"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// checkInterrupted records that the root's turn, or a prompt that the host had not written down yet, died with the
// host. That is so when the history, read to its end on this connection, shows the turn open or lacks the prompt, no
// frame of the session came, and the host says that nothing runs in it.
func (t *Task) checkInterrupted(ctx context.Context, epoch int) error {
	t.m.mu.Lock()
	since := t.m.conn.since.UnixMilli()
	t.m.mu.Unlock()
	var turnOpen bool
	var waiting []string
	if err := t.ledger.View(func(state *ledger.State) {
		turnOpen = state.RootTurn().Open()
		for id, p := range state.Prompts {
			// What lies in the session's inbox outlives the host: it is taken up with the next prompt.
			if p.Since < since && !state.Arrived(id) {
				waiting = append(waiting, id)
			}
		}
	}); err != nil {
		return err
	}
	if !turnOpen && len(waiting) == 0 {
		return nil
	}
	t.mu.Lock()
	root := *t.sessions[t.Root]
	due := t.quietRoot(epoch) && root.covered && !root.checked
	t.mu.Unlock()
	if !due {
		return nil
	}
	sessions, err := t.m.List(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(sessions, func(s dsh.Session) bool { return s.ID == t.Root })
	if i < 0 || sessions[i].Running {
		return nil
	}
	t.mu.Lock()
	due = t.quietRoot(epoch)
	if due {
		t.sessions[t.Root].checked = true
	}
	t.mu.Unlock()
	if !due {
		return nil // a frame came meanwhile: the session lives after all
	}
	var batch []ledger.Entry
	if turnOpen {
		batch = append(batch, record(ledger.TypeTurnInterrupted, root, ledger.Coordination{}))
	}
	for _, id := range waiting {
		batch = append(batch, record(ledger.TypeTurnInterrupted, root, ledger.Coordination{RequestID: id}))
	}
	return t.append(ctx, epoch, batch)
}

// quietRoot reports whether the opening burst of the connection is over and brought nothing of the root. t.mu is held.
func (t *Task) quietRoot(epoch int) bool {
	root := t.sessions[t.Root]
	return t.epoch == epoch && t.settle && !root.attached && !root.gone
}
