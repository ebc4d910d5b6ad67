package labmodel

import (
	"encoding/json"
	"fmt"
)

// Conversation follows a conversation and knows what the model says next. Its zero value is an empty conversation.
//
// The rule: the newest user message that holds a script decides, and its step number i answers when i tool results
// came after that message. User messages without a script, such as the context a host adds behind the person's words
// or a notice about a finished job, change nothing. When the steps are used up, or without any script, the model says
// "done", or "done after N tool results" with the last of them.
type Conversation struct {
	script  Script
	results int
	last    string
}

// User takes in a user message.
func (c *Conversation) User(text string) {
	if s, ok := Parse(text); ok {
		*c = Conversation{script: s}
	}
}

// ToolResult takes in the text of one tool result.
func (c *Conversation) ToolResult(text string) {
	c.results++
	c.last = text
}

// Next is the model's answer to the conversation so far. Asking again gives the same answer.
func (c *Conversation) Next() Step {
	s := c.script
	switch {
	case c.results < s.Loop:
		return loopStep(s)
	case c.results < len(s.Steps):
		return s.Steps[c.results]
	case c.results > 0:
		return Step{Say: fmt.Sprintf("done after %d tool results: %s", c.results, head(c.last, 200))}
	}
	return Step{Say: "done"}
}

func loopStep(s Script) Step {
	step := Step{Tool: s.Tool, Args: s.Args}
	if step.Tool == "" {
		step.Tool = "bash"
	}
	if len(step.Args) == 0 {
		step.Args = json.RawMessage(`{"command":"true","description":"step"}`)
	}
	return step
}

// head returns the first n characters of text.
func head(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}
