package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/words"
)

// title is that of the demo's session at the host.
const title = "dsh-agentlink demo"

// stage is where a story is played: the steps that both stories are made of.
type stage struct {
	ctx     context.Context
	opts    Options
	dir     string
	hostURL string
	bridge  *process
	page

	task   string
	cursor int64 // up to which the supervisor has seen the task
	asked  string
}

// hold is a step's check.
func hold(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("it did not hold: "+format, args...)
}

// call calls a tool for the task, showing the part of its arguments that a reader needs.
func (s *stage) call(tool, shown string, args map[string]any) (gjson.Result, error) {
	s.sent("%s", strings.TrimSpace(tool+" "+shown))
	if s.task != "" {
		args["taskId"] = s.task
	}
	return s.bridge.call(s.ctx, tool, args)
}

// confirm is the person whom the bridge asks before a call is allowed.
func (s *stage) confirm(text string) bool {
	s.asked = text
	return true
}

// delegate hands the task over.
func (s *stage) delegate(mode, words1, prompt string) error {
	answer, err := s.call("dsh_delegate", fmt.Sprintf("%q in %s/", words1, projectFolder), map[string]any{
		"prompt": prompt, "cwd": filepath.Join(s.dir, projectFolder), "title": title, "workspaceMode": mode})
	if err = errors.Join(err, hold(answer.Get("accepted").Bool(), "the task was not accepted")); err != nil {
		return err
	}
	s.task, s.cursor = answer.Get("taskId").String(), answer.Get("cursor").Int()
	s.got(words.Good, "accepted as %s on %s; %s/ is claimed (%s)", s.task, answer.Get("model"), projectFolder, answer.Get("workspace.mode"))
	return nil
}

// followup sends another message.
func (s *stage) followup(shown, prompt string) error {
	answer, err := s.call("dsh_followup", fmt.Sprintf("%q", shown), map[string]any{"prompt": prompt})
	if err = errors.Join(err, hold(answer.Get("accepted").Bool(), "the follow-up was not accepted")); err != nil {
		return err
	}
	s.cursor = answer.Get("cursor").Int()
	s.got(words.Good, "accepted; what it brings about comes behind cursor %d", s.cursor)
	return nil
}

// longest is how long one wait takes.
const longest = 30

// wait waits for something behind the cursor, which it moves.
func (s *stage) wait(until string) (gjson.Result, error) {
	for {
		answer, err := s.bridge.call(s.ctx, "dsh_wait", map[string]any{"taskId": s.task, "sinceCursor": s.cursor, "until": until, "timeoutSec": longest})
		if err != nil {
			return answer, err
		}
		s.cursor = answer.Get("nextCursor").Int()
		if answer.Get("reason").String() != "timeout" {
			return answer, hold(answer.Get("availability").String() == "connected", "the host is away")
		}
	}
}

// ended waits for the end of the turn and shows its last words.
func (s *stage) ended() error {
	s.sent("dsh_wait until attention")
	answer, err := s.wait("attention")
	if err != nil {
		return err
	}
	return s.end(answer)
}

func (s *stage) end(answer gjson.Result) error {
	if err := hold(answer.Get("status").String() == "turn_completed", "the task is %s (%s) %s", answer.Get("status"), answer.Get("reason"), answer.Get("failure.message")); err != nil {
		return err
	}
	s.got(words.Good, "turn_completed: %q", answer.Get("finalMessage.text"))
	return nil
}

// events reads all that happened in the task.
func (s *stage) events() ([]gjson.Result, error) {
	var all []gjson.Result
	since := int64(0)
	for {
		answer, err := s.bridge.call(s.ctx, "dsh_tail", map[string]any{"taskId": s.task, "sinceCursor": since, "maxEvents": 500, "maxBytes": 1_000_000})
		if err != nil {
			return nil, err
		}
		all = append(all, answer.Get("events").Array()...)
		if !answer.Get("hasMore").Bool() {
			return all, nil
		}
		since = answer.Get("nextCursor").Int()
	}
}

// absence is how long the agent works without a bridge.
const absence = 700 * time.Millisecond

// interrupt kills the bridge while the agent works, starts another one and holds what they tell against each other.
// calls is how many tools the turn calls, 0 where the model decides that.
func (s *stage) interrupt(calls int) error {
	s.step("Its bridge is killed while the agent works, and started again.")
	progress, err := s.wait("change")
	if err != nil {
		return err
	}
	before, err := s.events()
	if err != nil {
		return err
	}
	pid, err := s.bridge.kill()
	if err != nil {
		return err
	}
	s.sent("kill -9 %d", pid)
	s.got(words.Bad, "gone at cursor %d; the task was %s", s.cursor, progress.Get("execution"))
	select {
	case <-time.After(absence):
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	if s.bridge, err = startBridge(s.ctx, s.opts, s.hostURL, filepath.Join(s.dir, bridgeFolder), s.confirm); err != nil {
		return err
	}
	s.sent("dsh_wait until attention, since cursor %d", s.cursor)
	if progress.Get("reason").String() == "terminal" {
		s.cursor = before[len(before)-1].Get("cursor").Int() - 1 // so that the end, which came first, is told again
	}
	answer, err := s.wait("attention")
	if err != nil {
		return err
	}
	if err := s.end(answer); err != nil {
		return err
	}
	return s.compare(before, calls)
}

// compare holds what the second bridge tells against what the first one told.
func (s *stage) compare(before []gjson.Result, calls int) error {
	s.step("Nothing is lost, and nothing comes twice.")
	s.sent("dsh_tail from the beginning")
	after, err := s.events()
	if err != nil {
		return err
	}
	if err := hold(len(after) >= len(before), "%s are left of %d", plural(len(after), "event"), len(before)); err != nil {
		return err
	}
	for i, old := range before {
		if err := hold(after[i].Raw == old.Raw, "the event at cursor %s is another than before the kill", old.Get("cursor")); err != nil {
			return err
		}
	}
	last, called := int64(0), 0
	for i, e := range after {
		cursor := e.Get("cursor").Int()
		if err := hold(cursor > last, "cursor %d comes behind %d", cursor, last); err != nil {
			return err
		}
		last = cursor
		if i >= len(before)-1 || e.Get("type").String() != "tool/call" {
			continue
		}
		called++
	}
	_ = called
	if calls > 0 {
		n := 0
		for _, e := range lastTurn(after) {
			if e.Get("type").String() == "tool/call" {
				n++
			}
		}
		if err := hold(n == calls, "the turn called %d tools, and %d are told of", calls, n); err != nil {
			return err
		}
	}
	s.got(words.Good, "the %s known before the kill are the same, cursor by cursor; %d more came since", plural(len(before), "event"), len(after)-len(before))
	return nil
}
