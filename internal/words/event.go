package words

import (
	"fmt"
	"strings"

	"dsh-agentlink/internal/operator"
)

// told is what is shown of an event: who did it, and what.
type told struct {
	who  string
	what string
	tint Tint
}

// whoWidth holds the longest of the usual names, and a subagent's short id.
const whoWidth = 8

// cursorWidth holds the cursors of all but very long tasks.
const cursorWidth = 6

// Event writes one event: cursor, time, who, what. Further lines of a text come under its first.
func Event(e operator.Event) []Line {
	t := tell(e)
	cursor := "·"
	if e.Cursor > 0 {
		cursor = fmt.Sprint(e.Cursor)
	}
	who := Visible(t.who)
	if e.SessionID != "" {
		who += " (" + Clip(e.SessionID, whoWidth) + ")"
	}
	front := fmt.Sprintf("%*s  %s  ", cursorWidth, cursor, Clock(e.At))
	var all []Line
	for i, line := range Lines(t.what) {
		if i == 0 {
			all = append(all, Line{{front, Faint}, {fmt.Sprintf("%-*s", whoWidth, who), Bold}, {"  ", Plain}, {line, t.tint}})
		} else {
			all = append(all, Line{{strings.Repeat(" ", len([]rune(front))+whoWidth+2), Plain}, {line, t.tint}})
		}
	}
	return all
}

// tell puts an event into words.
func tell(e operator.Event) told {
	switch e.Type {
	case "turn/start":
		return told{"host", fmt.Sprintf("turn %d begins", e.Turn), Faint}
	case "turn/end":
		return turnEnd(e)
	case "user/message":
		if name, ok := strings.CutPrefix(e.From, "plugin:"); ok {
			return told{"plugin", name + ": " + content(e.Text, e.Chars), Faint}
		}
		return told{e.From, content(e.Text, e.Chars), Plain}
	case "assistant/message":
		what := content(e.Text, e.Chars)
		if e.Interrupted {
			what += " [cut off]"
		}
		return told{"agent", what, Plain}
	case "tool/call":
		return told{"agent", "-> " + content(strings.TrimSpace(e.Tool+" "+e.Args), e.Chars), Faint}
	case "tool/result":
		if e.IsError {
			return told{"tool", "<- failed: " + content(e.Text, e.Chars), Careful}
		}
		return told{"tool", "<- " + content(e.Text, e.Chars), Faint}
	case "approval/asked":
		what := "asks whether it may use " + orElse(e.Tool, "a tool")
		if e.Reason != "" {
			what += ": " + e.Reason
		}
		return told{"agent", what, Asking}
	case "approval/decided":
		return told{"person", "the approval: " + orElse(e.Outcome, "decided"), Asking}
	case "subagent/descriptor":
		return told{"agent", strings.TrimSpace("subagent "+e.Label) + mode(e.Mode), Plain}
	case "goal/change":
		return told{"goal", goal(e.Goal), Plain}
	}
	return coordination(e)
}

// coordination puts into words what is no event of the session.
func coordination(e operator.Event) told {
	switch e.Type {
	case "question/requested":
		return told{"agent", "asks a question (" + e.RequestID + ")", Asking}
	case "question/resolved":
		return told{"host", "the question is " + orElse(e.Outcome, "resolved") + " (" + e.RequestID + ")", Asking}
	case "approval/requested":
		return told{"host", "an approval waits (" + e.RequestID + ")", Asking}
	case "interaction/withdrawn":
		return told{"host", "the request is gone (" + e.RequestID + ")", Careful}
	case "interaction/replayed":
		return told{"host", "the request is back (" + e.RequestID + ")", Asking}
	case "respond/accepted":
		return told{"bridge", "its answer was accepted (" + e.RequestID + ")", Plain}
	case "respond/not-pending":
		return told{"bridge", "its answer came too late (" + e.RequestID + ")", Careful}
	case "bridge/prompt-issued":
		return told{"bridge", "a prompt: " + e.Outcome, Careful}
	case "bridge/turn-interrupted":
		return told{"bridge", strings.TrimSpace("the turn came to its end without a word " + e.Reason), Careful}
	case "session/jobs":
		return told{"host", jobStates(e), Faint}
	case "ledger/gap":
		if e.FromSeq != nil && e.ToSeq != nil {
			return told{"bridge", fmt.Sprintf("events %d to %d could not be recovered", *e.FromSeq, *e.ToSeq), Bad}
		}
	}
	return told{"host", e.Type, Faint}
}

func turnEnd(e operator.Event) told {
	what := fmt.Sprintf("turn %d: %s", e.Turn, orElse(e.Reason, "ended"))
	switch {
	case e.Failure != nil:
		return told{"host", what + ": " + e.Failure.Message, Bad}
	case e.Reason == "completed":
		return told{"host", what, Good}
	}
	return told{"host", what, Careful}
}

// content is a text, or a mark that there is none to show.
func content(text string, chars int) string {
	switch {
	case text == "":
		return "…"
	case chars > 0:
		return fmt.Sprintf("%s [of %d characters]", strings.TrimRight(text, "\r\n"), chars)
	}
	return text
}

func mode(m string) string {
	if m == "" {
		return ""
	}
	return " (" + m + ")"
}

func goal(g *operator.Goal) string {
	if g == nil {
		return "…"
	}
	return strings.TrimSpace(strings.Join(NonEmpty(g.Operation, g.Phase, g.Objective, g.Blocked), " · "))
}

func jobStates(e operator.Event) string {
	if len(e.Jobs) == 0 {
		return "no background jobs"
	}
	var list []string
	for _, j := range e.Jobs {
		list = append(list, j.ID+" "+j.Status)
	}
	return "background jobs: " + strings.Join(list, ", ")
}

func orElse(word, instead string) string {
	if word == "" {
		return instead
	}
	return word
}

// NonEmpty returns the words that say something.
func NonEmpty(all ...string) []string {
	var list []string
	for _, w := range all {
		if w != "" {
			list = append(list, w)
		}
	}
	return list
}
