package dsh

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Kind sorts the ways in which a call to a host fails, by what the caller may conclude from it.
type Kind int

const (
	// NotSent: the host never got the call (no connection, a cancelled context before sending).
	NotSent Kind = iota + 1
	// OutcomeUnknown: the call went out and no answer came back (broken connection, time out, HTTP 5xx). For a
	// write, the host may have done it.
	OutcomeUnknown
	// Refused: the host answered with an error of its own; Code, Message and Details are the host's.
	Refused
	// Incompatible: what answers there is not a host of the generation this package speaks.
	Incompatible
	// Malformed: the answer is not what the wire promises; Message names the field.
	Malformed
	// TooLarge: the answer exceeds the size limit. A history page can be asked for again with fewer messages.
	TooLarge
)

func (k Kind) String() string {
	switch k {
	case NotSent:
		return "not sent"
	case OutcomeUnknown:
		return "outcome unknown"
	case Refused:
		return "refused by the host"
	case Incompatible:
		return "incompatible host"
	case Malformed:
		return "malformed answer"
	case TooLarge:
		return "answer too large"
	}
	return "unknown"
}

// MethodEvents is the Method of an [Error] of the event stream.
const MethodEvents = "events.mux"

// Codes of refusals, as seen on the wire.
const (
	CodeSessionNotFound   = "session-not-found"
	CodeSessionConflict   = "session-conflict"
	CodeBadRequest        = "bad-request"
	CodeAgentBusy         = "agent-busy"
	CodePresetNotFound    = "agent-preset-not-found"
	CodePresetConflict    = "agent-preset-conflict"
	CodeQueueItemNotFound = "queue-item-not-found"
	CodeModelUnavailable  = "model-unavailable"
	CodeForkUnavailable   = "fork-unavailable"
	CodeSubagentNotFound  = "subagent-not-found"
	CodeInternal          = "internal"
)

// Error is a failed call to a host. It never holds the content of the call.
type Error struct {
	Kind   Kind
	Method string // the wire's method name, e.g. "session.prompt"
	// Code, Message and Details are the host's own for Refused; Message explains every kind.
	Code    string
	Message string
	Details json.RawMessage
	// Err is the cause below, if there is one.
	Err error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s", e.Method, e.Kind)
	if e.Code != "" {
		s += " (" + e.Code + ")"
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the Kind of the *Error in err's chain, or 0 when there is none.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

// IsCode reports whether err is a refusal by the host with that code.
func IsCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Refused && e.Code == code
}
