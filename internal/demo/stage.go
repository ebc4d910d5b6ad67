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
	you     person
	page

	task   string
	cursor int64 // up to which the supervisor has seen the task
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

// start starts a bridge on the demo's home.
func (s *stage) start() (err error) {
	s.bridge, err = startBridge(s.ctx, s.opts, s.hostURL, filepath.Join(s.dir, bridgeFolder), &s.you)
	return err
}

// delegate hands the task over.
func (s *stage) delegate(mode, shown, prompt string) error {
	answer, err := s.call("dsh_delegate", fmt.Sprintf("%q in %s/", shown, projectFolder), map[string]any{
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

// ended waits for the end of the turn and shows its last words. What the agent asks for meanwhile is refused.
func (s *stage) ended() error {
	s.sent("dsh_wait until attention")
	for {
		answer, err := s.wait("attention")
		if err != nil {
			return err
		}
		requests := answer.Get("pending").Array()
		for _, request := range requests {
			if err := s.refuse(request); err != nil {
				return err
			}
		}
		if len(requests) > 0 {
			continue
		}
		if err := hold(answer.Get("status").String() == "turn_completed", "the turn is %s: %s", answer.Get("status"), answer.Get("failure.message")); err != nil {
			return err
		}
		s.got(words.Good, "%s: %q", answer.Get("status"), answer.Get("finalMessage.text").String())
		return nil
	}
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

// result shows what the last turn did.
func (s *stage) result() error {
	answer, err := s.call("dsh_result", "", map[string]any{})
	if err != nil {
		return err
	}
	did := plural(len(answer.Get("commands").Array()), "command")
	if files := len(answer.Get("files").Array()); files > 0 {
		did += ", " + plural(files, "file")
	}
	s.got(words.Good, "turn %s %s: %s, %s tokens in and %s out", answer.Get("turn"), answer.Get("state"), did, answer.Get("tokens.in"), answer.Get("tokens.out"))
	return hold(answer.Get("state").String() == "completed", "the turn is %s", answer.Get("state"))
}

// release gives the directory back.
func (s *stage) release() error {
	s.step("The work is accepted, the directory is free again.")
	answer, err := s.call("dsh_release_workspace", "", map[string]any{})
	if err = errors.Join(err, hold(answer.Get("released").Bool(), "the workspace was not released")); err != nil {
		return err
	}
	s.got(words.Good, "released")
	return nil
}

// stopLimit bounds the attempt to stop a task whose demo has failed.
const stopLimit = 5 * time.Second

// stop stops what runs at the host when the story cannot go on. There is nobody left to tell when that fails too.
func (s *stage) stop() {
	if s.task == "" || s.bridge == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), stopLimit)
	defer cancel()
	_, _ = s.bridge.call(ctx, "dsh_cancel", map[string]any{"taskId": s.task})
}
