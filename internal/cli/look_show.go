package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/words"
)

// taskStatusAnswer is what is shown of the answer of dsh_status.
type taskStatusAnswer struct {
	Title        string
	Availability string
	Execution    string
	Status       string
	Turn         *struct {
		Number                     int
		StartedAt, EndedAt, Reason string
	}
	Failure            *operator.Failure
	FinalMessage       *struct{ Text string }
	FinalMessageStatus string
	Pending            []operator.Pending
	Queue              struct {
		Known, Stale              bool
		NextTurn, NextStep, Total int
	}
	Jobs               []struct{ ID, Label, Status string }
	Subagents          []struct{ SessionID, Mode, State string }
	Model              string
	Routable           *bool
	Recovery           string
	Gaps               []struct{ FromSeq, ToSeq int64 }
	Fault              string
	ContentUnavailable string
}

func showSheet(s *screen, sheet operator.Sheet) {
	var status taskStatusAnswer
	if len(sheet.Status) > 0 {
		if err := json.Unmarshal(sheet.Status, &status); err != nil {
			s.line("the status cannot be read: %s", words.Visible(err.Error()))
		}
	}
	s.sheet([]pair{
		{"task", tinted(words.Bold, sheet.TaskID)},
		{"title", text(status.Title)},
		{"session", text(sheet.SessionID)},
		{"status", standing(status)},
		{"created", text(moment(s, sheet.CreatedAt))},
		{"launch", launch(sheet.Launch)},
		{"preset", text(sheet.Preset)},
		{"turn", text(turn(s, status))},
		{"model", text(model(status))},
		{"queue", text(queue(status))},
		{"jobs", text(jobs(status))},
		{"subagents", text(subagents(status))},
		{"workspace", workspaceOf(sheet)},
		{"ledger", ledgerLine(sheet)},
		{"gaps", tinted(words.Bad, gaps(status))},
		{"fault", tinted(words.Bad, status.Fault)},
		{"no content", tinted(words.Careful, status.ContentUnavailable)},
		{"files", text(strings.Join(words.NonEmpty(sheet.Files.Task, sheet.Files.Claim, sheet.Files.Ledger), "\n"))},
	})
	for _, p := range status.Pending {
		s.line("")
		showPending(s, p)
	}
	if status.Failure != nil {
		s.line("\n%s", s.paint(words.Bad, "failure"))
		s.paragraph("  ", status.Failure.Message)
	}
	if status.FinalMessage != nil {
		s.line("\n%s", s.paint(words.Bold, "last message"))
		s.paragraph("  ", status.FinalMessage.Text)
	}
	trouble(s, "problem", sheet.Problem, sheet.Help)
}

// paragraph writes a text, each line behind an indent.
func (s *screen) paragraph(indent, text string) {
	for _, line := range words.Lines(text) {
		s.line("%s%s", indent, line)
	}
}

// moment is a time and how long ago it was.
func moment(s *screen, stamp string) string {
	if stamp == "" {
		return ""
	}
	return fmt.Sprintf("%s (%s ago)", words.Clock(stamp), s.age(stamp))
}

func standing(status taskStatusAnswer) cell {
	if status.Execution == "" {
		return cell{}
	}
	if status.Status == status.Execution {
		return tinted(words.StatusTint(status.Status), status.Status)
	}
	return tinted(words.Careful, fmt.Sprintf("%s; last known: %s", status.Availability, status.Execution))
}

func launch(l operator.Launch) cell {
	if l.Complete {
		return text("complete")
	}
	return tinted(words.Careful, fmt.Sprintf("got to %q, prompt sent: %s", l.Stage, l.PromptSent))
}

func turn(s *screen, status taskStatusAnswer) string {
	t := status.Turn
	switch {
	case t == nil:
		return ""
	case t.Reason != "":
		return fmt.Sprintf("%d, %s %s", t.Number, t.Reason, moment(s, t.EndedAt))
	}
	return fmt.Sprintf("%d, since %s", t.Number, moment(s, t.StartedAt))
}

func model(status taskStatusAnswer) string {
	if status.Routable != nil && !*status.Routable {
		return status.Model + " (the host cannot reach it)"
	}
	return status.Model
}

func queue(status taskStatusAnswer) string {
	q := status.Queue
	switch {
	case q.Total == 0:
		return ""
	case q.Stale:
		return fmt.Sprintf("%d messages when the host was last there", q.Total)
	}
	return fmt.Sprintf("%d messages: %d for the next turn, %d for the next step", q.Total, q.NextTurn, q.NextStep)
}

func jobs(status taskStatusAnswer) string {
	var list []string
	for _, j := range status.Jobs {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s", j.ID, j.Status, words.Visible(j.Label))))
	}
	return strings.Join(list, "\n")
}

func subagents(status taskStatusAnswer) string {
	var list []string
	for _, a := range status.Subagents {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s", a.SessionID, a.State, a.Mode)))
	}
	return strings.Join(list, "\n")
}

func gaps(status taskStatusAnswer) string {
	var list []string
	for _, g := range status.Gaps {
		list = append(list, fmt.Sprintf("events %d to %d could not be recovered", g.FromSeq, g.ToSeq))
	}
	return strings.Join(list, "\n")
}

func workspaceOf(sheet operator.Sheet) cell {
	c := sheet.Claim
	switch {
	case c == nil:
		return cell{}
	case c.Cwd == "":
		return tinted(words.Bad, "its claim cannot be read")
	case c.CwdMissing:
		return tinted(words.Careful, fmt.Sprintf("%s (%s, no such folder)", c.Cwd, c.Mode))
	}
	return text(fmt.Sprintf("%s (%s)", c.Cwd, c.Mode))
}

func ledgerLine(sheet operator.Sheet) cell {
	l := sheet.Ledger
	if l.Problem != "" {
		return tinted(words.Bad, l.State)
	}
	facts := []string{l.State}
	if l.Last > 0 {
		facts = append(facts, "cursors "+cursors(l), humanize.IBytes(uint64(max(0, l.Bytes))))
	}
	if l.Checkpoint > 0 {
		facts = append(facts, "checkpoint at "+strconv.FormatInt(l.Checkpoint, 10))
	}
	if more := remarks(l); more != "" {
		facts = append(facts, more)
	}
	if sheet.Unrecorded > 0 {
		facts = append(facts, fmt.Sprintf("%d records behind the host", sheet.Unrecorded))
	}
	return text(strings.Join(facts, ", "))
}

// showPending writes a request that waits for a person.
func showPending(s *screen, p operator.Pending) {
	for _, line := range words.Pending(p) {
		s.words(line)
	}
}
