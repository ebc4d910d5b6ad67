package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/words"
)

// titleWidth is how many columns of a title a table shows.
const titleWidth = 40

func showTasks(s *screen, answer operator.TasksAnswer) {
	away(s, answer.HostUnreachable, "this is what the ledgers know")
	if len(answer.Tasks) == 0 {
		s.line("no tasks")
		return
	}
	var rows [][]cell
	for _, t := range answer.Tasks {
		last := ""
		if t.LastEvent != nil {
			last = t.LastEvent.Type
		}
		pending := ""
		if t.Pending > 0 {
			pending = strconv.Itoa(t.Pending)
		}
		workspace := ""
		if t.Workspace != nil {
			workspace = t.Workspace.Cwd
		}
		status := words.Status(t)
		rows = append(rows, []cell{text(t.TaskID), tinted(words.StatusTint(strings.TrimRight(status, "?+")), status), text(s.age(t.UpdatedAt)), text(last),
			tinted(words.Asking, pending), text(workspace), text(words.Clip(t.Title, titleWidth))})
	}
	s.table([]string{"TASK", "STATUS", "AGE", "LAST EVENT", "PENDING", "WORKSPACE", "TITLE"}, rows)
	if answer.More > 0 {
		s.line("and %d more; --limit 0 lists all", answer.More)
	}
	for _, t := range answer.Tasks {
		if t.Launch != nil {
			s.line("%s: its launch got to %q, prompt sent: %s; dsh-agentlink show %s", t.TaskID, t.Launch.Stage, t.Launch.PromptSent, t.TaskID)
		}
		trouble(s, t.TaskID, t.Problem, t.Help)
	}
}

// away says that the host could not be asked.
func away(s *screen, why, instead string) {
	if why != "" {
		s.line("%s", s.paint(words.Careful, words.Visible(why)+"; "+instead))
	}
}

// trouble says what is wrong with one row of a list, and what helps.
func trouble(s *screen, name, problem, help string) {
	if problem == "" {
		return
	}
	s.line("%s", s.paint(words.Bad, words.Visible(name+": "+problem)))
	if help != "" {
		s.line("  %s", words.Visible(help))
	}
}

func showLocks(s *screen, answer operator.LocksAnswer) {
	if len(answer.Locks) > 0 {
		var rows [][]cell
		for _, l := range answer.Locks {
			state := tinted(words.Plain, l.State)
			if l.Problem != "" {
				state.tint = words.Bad
			}
			name := l.TaskID
			if name == "" {
				name = l.Path[strings.LastIndexByte(l.Path, '/')+1:]
			}
			rows = append(rows, []cell{text(l.Kind), text(name), state, text(holderOf(l)), text(s.age(l.Since))})
		}
		s.table([]string{"KIND", "LOCK", "STATE", "HOLDER", "SINCE"}, rows)
	}
	if answer.Free > 0 || len(answer.Locks) == 0 {
		s.line("%d free", answer.Free)
	}
	for _, l := range answer.Locks {
		trouble(s, l.Path, l.Problem, l.Help)
	}
}

func holderOf(l operator.Lock) string {
	switch {
	case l.Holder == nil && l.State == operator.LockHeld:
		return "a process that left no note"
	case l.Holder == nil:
		return ""
	case l.State == operator.LockFree:
		return fmt.Sprintf("last %d, which is gone; the next holder clears its note", l.Holder.PID)
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%d %s %s", l.Holder.PID, l.Holder.Name, l.Holder.State)), " ")
}

func showClaims(s *screen, answer operator.ClaimsAnswer) {
	away(s, answer.HostUnreachable, "whether the sessions exist is not known")
	if len(answer.Claims) == 0 {
		s.line("no claims")
		return
	}
	var rows [][]cell
	for _, c := range answer.Claims {
		session := tinted(words.Plain, c.Session)
		switch {
		case c.Session == operator.SessionGone:
			session.tint = words.Bad
		case c.Running:
			session = tinted(words.Bold, "running")
		}
		cwd := text(c.Cwd)
		if c.CwdMissing {
			cwd = tinted(words.Careful, c.Cwd+" (no such folder)")
		}
		rows = append(rows, []cell{text(c.TaskID), text(string(c.Mode)), session, text(s.age(c.CreatedAt)), cwd})
	}
	s.table([]string{"TASK", "MODE", "SESSION", "AGE", "FOLDER"}, rows)
	for _, c := range answer.Claims {
		trouble(s, c.TaskID, c.Problem, c.Help)
	}
}

func showLedgers(s *screen, answer operator.LedgersAnswer) {
	if len(answer.Ledgers) == 0 {
		s.line("no ledgers")
		return
	}
	var rows [][]cell
	for _, l := range answer.Ledgers {
		state := tinted(words.Good, l.State)
		if l.Problem != "" {
			state.tint = words.Bad
		}
		rows = append(rows, []cell{text(l.TaskID), state, text(cursors(l)), text(positive(l.Checkpoint)), text(humanize.IBytes(uint64(max(0, l.Bytes)))),
			text(s.age(l.UpdatedAt)), tinted(words.Careful, remarks(l))})
	}
	s.table([]string{"TASK", "STATE", "CURSORS", "CHECKPOINT", "SIZE", "AGE", ""}, rows)
	for _, l := range answer.Ledgers {
		trouble(s, l.TaskID, l.Problem, l.Help)
	}
}

func cursors(l operator.Ledger) string {
	if l.Last == 0 {
		return ""
	}
	return fmt.Sprintf("%d-%d", l.First, l.Last)
}

func positive(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// remarks tells what is odd about a ledger and no problem.
func remarks(l operator.Ledger) string {
	var all []string
	if l.Torn > 0 {
		all = append(all, fmt.Sprintf("%d bytes of an unfinished line", l.Torn))
	}
	if l.Orphan {
		all = append(all, "no task has it")
	}
	return strings.Join(all, "; ")
}
