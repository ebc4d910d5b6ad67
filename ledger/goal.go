package ledger

import "slices"

// goalMoves follows the goal of a session over a change of it, or over the beginning of a round.
func (s *Session) goalMoves(r *Record) {
	change := r.Coordination.Goal
	switch {
	case change == nil || change.ID == "":
		return
	case change.Operation == GoalRound:
		// Only an active goal has rounds, also one whose changes lie in a gap.
		goal := Goal{ID: change.ID, Revision: change.Revision, Phase: GoalActive, Seq: -1, Cursor: r.Cursor, ChangedAt: r.Coordination.Time}
		if g := s.Goal; g != nil && g.ID == change.ID {
			goal = *g
		}
		goal.Rounds = max(goal.Rounds, change.Rounds)
		s.Goal = &goal
		return
	}
	s.Goal = &Goal{ID: change.ID, Revision: change.Revision, Phase: change.Phase, Rounds: change.Rounds, MaxRounds: change.MaxRounds,
		Seq: *r.SourceSeq, Cursor: r.Cursor, ChangedAt: r.Coordination.Time}
}

// issuedGoal notes which change of the goal a write was to make.
func (s *State) issuedGoal(requestID string, change *GoalChange) {
	i := slices.IndexFunc(s.Issued, func(p Issued) bool { return p.RequestID == requestID })
	if i >= 0 && change != nil {
		s.Issued[i].Goal = change
	}
}

// goalShows settles the writes of which the history shows that they were made: a change follows one revision, and only
// one can.
func (s *State) goalShows(r *Record) {
	change := r.Coordination.Goal
	if change == nil || r.SourceSessionID != s.Root {
		return
	}
	for i := range s.Issued {
		issued := &s.Issued[i]
		if issued.Goal == nil || issued.Outcome == PromptAccepted || issued.Outcome == PromptRefused || issued.Goal.Operation != change.Operation {
			continue
		}
		if change.Operation == "create" || (issued.Goal.ID == change.ID && issued.Goal.Revision+1 == change.Revision) {
			issued.Outcome, issued.Cursor = PromptAccepted, r.Cursor
		}
	}
}
