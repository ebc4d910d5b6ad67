package demo

import (
	"time"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/words"
)

// absence is how long the agent works without a bridge.
const absence = 700 * time.Millisecond

// interrupt kills the bridge in the midst of a turn, starts another one on the same home, and holds what the two tell
// against each other. calls is how many tools the turn calls; 0 where a model decides that.
func (s *stage) interrupt(calls int) error {
	s.step("Its bridge is killed in the midst of the turn, and another one started.")
	before, over, err := s.underWay()
	if err != nil {
		return err
	}
	seen := s.cursor
	pid, err := s.bridge.kill()
	if err != nil {
		return err
	}
	s.sent("kill -9 %d", pid)
	if over {
		s.got(words.Careful, "gone, at cursor %d; the turn was over already", seen)
	} else {
		s.got(words.Bad, "gone, at cursor %d; the agent works on", seen)
	}
	select {
	case <-time.After(absence):
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	if err := s.start(); err != nil {
		return err
	}
	if over {
		s.cursor = seen - 1 // so that the end, which the first bridge told already, is told again
	}
	if err := s.ended(); err != nil {
		return err
	}
	return s.compare(before, calls)
}

// underWay waits for the first tool call of the turn, or for its end, and reads all there is by then.
func (s *stage) underWay() (events []gjson.Result, over bool, err error) {
	for {
		progress, err := s.wait("change")
		if err != nil {
			return nil, false, err
		}
		if events, err = s.events(); err != nil {
			return nil, false, err
		}
		over = progress.Get("reason").String() == "terminal"
		if over || progress.Get("pending").Exists() || count(lastTurn(events), "tool/call") > 0 {
			return events, over, nil
		}
	}
}

// compare holds what the second bridge tells against what the first one told.
func (s *stage) compare(before []gjson.Result, calls int) error {
	s.step("Is anything lost, or told twice?")
	s.sent("dsh_tail from the beginning")
	after, err := s.events()
	if err != nil {
		return err
	}
	if err := hold(len(after) >= len(before), "%d events are left of %d", len(after), len(before)); err != nil {
		return err
	}
	last := int64(0)
	for i, event := range after {
		cursor := event.Get("cursor").Int()
		if err := hold(cursor > last, "cursor %d comes behind %d", cursor, last); err != nil {
			return err
		}
		if i < len(before) {
			if err := hold(event.Raw == before[i].Raw, "cursor %d is another event than before the kill", cursor); err != nil {
				return err
			}
		}
		last = cursor
	}
	if told := count(lastTurn(after), "tool/call"); calls > 0 && told != calls {
		return hold(false, "the turn called %d tools, and %d are told", calls, told)
	}
	s.got(words.Good, "no: the %s known before are the same at the same cursors, and %d more came since", plural(len(before), "event"), len(after)-len(before))
	return nil
}

// lastTurn is what belongs to the last turn that began.
func lastTurn(events []gjson.Result) []gjson.Result {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Get("type").String() == "turn/start" {
			return events[i:]
		}
	}
	return nil
}

func count(events []gjson.Result, kind string) int {
	n := 0
	for _, e := range events {
		if e.Get("type").String() == kind {
			n++
		}
	}
	return n
}
