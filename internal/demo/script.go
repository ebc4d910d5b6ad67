package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/internal/words"
)

// What the scripted task asks, and what the person says to it.
const (
	askedName   = "Which name should the summary have?"
	chosenName  = "SUMMARY.txt"
	forbidden   = "rm -r ../" + archiveFolder
	permitted   = "touch ../" + publishedFolder + "/" + chosenName
	checks      = 4 // tool calls of the second turn
	beyondSpace = "danger-full-access"
)

// arguments encodes a scripted tool call's arguments, which are made of strings, lists and maps only.
func arguments(v map[string]any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}

func bash(command, description string) labmodel.Step {
	return labmodel.Step{Tool: "bash", Args: arguments(map[string]any{"command": command, "description": description})}
}

// escalate is a command that has to be approved, since it reaches beyond the agent's sandbox.
func escalate(command, why string) labmodel.Step {
	return labmodel.Step{Tool: "bash", Args: arguments(map[string]any{"command": command, "description": why,
		"sandbox_permissions": beyondSpace, "justification": why})}
}

// firstTurn asks a question and for two approvals.
func firstTurn(prompt string) string {
	return labmodel.Script{Steps: []labmodel.Step{
		bash("sleep 0.2; echo one note found", "look at the notes"),
		{Tool: "ask_user_question", Args: arguments(map[string]any{"questions": []any{map[string]any{"id": "name", "question": askedName,
			"options": []any{map[string]any{"label": chosenName}, map[string]any{"label": "NOTES.txt"}}}}})},
		escalate(forbidden, "the old archive is in the way"),
		escalate(permitted, "the summary is published outside the project"),
		{Say: "The summary is published as " + chosenName + "; the archive stays."},
	}}.Prompt(prompt)
}

// secondTurn works long enough for a bridge to be killed meanwhile.
func secondTurn(prompt string) string {
	script := labmodel.Script{}
	for i := range checks {
		script.Steps = append(script.Steps, bash(fmt.Sprintf("sleep 0.4; echo check %d passed", i+1), "check the summary"))
	}
	script.Steps = append(script.Steps, labmodel.Step{Say: "All checks passed."})
	return script.Prompt(prompt)
}

// playScript is the story with everything in it, for a model that plays scripts.
func (s *stage) playScript() error {
	s.step("The supervisor hands a task over.")
	prompt := "Publish a summary of the notes."
	if err := s.delegate("exclusive-write", prompt, firstTurn(prompt)); err != nil {
		return err
	}
	s.step("It follows the progress.")
	s.sent("dsh_wait until change")
	if _, err := s.wait("change"); err != nil {
		return err
	}
	if err := s.showWork(); err != nil {
		return err
	}
	for _, act := range []func() error{s.answerQuestion, s.rejectCall, s.allowCall} {
		if err := act(); err != nil {
			return err
		}
	}
	s.step("The task ends.")
	if err := s.ended(); err != nil {
		return err
	}
	s.step("The supervisor is not content yet.")
	prompt = "Check the summary."
	if err := s.followup(prompt, secondTurn(prompt)); err != nil {
		return err
	}
	if err := s.interrupt(checks); err != nil {
		return err
	}
	return s.accept()
}

// showWork waits for the first tool call and shows it.
func (s *stage) showWork() error {
	for {
		events, err := s.events()
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Get("type").String() == "tool/call" {
				s.got(words.Plain, "the agent runs: %s", gjson.Get(e.Get("args").String(), "command"))
				return nil
			}
		}
		if _, err := s.wait("change"); err != nil {
			return err
		}
	}
}

// attention waits for a request of a kind.
func (s *stage) attention(kind string) (gjson.Result, error) {
	s.sent("dsh_wait until attention")
	answer, err := s.wait("attention")
	request := answer.Get("pending.0")
	return request, errors.Join(err, hold(request.Get("type").String() == kind, "no %s waits; the task is %s", kind, answer.Get("status")))
}

func (s *stage) answerQuestion() error {
	s.step("The agent has a question. It goes to you, and your answer back, word for word.")
	request, err := s.attention("question")
	if err != nil {
		return err
	}
	question := request.Get("questions.0")
	var labels []string
	for _, option := range question.Get("options.#.label").Array() {
		labels = append(labels, option.String())
	}
	s.got(words.Asking, "question: %s (%s)", question.Get("question"), strings.Join(labels, ", "))
	answer, err := s.call("dsh_answer_question", chosenName, map[string]any{"requestId": request.Get("requestId").String(),
		"answers": []any{map[string]any{"id": question.Get("id").String(), "selected": []string{chosenName}}}})
	if err = errors.Join(err, hold(answer.Get("accepted").Bool(), "the answer was not accepted")); err != nil {
		return err
	}
	s.got(words.Good, "accepted")
	return nil
}

func (s *stage) rejectCall() error {
	s.step("It wants to do something outside its sandbox. You say no.")
	if err := s.decide(forbidden, "reject"); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(s.dir, archiveFolder, "note.txt"))
	return hold(err == nil, "the archive is gone, though the call was rejected")
}

func (s *stage) allowCall() error {
	s.step("It wants to write outside its sandbox. You are shown the very command, and say yes.")
	if err := s.decide(permitted, "allow_once"); err != nil {
		return err
	}
	return hold(strings.Contains(s.you.wasShown(), permitted), "the person was not shown the command")
}

// decide decides the approval that comes next, which has to be that of a command.
func (s *stage) decide(command, outcome string) error {
	request, err := s.attention("approval")
	if err != nil {
		return err
	}
	if err := hold(request.Get("command").String() == command, "the approval is for %q", request.Get("command")); err != nil {
		return err
	}
	s.got(words.Asking, "approval: %s: %s", request.Get("toolName"), request.Get("command"))
	answer, err := s.call("dsh_resolve_approval", outcome, map[string]any{"requestId": request.Get("requestId").String(), "outcome": outcome})
	if err = errors.Join(err, hold(answer.Get("accepted").Bool(), "the decision was not accepted")); err != nil {
		return err
	}
	if shown := s.you.wasShown(); shown != "" {
		s.got(words.Asking, "your client asks: %s", gist(shown))
		s.sent("yes")
	}
	s.got(words.Good, "%s", answer.Get("outcome"))
	return nil
}

// accept looks at what was done and gives the directory back.
func (s *stage) accept() error {
	s.step("The supervisor looks at the result.")
	if err := s.result(); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(s.dir, publishedFolder, chosenName))
	if err := hold(err == nil, "the allowed call has not written %s/%s", publishedFolder, chosenName); err != nil {
		return err
	}
	s.sent("ls %s %s", publishedFolder, archiveFolder)
	s.got(words.Good, "%s is there, and the archive still has its note", chosenName)
	return s.release()
}

// gist is the first line of what a person is shown, and the command in it.
func gist(shown string) string {
	question, rest, _ := strings.Cut(shown, "\n")
	for line := range strings.Lines(rest) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "| "); ok {
			question += " " + command
		}
	}
	return question
}
