package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/tasks"
)

// Limits of what a caller may pass.
const (
	// maxPrompt bounds a prompt in bytes. It goes to the host in one request and comes back in every page of the
	// history; longer material belongs in a file of the workspace.
	maxPrompt = 1 << 20
	maxTitle  = 200 // characters
	maxID     = 128 // bytes of an id that a caller chooses
)

// decodeArgs reads a tool's arguments into args and refuses what the tool does not know.
func decodeArgs(raw json.RawMessage, args any) error {
	if len(bytes.TrimSpace(raw)) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(args)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return &Error{Code: CodeInvalidArgument, Message: fmt.Sprintf("%s: a JSON %s does not fit, it has to be %s", cmpOr(wrong.Field, "arguments"), wrong.Value, kindName(wrong.Type.String()))}
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		return &Error{Code: CodeInvalidArgument, Message: "there is no argument " + strings.TrimPrefix(err.Error(), "json: unknown field "),
			Hint: "The tool's input schema lists its arguments."}
	}
	return &Error{Code: CodeInvalidArgument, Message: "arguments: " + err.Error()}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func kindName(goType string) string {
	switch strings.TrimPrefix(goType, "*") {
	case "string", "claims.Mode":
		return "a string"
	case "int", "int64":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return "an object"
}

func checkTaskID(id string) error {
	if !tasks.ValidID(id) {
		return invalid("taskId", id, "a task id is dsh_ and 12 hex digits", "dsh_list lists the tasks.")
	}
	return nil
}

// checkSince refuses a cursor that no ledger can have given.
func checkSince(since *int64) error {
	if since != nil && *since < 0 {
		return invalid("sinceCursor", *since, "cursors begin with 0, before the first record", "")
	}
	return nil
}

func checkPrompt(prompt string) error {
	switch {
	case strings.TrimSpace(prompt) == "":
		return invalid("prompt", prompt, "it is blank", "Say what is to be done.")
	case len(prompt) > maxPrompt:
		return &Error{Code: CodeInvalidArgument, Message: fmt.Sprintf("prompt: %d bytes are more than %d", len(prompt), maxPrompt),
			Hint: "Put long material into a file of the workspace and name the file."}
	case !utf8.ValidString(prompt):
		return &Error{Code: CodeInvalidArgument, Message: "prompt: it is not valid UTF-8"}
	}
	return nil
}

func checkRange(field string, value, low, high int) error {
	if value < low || value > high {
		return invalid(field, value, fmt.Sprintf("it has to be from %d to %d", low, high), "")
	}
	return nil
}

func checkChoice(field, value string, choices ...string) error {
	for _, c := range choices {
		if value == c {
			return nil
		}
	}
	return invalid(field, value, "it has to be one of "+strings.Join(choices, ", "), "")
}

// checkID accepts the ids that callers choose; they are compared and digested, never stored as they are.
func checkID(field, value string) error {
	if len(value) > maxID || strings.TrimSpace(value) != value || !utf8.ValidString(value) {
		return invalid(field, value, fmt.Sprintf("it has to be at most %d bytes without blanks around", maxID), "")
	}
	return nil
}

// checkLaunch checks what every tool takes that makes a task.
func checkLaunch(title string, mode claims.Mode, wait int, requestID string) error {
	if utf8.RuneCountInString(title) > maxTitle {
		return invalid("title", title, fmt.Sprintf("it has more than %d characters", maxTitle), "")
	}
	if err := checkChoice("workspaceMode", string(mode), string(claims.ExclusiveWrite), string(claims.ReadOnly)); err != nil {
		return err
	}
	if err := checkRange("waitSeconds", wait, 0, maxWaitSeconds); err != nil {
		return err
	}
	return checkID("requestId", requestID)
}
