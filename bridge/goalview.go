package bridge

import (
	"context"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// Bounds of a goal's texts in answers, in bytes.
const (
	maxShownObjective = 600
	maxShownReason    = 600
)

// goalView is a task's goal, as a caller sees it.
type goalView struct {
	Phase     string `json:"phase"`
	Revision  int64  `json:"revision"`
	Objective string `json:"objective,omitempty"`
	Rounds    int    `json:"rounds"` // how many were begun
	MaxRounds int    `json:"maxRounds,omitempty"`
	// Blocked says why the host or the agent cannot go on.
	Blocked *blockedView `json:"blocked,omitempty"`
	// Idle is set when the goal is active and nothing begins its next round: its last turn did not complete, the host was
	// started anew, or the session is a fork. Resuming it begins one.
	Idle bool `json:"idle,omitempty"`
}

type blockedView struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// roundDue reports whether the host is about to begin the goal's next round. It does so within milliseconds of a turn
// that completed, and of the change that sets the goal going; what stays away for longer does not come.
func roundDue(snap mux.Snapshot, now time.Time) bool {
	g := snap.Goal
	if g == nil || g.Phase != ledger.GoalActive || !snap.Execution.Terminal() {
		return false
	}
	begins := snap.Execution == ledger.TurnCompleted || g.ChangedAt >= snap.Turn.EndedAt
	return begins && now.Sub(snap.UpdatedAt) < reportGrace
}

// goalKnown is a goal without its texts, nil when there is none. What the ledger knows goes before the host's list, which
// tells the rounds as of the last change only; the list knows the goals of older ledgers.
func (b *Bridge) goalKnown(snap mux.Snapshot, row *dsh.Goal) *goalView {
	switch g := snap.Goal; {
	case g != nil:
		view := &goalView{Phase: g.Phase, Revision: g.Revision, Rounds: g.Rounds, MaxRounds: g.MaxRounds}
		view.Idle = g.Phase == ledger.GoalActive && snap.Execution.Terminal() && !roundDue(snap, b.now())
		return view
	case row != nil && !snap.GoalKnown:
		return &goalView{Phase: row.Phase, Revision: row.Ref.Revision, Rounds: row.Rounds, MaxRounds: row.MaxRounds}
	}
	return nil
}

// goalShown is goalKnown with the texts, which are read from the host.
func (b *Bridge) goalShown(ctx context.Context, r *reader, snap mux.Snapshot, row *dsh.Goal) (*goalView, error) {
	view := b.goalKnown(snap, row)
	if view == nil {
		return nil, nil
	}
	if g := snap.Goal; g != nil && (row == nil || row.Ref != dsh.GoalRef{ID: g.ID, Revision: g.Revision}) {
		if g.Seq < 0 {
			return view, nil
		}
		ev, ok, err := r.event(ctx, r.task.Root, g.Seq)
		if err != nil || !ok {
			return view, err
		}
		goal := dsh.GoalChangeOf(ev).Goal
		row = &goal
	}
	view.tell(row)
	return view, nil
}

// tell adds the texts.
func (v *goalView) tell(goal *dsh.Goal) {
	v.Objective, _ = shorten(goal.Objective, maxShownObjective)
	v.MaxRounds = max(v.MaxRounds, goal.MaxRounds)
	if goal.Phase == dsh.GoalBlocked {
		v.Blocked = &blockedView{Code: goal.ReasonCode}
		v.Blocked.Message, _ = shorten(goal.Reason, maxShownReason)
	}
}

// bare is the view without its texts.
func (v *goalView) bare() *goalView {
	if v == nil {
		return nil
	}
	bare := *v
	bare.Objective, bare.Blocked = "", nil
	return &bare
}
