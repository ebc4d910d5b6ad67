package bridge

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/outcome"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// Sizes of the pages of a turn, in messages: a usual turn takes one page, and a long one few, since a host that does
// not hold the session in memory reads its whole log for every page.
const (
	turnPage       = 64
	turnPageGrowth = 8
	turnPageLimit  = 4096
)

// readTurn reads a turn of the task and what its subagents did meanwhile.
func (b *Bridge) readTurn(ctx context.Context, r *reader, snap mux.Snapshot, s span) (turnRead, error) {
	var read turnRead
	events, err := r.turnEvents(ctx, r.task.Root, s)
	if err != nil {
		return read, err
	}
	claim, _, err := b.claims.Get(r.task.ID) // one that is released tells no directory, and paths stay as they are
	if err != nil {
		return read, err
	}
	read.root = outcome.Of(r.task.Root, claim.Cwd, events)
	from, to := cmp.Or(read.root.StartAt, s.startedAt), read.root.LastAt
	if s.state == turnRunning {
		to = 1<<63 - 1
	}
	if from > 0 {
		if read.children, err = b.childTurns(ctx, r, snap, from, to); err != nil {
			return read, err
		}
	}
	read.running(snap, s.last)
	return read, nil
}

// turnEvents reads the events of one turn, oldest first, from its end backwards.
func (r *reader) turnEvents(ctx context.Context, session string, s span) ([]dsh.Event, error) {
	before := int64(0)
	switch {
	case s.end > 0:
		before = s.end + 1
	case s.next > 0:
		before = s.next
	}
	err := r.back(ctx, session, before, func(events []dsh.Event) bool {
		return s.start > 0 && events[0].Seq <= s.start || s.start == 0 && slices.ContainsFunc(events, func(ev dsh.Event) bool {
			return ev.Type == "turn/start" && dsh.TurnOf(ev).Turn <= s.number
		})
	})
	if err != nil {
		return nil, err
	}
	for _, turn := range outcome.Split(r.sorted(session)) {
		if dsh.TurnOf(turn[0]).Turn == s.number {
			return turn, nil
		}
	}
	return nil, nil
}

// back reads pages backwards until enough says so of what has been read, oldest first, or the history ends.
func (r *reader) back(ctx context.Context, session string, before int64, enough func([]dsh.Event) bool) error {
	for messages := turnPage; ; messages = min(messages*turnPageGrowth, turnPageLimit) {
		first, more, err := r.page(ctx, session, before, messages)
		for dsh.KindOf(err) == dsh.TooLarge && messages > 1 {
			messages /= 4
			first, more, err = r.page(ctx, session, before, max(1, messages))
		}
		if err != nil || first < 0 || !more {
			return err
		}
		if events := r.sorted(session); len(events) > 0 && enough(events) {
			return nil
		}
		before = first
	}
}

// sorted are the events that were read of a session, oldest first.
func (r *reader) sorted(session string) []dsh.Event {
	events := slices.SortedStableFunc(r.read(session), func(a, b dsh.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return slices.CompactFunc(events, func(a, b dsh.Event) bool { return a.Seq == b.Seq })
}

// childTurns reads the turns of subagents that began between two times, by the host's clock.
func (b *Bridge) childTurns(ctx context.Context, r *reader, snap mux.Snapshot, from, to int64) ([]childTurn, error) {
	var list []childTurn
	labels := map[string]string{}
	asked := map[string]bool{}
	for _, child := range snap.Subagents {
		if child.Turn.Number == 0 || child.Turn.StartedAt < from || child.Turn.Number == 1 && child.Turn.StartedAt > to {
			continue
		}
		if !asked[child.Parent] {
			asked[child.Parent] = true
			siblings, err := b.host.Subagents(ctx, child.Parent)
			if err != nil && dsh.KindOf(err) != dsh.Refused {
				return nil, err
			}
			for _, s := range siblings {
				labels[s.SessionID] = s.Label
			}
		}
		err := r.back(ctx, child.SessionID, 0, func(events []dsh.Event) bool {
			return events[0].Time < from || events[0].Seq <= child.Turn.StartSeq && child.Turn.Number == 1
		})
		if dsh.KindOf(err) == dsh.Refused {
			continue // it is gone from the host
		}
		if err != nil {
			return nil, err
		}
		for _, events := range outcome.Split(r.sorted(child.SessionID)) {
			turn := outcome.Of(child.SessionID, "", events)
			if turn.StartAt >= from && turn.StartAt <= to {
				list = append(list, childTurn{turn: turn, agent: child, label: labels[child.SessionID], state: childState(child.Turn, turn)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b childTurn) int { return cmp.Compare(a.turn.StartAt, b.turn.StartAt) })
	return list, nil
}

// childState is how a subagent's turn stands: by its own end, or by what the ledger concludes of the last one.
func childState(last ledger.Turn, turn outcome.Turn) string {
	switch {
	case turn.Reason != "":
		return turn.Reason
	case turn.Number == last.Number:
		return stateOf(last)
	}
	return turnNoEnd
}

// running sorts out which background jobs run now. A job is known by its id and its command, since every session
// counts its jobs for itself.
func (read *turnRead) running(snap mux.Snapshot, last bool) {
	begun := slices.Clone(read.root.Jobs)
	for _, c := range read.children {
		begun = append(begun, c.turn.Jobs...)
	}
	for _, j := range snap.Jobs {
		if j.FinishedAt != 0 || j.Status != "running" {
			continue
		}
		i := slices.IndexFunc(begun, func(of outcome.Job) bool {
			return of.ID == j.ID && (j.Label == of.Line || strings.HasPrefix(of.Line, j.Label) && j.Label != "")
		})
		switch {
		case i >= 0:
			read.jobs = append(read.jobs, begun[i])
			begun = slices.Delete(begun, i, i+1)
		case last:
			read.others = append(read.others, jobsOf([]dsh.Job{j})...)
		}
	}
}
