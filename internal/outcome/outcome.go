// Package outcome tells what a turn of a session did, from the events of its history.
//
// It is facts, not judgement: what a command did is recognised by the command itself, taken apart as a shell would, and
// figures are read from what the host and the test runners print in formats of their own. What cannot be told is left
// out. The functions are pure; they never fail and never panic, whatever the events hold.
package outcome

import (
	"cmp"
	"slices"

	"dsh-agentlink/internal/dsh"
)

// Ref is the event that something was read from.
type Ref struct {
	Session string
	Seq     int64
}

// Turn is what the events of one turn tell.
type Turn struct {
	Session  string
	Number   int
	Start    int64 // seq of turn/start, -1 when the events have none
	End      int64 // seq of turn/end, -1 when the events have none
	StartAt  int64 // milliseconds since the epoch, by the host's clock; 0 when there is no turn/start
	LastAt   int64 // of the last event
	Reason   string
	Failure  dsh.TurnEnd // of a turn that ended otherwise than completed
	Steps    int
	Usage    dsh.Usage
	HasUsage bool

	Final    *Message // the last assistant message with text
	Files    []File
	Commands []Command
	Tests    []Test
	Git      []GitRef
	Todos    *Todos // as last written; nil when the turn wrote none
	Warnings []Warning
	Jobs     []Job // background jobs that began here and are not known to have ended
}

// Message is a text of the agent.
type Message struct {
	Ref
	Text        string
	Interrupted bool
}

// States of a command that has no exit status.
const (
	StateRunning = "running" // in the background, not known to have ended
	StateNone    = "no_result"
	StateAborted = "aborted" // while it ran
	StateError   = "error"   // the tool failed or refused it; the output says why
)

// Command is one command line that a shell tool was given.
type Command struct {
	Ref       // of the tool/call
	Line      string
	Dir       string // where it was told to run; empty for the session's directory
	Exit      *int
	Signal    string
	TimedOut  bool
	Job       string // id of the background job it became
	State     string // a State… constant; empty when Exit or Signal tells
	Output    string
	Truncated bool // the host left out a part of the output
	Result    int64
	failed    bool
}

// Test is one run of a test runner.
type Test struct {
	Ref    // of the tool/call of its command line
	Runner string
	Counts Counts
	// Unsure: the command stands where it can have been passed over, and no figures prove that it ran.
	Unsure bool
}

// Todos is the agent's list of what is to be done.
type Todos struct {
	Ref
	Items []dsh.Todo
}

// Job is a background job.
type Job struct {
	Ref // of the tool/call that started it
	ID  string
	// Line is its command.
	Line string
}

// Kinds of warnings.
const (
	WarnFailedCommand = "failed_command"     // it failed, and no command succeeded after it
	WarnToolFailed    = "tool_failed"        // a call of another tool than a shell, and no later one of it succeeded
	WarnApproval      = "approval"           // decided otherwise than allowed; Detail is the outcome
	WarnQuestion      = "question_dismissed" // the agent asked and got no answer
	WarnTruncated     = "truncated"          // the host left out a part of a tool's output
	WarnInterrupted   = "message_interrupted"
	WarnNoFinal       = "no_final_message" // the turn ended without a message that has text
)

// Warning is something that a supervisor has to look at.
type Warning struct {
	Ref
	Kind   string
	Tool   string
	Detail string
}

// Of folds the events of one turn, given in ascending seq, of one session. dir is the session's directory; when it is
// empty, the file tools' own reports tell it, or paths stay as they are.
func Of(session, dir string, events []dsh.Event) Turn {
	f := fold{session: session, dir: dir, turn: Turn{Session: session, Start: -1, End: -1}, calls: map[string]*call{}, jobs: map[string]*call{}, asked: map[string]string{}}
	for _, ev := range events {
		f.event(ev)
	}
	return f.finish()
}

// Split cuts a history, in ascending seq, at the starts of its turns. Events before the first start are left out.
func Split(events []dsh.Event) [][]dsh.Event {
	var turns [][]dsh.Event
	from := -1
	for i, ev := range events {
		if ev.Type != "turn/start" {
			continue
		}
		if from >= 0 {
			turns = append(turns, events[from:i])
		}
		from = i
	}
	if from >= 0 {
		turns = append(turns, events[from:])
	}
	return turns
}

// byOrder sorts warnings by where they were read.
func byOrder(list []Warning) {
	slices.SortStableFunc(list, func(a, b Warning) int { return cmp.Compare(a.Seq, b.Seq) })
}
