// Package labmodel is the scripted model of the laboratory: a script language that fits into a prompt, and an
// OpenAI-compatible chat-completions server that plays it, so that a real host runs real turns without a real model.
//
// A prompt carries its script behind the marker LAB: as one JSON object, see [Script]. The newest user message that
// holds a script decides, whatever the host adds behind it; see [Conversation] for the rule.
package labmodel

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"
)

// Script says what the model does from one user message on.
type Script struct {
	// Steps answer the model requests after the message: the i-th is used when i tool results came since.
	Steps []Step `json:"steps,omitempty"`
	// Loop calls Tool with Args that many times instead, then goes on as a script whose steps are used up.
	Loop int             `json:"loop,omitempty"`
	Tool string          `json:"tool,omitempty"` // "bash" when empty
	Args json.RawMessage `json:"args,omitempty"` // a harmless command when empty
}

// Step is one answer of the model: a failure (Status), a tool call (Tool), or words (Say).
type Step struct {
	// Say is streamed word by word, Repeat times, with a pause of DelayMs after each word.
	Say     string `json:"say,omitempty"`
	Repeat  int    `json:"repeat,omitempty"` // 0 means once
	DelayMs int    `json:"delayMs,omitempty"`
	// Tool is the name of the tool to call, with Args (an empty object when there are none).
	Tool string          `json:"tool,omitempty"`
	Args json.RawMessage `json:"args,omitempty"`
	// Status answers with that HTTP status and nothing else; it wins over every other field.
	Status int `json:"status,omitempty"`
	// HangMs waits that long before the answer begins.
	HangMs int `json:"hangMs,omitempty"`
}

// Marker is what a script in a prompt starts with; the JSON object follows directly.
const Marker = "LAB:"

// Parse finds the first script in a text. It reports false when there is none, or when what follows the marker is not
// a script.
func Parse(text string) (Script, bool) {
	at := strings.Index(text, Marker+"{")
	if at < 0 {
		return Script{}, false
	}
	object := balanced(text[at+len(Marker):])
	if object == "" {
		return Script{}, false
	}
	var s Script
	if json.Unmarshal([]byte(object), &s) != nil {
		return Script{}, false
	}
	return s, true
}

// Prompt returns a prompt that says text and carries the script.
func (s Script) Prompt(text string) string {
	// Marshalling strings, numbers and raw messages that came from Unmarshal cannot fail; a Script made by hand with
	// broken Args becomes a prompt without a script.
	object, err := encode(s)
	if err != nil {
		return text
	}
	return text + " " + Marker + string(object)
}

// Words yields the pieces that the step's text is streamed in. Each keeps the space behind it, so that joining them
// gives the whole text.
func (s Step) Words() iter.Seq[string] {
	words := strings.SplitAfter(s.Say, " ")
	if len(words) > 1 && words[len(words)-1] == "" {
		words = words[:len(words)-1]
	}
	return func(yield func(string) bool) {
		for range max(s.Repeat, 1) {
			for _, word := range words {
				if !yield(word) {
					return
				}
			}
		}
	}
}

// Arguments is the tool call's arguments as one compact JSON text.
func (s Step) Arguments() string {
	if len(s.Args) == 0 {
		return "{}"
	}
	var b bytes.Buffer
	if json.Compact(&b, s.Args) != nil {
		return "{}"
	}
	return b.String()
}

// balanced returns the JSON object at the start of text, by its braces alone, or "" when it does not end.
func balanced(text string) string {
	depth, inString, escaped := 0, false, false
	for i := range len(text) {
		c := text[i]
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case inString:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return text[:i+1]
			}
		}
	}
	return ""
}

// encode is json.Marshal without the escaping meant for HTML, so that a script reads in a prompt as it was written.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
