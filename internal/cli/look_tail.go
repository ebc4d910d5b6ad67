package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"dsh-agentlink/bridge"
	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/words"
)

// defaultTail is how many events a tail shows that names no beginning.
const defaultTail = 50

// tailFlags are the flags of `tail`.
type tailFlags struct {
	follow bool
	since  int64
	limit  int
}

func tailCommand(std streams) *cobra.Command {
	var flags tailFlags
	var c *cobra.Command
	c = lookCommand(std, look{
		use: "tail TASK", short: "Read what happened in a task, and follow it", takesTask: true,
		long: "Shows what was said and done in a task, with content from the host's live history, and what waits for an answer.\n" +
			"The number in front is the event's cursor; events that no bridge has recorded yet have none.\n" +
			"With --follow it goes on until it is interrupted, also when the host comes and goes; with --json as well it prints one document a line:\n" +
			"an event, or {\"pending\":…}, or {\"availability\":…} when the host comes or goes.",
		example: "  dsh-agentlink tail dsh_0a1b2c3d4e5f\n  dsh-agentlink tail 0a1b -f\n  dsh-agentlink tail 0a1b --since 120 --limit 10 --json",
		run: func(ctx context.Context, o *operator.Operator, s *screen, args []string) error {
			if flags.limit < 0 {
				return usageError{fmt.Errorf("--limit %d: give 0 for all events, or how many at most", flags.limit)}
			}
			var since *int64
			if c.Flags().Changed("since") {
				if flags.since < 0 {
					return usageError{fmt.Errorf("--since %d: give the cursor of an event, or 0 for the beginning", flags.since)}
				}
				since = &flags.since
			}
			return tail(ctx, o, s, args[0], since, flags)
		},
	})
	c.Flags().BoolVarP(&flags.follow, "follow", "f", false, "go on with what happens, until interrupted")
	c.Flags().Int64Var(&flags.since, "since", 0, "show what came behind this cursor; without it the last events")
	c.Flags().IntVar(&flags.limit, "limit", defaultTail, "how many events at most, 0 for all; with --follow, how many to begin with")
	return c
}

func tail(ctx context.Context, o *operator.Operator, s *screen, id string, since *int64, flags tailFlags) (err error) {
	feed, err := o.Feed(ctx, id, since, everything(flags.limit))
	if err != nil {
		return tailError(err)
	}
	defer func() { err = errors.Join(err, feed.Close()) }()
	if !flags.follow {
		answer, err := feed.More(ctx, flags.limit)
		if err != nil {
			return tailError(err)
		}
		return s.show(answer, func() { showTail(s, answer) }, nil)
	}
	f := follower{screen: s}
	if err := feed.Follow(ctx, f.show); err != nil {
		return tailError(err)
	}
	return nil
}

// everything is what a limit of 0 means.
func everything(limit int) int {
	if limit == 0 {
		return int(^uint(0) >> 1)
	}
	return limit
}

// tailError makes a wrong cursor a mistake in the command line.
func tailError(err error) error {
	e, ok := errors.AsType[*bridge.Error](err)
	if !ok {
		return err
	}
	switch e.Code {
	case bridge.CodeInvalidCursor, bridge.CodeCursorExpired:
		return usageError{fmt.Errorf("--since: %s; leave it out for the last events", e.Message)}
	case bridge.CodeLedgerDamaged:
		return errors.New(e.Message)
	}
	return err
}

func showTail(s *screen, t operator.Tail) {
	away(s, t.ContentUnavailable, "the events are shown without their content")
	for _, e := range t.Events {
		showEvent(s, e)
	}
	for _, p := range t.Pending {
		showPending(s, p)
	}
	if t.Fault != "" {
		s.line("%s", s.paint(words.Bad, words.Visible(t.Fault)))
	}
	if t.HasMore {
		s.line("there is more; --since %d goes on", t.NextCursor)
	}
	s.line("%s", s.paint(words.StatusTint(t.Status), words.Standing(t)))
}

// follower shows a tail as it grows.
type follower struct {
	*screen
	seen         []string // request ids that were shown
	availability string
	status       string
}

func (f *follower) show(t operator.Tail) error {
	f.turnOver(t)
	for _, e := range t.Events {
		if f.json {
			f.document(e)
		} else {
			showEvent(f.screen, e)
		}
	}
	for _, p := range t.New(f.seen) {
		if p.Unavailable != "" {
			continue // it will be brought
		}
		f.seen = append(f.seen, p.RequestID)
		if f.json {
			f.document(map[string]operator.Pending{"pending": p})
		} else {
			showPending(f.screen, p)
		}
	}
	if !f.json && t.Status != f.status && t.Availability == f.availability {
		f.line("%s", f.paint(words.StatusTint(t.Status), words.Standing(t)))
	}
	f.status = t.Status
	return f.err
}

// turnOver tells when the host comes or goes.
func (f *follower) turnOver(t operator.Tail) {
	if t.Availability == f.availability {
		return
	}
	first := f.availability == ""
	f.availability = t.Availability
	switch {
	case f.json:
		f.document(map[string]string{"availability": t.Availability, "status": t.Status})
	case t.ContentUnavailable != "":
		away(f.screen, t.ContentUnavailable, "waiting for it")
	case !first:
		f.line("%s", f.paint(words.Good, "the host is back"))
	}
}
