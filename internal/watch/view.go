package watch

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"dsh-agentlink/internal/words"
)

const (
	headLines = 3 // host, home, and the head of the columns or what a tail is of
	footLines = 2 // a remark and the keys
	// maxRemark is how many lines the remark of a list takes at most, on a screen that has room for them.
	maxRemark    = 3
	roomForThree = 12
)

// body is how many lines are left for tasks or events.
func (m *model) body() int { return max(1, m.height-headLines-footLines) }

// View implements [tea.Model].
func (m *model) View() tea.View {
	v := tea.NewView(m.frame())
	v.AltScreen = true
	if m.tail == nil && m.list.typing && m.height > footLines {
		if c := m.list.input.Cursor(); c != nil {
			c.Y = m.height - footLines
			v.Cursor = c
		}
	}
	return v
}

// frame is what is on the screen, every line cut to its width.
func (m *model) frame() string {
	lines, foot := m.title(), m.foot()
	switch {
	case m.helping:
		lines = append(lines, "", "")
		lines = append(lines, strings.Split(m.help.FullHelpView(allKeys), "\n")...)
	case m.tail != nil:
		lines = append(lines, m.tailHead())
		lines = append(lines, strings.Split(m.tail.view.View(), "\n")...)
	default:
		tasks, first := m.list.window(max(1, m.height-headLines-len(foot)))
		lines = append(lines, rows(tasks, m.list.at-first, m.now, m.width)...)
		if len(tasks) == 0 {
			lines[len(lines)-1] = m.nothing()
		}
	}
	lines = fill(append(fill(lines, m.height-len(foot)), foot...), m.height)
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// foot is the lines at the bottom: the remark, in as many lines as it needs, and the keys.
func (m *model) foot() []string {
	remark := m.remark()
	if m.tail == nil && !m.helping && m.height >= roomForThree {
		all := wrapAll(remark, m.width)
		return append(all[:min(len(all), maxRemark)], m.keyLine())
	}
	return []string{remark[0].Painted(), m.keyLine()}
}

// fill makes it exactly so many lines.
func fill(lines []string, n int) []string {
	n = max(n, 0)
	for len(lines) < n {
		lines = append(lines, "")
	}
	return lines[:n]
}

// title says what is watched, whether the host is there, and how many tasks there are of what kind.
func (m *model) title() []string {
	state := words.Paint(words.Faint, "looking…")
	switch l := &m.list; {
	case !l.known: // stays
	case !l.awaySince.IsZero():
		state = words.Paint(words.Bad, words.Visible(fmt.Sprintf("away since %s: %s", l.awaySince.Format(time.TimeOnly), l.answer.HostUnreachable)))
	case l.err != nil:
		state = words.Paint(words.Bad, "the last look failed")
	default:
		state = words.Paint(words.Good, "connected")
	}
	first := words.Paint(words.Bold, "dsh-agentlink watch") + "  " + words.Visible(m.host) + "  " + state
	if m.list.known {
		at := m.now.Format(time.TimeOnly)
		if room := m.width - lipgloss.Width(first) - len(at); room > 0 {
			first += strings.Repeat(" ", room) + words.Paint(words.Faint, at)
		}
	}
	return []string{first, words.Visible(m.home) + "  " + m.counts()}
}

// counts says how many tasks there are, and which of them are shown.
func (m *model) counts() string {
	if !m.list.known {
		return ""
	}
	var atWork, waiting, wrong int
	for _, t := range m.list.answer.Tasks {
		switch {
		case t.Pending > 0:
			waiting++
		case working(t):
			atWork++
		}
		if t.Problem != "" {
			wrong++
		}
	}
	parts := []string{plural(len(m.list.answer.Tasks), "task")}
	if waiting > 0 {
		parts = append(parts, asking.Render(fmt.Sprintf("%d waiting for an answer", waiting)))
	}
	if atWork > 0 {
		parts = append(parts, fmt.Sprintf("%d at work", atWork))
	}
	if wrong > 0 {
		parts = append(parts, words.Paint(words.Bad, fmt.Sprintf("%d with a problem", wrong)))
	}
	if m.list.onlyActive {
		parts = append(parts, fmt.Sprintf("the %d active shown", len(m.list.shown)))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// nothing says why there is no task on the screen.
func (m *model) nothing() string {
	switch l := &m.list; {
	case !l.known:
		return ""
	case len(l.answer.Tasks) == 0:
		return "no tasks"
	case l.input.Value() != "":
		return "no task matches " + words.Visible(l.input.Value())
	}
	return "no active task"
}

// remark is what is to be said above the keys, in at least one line: the filter, or something about the list or the
// selected task.
func (m *model) remark() []words.Line {
	if m.helping {
		return says(words.Faint, "nothing here answers, cancels or changes anything; any key goes back")
	}
	if m.tail != nil {
		return []words.Line{m.tail.remark()}
	}
	l := &m.list
	if l.typing {
		return []words.Line{{{Text: l.input.View()}}}
	}
	if l.err != nil {
		return says(words.Bad, "the tasks cannot be read: "+m.below(l.err.Error()))
	}
	if t, ok := l.selected(); ok {
		switch {
		case t.Problem != "":
			return says(words.Bad, words.NonEmpty(m.below(t.Problem), t.Help)...)
		case t.Launch != nil:
			return says(words.Careful, fmt.Sprintf("its launch got to %q, prompt sent: %s", t.Launch.Stage, t.Launch.PromptSent))
		}
	}
	if filter := l.input.Value(); filter != "" {
		return says(words.Plain, fmt.Sprintf("%d of %s match %s; esc shows all", len(l.shown), plural(len(l.answer.Tasks), "task"), filter))
	}
	return []words.Line{nil}
}

// says makes each text a line.
func says(t words.Tint, texts ...string) []words.Line {
	var all []words.Line
	for _, text := range texts {
		all = append(all, say(t, text))
	}
	return all
}

// say makes a text a line in which nothing is hidden.
func say(t words.Tint, text string) words.Line {
	return words.Line{{Text: words.Visible(text), Tint: t}}
}

// below shortens the paths in a text to what is below the home, which is in the title.
func (m *model) below(text string) string { return strings.ReplaceAll(text, m.home+"/", "") }

func (m *model) keyLine() string {
	switch {
	case m.helping:
		return ""
	case m.tail != nil:
		return m.help.ShortHelpView(tailKeys)
	case m.list.typing:
		return m.help.ShortHelpView(typingKeys)
	}
	return m.help.ShortHelpView(listKeys)
}

// tailHead says which task the tail is of, and how it stands.
func (m *model) tailHead() string {
	t := m.task(m.tail.taskID)
	line := words.Paint(words.Bold, words.Visible(t.TaskID))
	if m.tail.known {
		standing := words.Standing(m.tail.last)
		line += "  " + words.Paint(words.StatusTint(m.tail.last.Status), words.Visible(standing))
	}
	if t.Title != "" {
		line += "  " + words.Visible(t.Title)
	}
	return line
}
