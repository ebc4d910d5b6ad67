package demo

import (
	"errors"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/words"
)

// What a model that nobody scripted is asked to do: little, and nothing that changes anything.
const (
	lookPrompt = "Look at the files in your working directory and say in one sentence what they are. Only read: change nothing, start nothing, and ask nothing."
	waitPrompt = "Run the shell command `sleep 5` once, and nothing else. Then say in one short sentence that you are back."
)

// playReal is the part of the story that can be told with a model of its own mind.
func (s *stage) playReal() error {
	s.step("What would a task run on?")
	about, err := s.call("dsh_host_status", "", map[string]any{})
	if err != nil {
		return err
	}
	s.got(words.Good, "model %s of %s, %s", about.Get("model"), about.Get("provider"), plural(len(about.Get("presets").Array()), "preset"))
	s.step("The supervisor hands a task over: to look, and change nothing.")
	if err := s.delegate("read-only", "Look at the files … say in one sentence what they are.", lookPrompt); err != nil {
		return err
	}
	s.step("It waits for the end.")
	if err := s.ended(); err != nil {
		return err
	}
	s.step("What did the agent do?")
	if err := s.result(); err != nil {
		return err
	}
	s.step("The supervisor goes on.")
	if err := s.followup("Run the shell command `sleep 5` … say that you are back.", waitPrompt); err != nil {
		return err
	}
	if err := s.interrupt(0); err != nil {
		return err
	}
	s.step("How does the task stand?")
	status, err := s.call("dsh_status", "", map[string]any{})
	if err = errors.Join(err, hold(status.Get("recovery").String() == "live", "its record is %s", status.Get("recovery"))); err != nil {
		return err
	}
	s.got(words.Good, "%s after turn %s, its record equals the host's history", status.Get("status"), status.Get("turn.number"))
	return s.release()
}

// refuse says no to what a real model asks for: nobody agreed to more than looking.
func (s *stage) refuse(request gjson.Result) error {
	args := map[string]any{"requestId": request.Get("requestId").String()}
	if request.Get("type").String() == "question" {
		s.got(words.Asking, "the agent asks something; the demo does not answer for you")
		args["dismiss"] = true
		_, err := s.call("dsh_answer_question", "dismiss", args)
		return err
	}
	s.got(words.Asking, "the agent wants %s: %s; the demo allows nothing", request.Get("toolName"), request.Get("command"))
	args["outcome"] = "reject"
	_, err := s.call("dsh_resolve_approval", "reject", args)
	return err
}
