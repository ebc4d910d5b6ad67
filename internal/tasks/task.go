// Package tasks keeps the task mappings: which session of the host a task is, and how far the launch of it got.
//
// A mapping is written before the host is asked for the session, so that after a crash at any point there is a task
// that explains itself and never a session that nobody knows. It holds ids and states only; the text of a caller's
// request never gets here, and what identifies one is a digest of it.
package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode"
)

// Format is the newest format of a task file that this package reads, and the one it writes. A file without a format
// counts as the first.
const Format = 1

// maxFieldBytes bounds each id in a task file.
const maxFieldBytes = 256

// ErrNewerFormat is what reading a task file returns that a newer bridge wrote.
var ErrNewerFormat = errors.New("the file was written by a newer bridge")

// Stage says how far the launch of a task got. The stages are passed in the order of the constants.
type Stage string

// The stages of a launch.
const (
	Mapped   Stage = "mapped"   // the mapping is on disk; the session may or may not exist
	Claimed  Stage = "claimed"  // the task holds its workspace claim
	Created  Stage = "created"  // the host has the session
	Prompted Stage = "prompted" // the first prompt was handed over; PromptSent says what is known of it
)

var stages = []Stage{Mapped, Claimed, Created, Prompted}

// Valid reports whether s is one of the stages.
func (s Stage) Valid() bool { return slices.Contains(stages, s) }

// Reached reports whether a launch that is at stage s has got as far as other.
func (s Stage) Reached(other Stage) bool {
	return s.Valid() && other.Valid() && slices.Index(stages, s) >= slices.Index(stages, other)
}

// Sent says what is known about whether the host got the first prompt.
type Sent string

// What can be known of a prompt.
const (
	SentNo      Sent = "no"      // it never left
	SentYes     Sent = "yes"     // the host accepted it
	SentUnknown Sent = "unknown" // it left, or may have, and no answer came
)

// Valid reports whether s is one of the three.
func (s Sent) Valid() bool { return s == SentNo || s == SentYes || s == SentUnknown }

// Task is one task mapping. TaskID, SessionID, CreatedAt, Stage and PromptSent are always set.
type Task struct {
	TaskID    string    `json:"taskId"`
	SessionID string    `json:"sessionId"`
	CreatedAt time.Time `json:"createdAt"`
	// Preset is the agent preset that was asked for; empty for the host's default.
	Preset string `json:"preset,omitempty"`
	Stage  Stage  `json:"stage"`
	// PromptID is the rpcId of the first prompt: how its message is found in the session's history.
	PromptID string `json:"promptId,omitempty"`
	// PromptSent is what is known of that prompt or, of a task that was launched without one, of its goal.
	PromptSent Sent `json:"promptSent"`
	// GoalSent is what is known of the goal that the task was launched with; empty for none.
	GoalSent Sent `json:"goalSent,omitempty"`
	// ForkOf is the session that the task's was forked from. The host chooses a fork's id, so SessionID stands for a
	// session that no host has until the launch has reached [Created].
	ForkOf string `json:"forkOf,omitempty"`
	// Request identifies the call that made the task; nil when the caller gave it no id.
	Request *Request `json:"request,omitempty"`
}

// Launched reports whether nothing of the launch is missing.
func (t Task) Launched() bool {
	switch {
	case t.GoalSent != "" && t.GoalSent != SentYes:
		return false
	case t.ForkOf != "" && t.PromptID == "" && t.GoalSent == "":
		return t.Stage.Reached(Created) // a fork can do without a prompt
	}
	return t.PromptSent == SentYes
}

// fileTask is a task as it is in its file.
type fileTask struct {
	Format int `json:"format,omitempty"`
	Task
}

// Validate says what is wrong with t, or nil. A task with free text in one of its fields is wrong.
func (t Task) Validate() error {
	switch {
	case !ValidID(t.TaskID):
		return fmt.Errorf("taskId %q is no task id", t.TaskID)
	case t.SessionID == "":
		return errors.New("sessionId is missing")
	case t.CreatedAt.IsZero():
		return errors.New("createdAt is missing")
	case !inJSON(t.CreatedAt):
		return errors.New("createdAt is out of range")
	case !t.Stage.Valid():
		return fmt.Errorf("stage %q is none of %v", t.Stage, stages)
	case t.GoalSent != "" && !t.GoalSent.Valid():
		return fmt.Errorf("goalSent %q is none of %v", t.GoalSent, []Sent{SentNo, SentYes, SentUnknown})
	case !t.PromptSent.Valid():
		return fmt.Errorf("promptSent %q is none of %v", t.PromptSent, []Sent{SentNo, SentYes, SentUnknown})
	}
	for _, f := range []struct{ name, value string }{
		{"sessionId", t.SessionID}, {"preset", t.Preset}, {"promptId", t.PromptID}, {"forkOf", t.ForkOf},
	} {
		if !isName(f.value) {
			return fmt.Errorf("%s is no id: it has spaces or control characters, or more than %d bytes", f.name, maxFieldBytes)
		}
	}
	if t.Request != nil {
		return t.Request.validate()
	}
	return nil
}

// inJSON reports whether t has a year that a file can hold.
func inJSON(t time.Time) bool {
	year := t.UTC().Year()
	return 0 <= year && year <= 9999
}

// isName reports whether s could be an id: short, and of printable characters other than spaces.
func isName(s string) bool {
	if len(s) > maxFieldBytes {
		return false
	}
	for _, r := range s {
		if r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func encode(t Task) ([]byte, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	t.CreatedAt = t.CreatedAt.UTC()
	data, err := json.Marshal(fileTask{Format: Format, Task: t})
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// decode reads a task file. The format is looked at first, since a newer one may differ in everything else.
func decode(data []byte) (Task, error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Task{}, err
	}
	if head.Format > Format {
		return Task{}, fmt.Errorf("%w (format %d, this one reads up to %d)", ErrNewerFormat, head.Format, Format)
	}
	var t fileTask
	if err := json.Unmarshal(data, &t); err != nil {
		return Task{}, err
	}
	if err := t.Validate(); err != nil {
		return Task{}, err
	}
	return t.Task, nil
}
