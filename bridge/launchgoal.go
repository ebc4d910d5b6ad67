package bridge

import (
	"context"
	"errors"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/tasks"
)

// goalSpec is the goal of a delegation.
type goalSpec struct {
	Objective     string `json:"objective"`
	MaxGoalRounds *int   `json:"maxGoalRounds,omitempty"`
}

func (g *goalSpec) check() error {
	if g == nil {
		return nil
	}
	if err := checkObjective("goal.objective", g.Objective); err != nil {
		return err
	}
	return checkRounds("goal.maxGoalRounds", g.MaxGoalRounds)
}

// goal gives the session the goal that it was delegated with. A session has one goal, so a second attempt makes no
// second one.
func (l *launch) goal(ctx context.Context) error {
	if l.args.Goal == nil || l.task.GoalSent == tasks.SentYes {
		return nil
	}
	if l.known {
		if there, err := l.goalThere(ctx); there || err != nil {
			return err
		}
	}
	if err := l.saveGoal(tasks.SentUnknown); err != nil {
		return err
	}
	rounds := 0
	if l.args.Goal.MaxGoalRounds != nil {
		rounds = *l.args.Goal.MaxGoalRounds
	}
	ref, err := l.b.host.CreateGoal(ctx, l.task.SessionID, l.args.Goal.Objective, rounds)
	switch dsh.KindOf(err) {
	case 0:
		if err != nil {
			return err
		}
	case dsh.NotSent, dsh.Refused, dsh.Incompatible:
		return errors.Join(l.incomplete("the goal was not taken", err), l.saveGoal(tasks.SentNo))
	default:
		return l.incomplete("whether the host took the goal is not known", err)
	}
	l.answer.Goal = &goalView{Phase: dsh.GoalActive, Revision: ref.Revision, MaxRounds: rounds}
	return l.saveGoal(tasks.SentYes)
}

// goalThere finds out whether an earlier call gave the session its goal.
func (l *launch) goalThere(ctx context.Context) (bool, error) {
	row, _, err := l.watched.Fresh(ctx)
	if err != nil {
		return false, err
	}
	snap, err := l.watched.Snapshot()
	if err != nil || (!snap.GoalKnown && row.Goal == nil) {
		return false, err
	}
	l.answer.Goal = l.b.goalKnown(snap, row.Goal)
	return true, l.saveGoal(tasks.SentYes)
}

// saveGoal notes on disk what is known of the goal. Without a prompt it is what the launch waits for.
func (l *launch) saveGoal(sent tasks.Sent) error {
	l.task.GoalSent = sent
	prompt := l.task.PromptSent
	if l.task.PromptID == "" {
		prompt = sent
	}
	return l.save(tasks.Prompted, prompt)
}
