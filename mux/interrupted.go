package mux

import (
	"context"
	"slices"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// maxSending is how long a prompt may be on its way without its outcome being recorded: longer than any call takes.
const maxSending = time.Minute

// checkInterrupted records that the root's turn, or a prompt that the host had not written down yet, died with the
// host, or that a prompt lies in the inbox of a host that was started anew and takes nothing from there. That is so when
// the history, read to its end on this connection, shows the turn open, lacks the prompt or ends with it in the inbox, no
// frame of the session came, and the host says that nothing runs in it.
func (t *Task) checkInterrupted(ctx context.Context, epoch int) error {
	since := t.m.since()
	var turn ledger.Turn
	var waiting, stranded []string
	if err := t.ledger.View(func(state *ledger.State) {
		turn = state.RootTurn()
		waiting, stranded = unfinished(state, since)
	}); err != nil {
		return err
	}
	if !turn.Open() && len(waiting)+len(stranded) == 0 {
		return nil
	}
	t.mu.Lock()
	root := *t.sessions[t.Root]
	due := t.quietRoot(epoch)
	t.mu.Unlock()
	if !due {
		return nil
	}
	sessions, err := t.m.List(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(sessions, func(s dsh.Session) bool { return s.ID == t.Root })
	ahead := i >= 0 && sessions[i].LastSeq >= root.next
	t.mu.Lock()
	due = t.quietRoot(epoch)
	if due {
		s := t.sessions[t.Root]
		s.checked, s.need = true, s.need || ahead // frames of it got lost
	}
	t.mu.Unlock()
	if !due || i < 0 || ahead || sessions[i].Running {
		return nil // what lives tells so sooner or later
	}
	var batch []ledger.Entry
	if turn.Open() {
		batch = append(batch, record(ledger.TypeTurnInterrupted, root, ledger.Coordination{Turn: turn.Number}))
	}
	return t.append(ctx, epoch, append(batch, fates(root, waiting, stranded)...))
}

// recheck has the worker look once more at what may have died with the host.
func (t *Task) recheck() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.suspect = true
	if root := t.sessions[t.Root]; root != nil {
		root.checked = false
	}
	t.start()
}

// unfinished lists the prompts from before a connection that the history does not show, and those that are stranded in
// the root's inbox, each in the order of their ids.
func unfinished(state *ledger.State, since time.Time) (waiting, stranded []string) {
	for id, p := range state.Prompts {
		before := since
		if p.Outcome == ledger.PromptSending {
			before = since.Add(-maxSending) // whoever sends it may be about to learn more
		}
		// What lies in the session's inbox outlives the host: it is taken up with the next prompt.
		switch late := p.Since < before.UnixMilli(); {
		case late && !state.Arrived(id):
			waiting = append(waiting, id)
		case late && state.Stranded(id):
			stranded = append(stranded, id)
		}
	}
	slices.Sort(waiting)
	slices.Sort(stranded)
	return waiting, stranded
}

// anyUnfinished reports whether there is such a prompt.
func anyUnfinished(state *ledger.State, since time.Time) bool {
	waiting, stranded := unfinished(state, since)
	return len(waiting)+len(stranded) > 0
}

// fates says what became of the unfinished prompts: those that the history lacks died with the host, and nothing takes
// the others out of the root's inbox.
func fates(root source, waiting, stranded []string) []ledger.Entry {
	var batch []ledger.Entry
	for _, id := range waiting {
		batch = append(batch, record(ledger.TypeTurnInterrupted, root, ledger.Coordination{RequestID: id}))
	}
	for _, id := range stranded {
		batch = append(batch, record(ledger.TypeTurnInterrupted, root, ledger.Coordination{RequestID: id, Outcome: ledger.PromptParked}))
	}
	return batch
}

// quietRoot reports whether the opening burst of the connection is over and brought nothing of the root, whose history
// has been read, and whether what that means is still to be found out. t.mu is held.
func (t *Task) quietRoot(epoch int) bool {
	root := t.sessions[t.Root]
	return t.epoch == epoch && t.settle && root.covered && root.heard == 0 && !root.gone && !root.checked
}
