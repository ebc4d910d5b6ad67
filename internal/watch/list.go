package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/words"
	"dsh-agentlink/ledger"
)

// list is the tasks, and which of them are shown.
type list struct {
	answer operator.TasksAnswer
	known  bool  // a look has come to its end
	err    error // why the last look brought nothing
	// awaySince is when the host was first missed; zero while it is there.
	awaySince time.Time

	onlyActive bool
	typing     bool // into the filter
	input      textinput.Model

	shown []operator.Task // those that fit, in their order
	at    int             // the selected one, as an index of shown
	id    string          // the selected one
	first int             // the uppermost on the screen
}

// filterLimit is longer than anything that is filtered by.
const filterLimit = 200

func newList() list {
	input := textinput.New()
	input.Prompt = "/"
	input.CharLimit = filterLimit
	input.SetVirtualCursor(false)
	input.SetStyles(textinput.Styles{})
	return list{input: input}
}

// take takes over what a look brought; one that failed leaves the tasks as they were.
func (l *list) take(msg listMsg) {
	l.known, l.err = true, msg.err
	if msg.err != nil {
		return
	}
	l.answer = msg.answer
	switch {
	case msg.answer.HostUnreachable == "":
		l.awaySince = time.Time{}
	case l.awaySince.IsZero():
		l.awaySince = msg.at
	}
	l.choose()
}

// choose works out which tasks are shown, those that wait for an answer first, and keeps the same one selected.
func (l *list) choose() {
	l.shown = l.shown[:0]
	filter := strings.ToLower(strings.TrimSpace(l.input.Value()))
	for _, t := range l.answer.Tasks {
		if (!l.onlyActive || active(t)) && matches(t, filter) {
			l.shown = append(l.shown, t)
		}
	}
	slices.SortStableFunc(l.shown, func(a, b operator.Task) int { return cmp.Compare(rank(a), rank(b)) })
	at := slices.IndexFunc(l.shown, func(t operator.Task) bool { return t.TaskID == l.id })
	if at < 0 {
		at = min(l.at, len(l.shown)-1)
	}
	l.moveTo(at)
}

// rank puts tasks that wait for an answer before the others, which stay in the order of their last news.
func rank(t operator.Task) int {
	if t.Pending > 0 {
		return 0
	}
	return 1
}

// active reports whether a task is at work, waits for an answer or has a problem.
func active(t operator.Task) bool {
	execution := cmp.Or(t.Execution, ledger.Execution(t.Status))
	return t.Pending > 0 || t.Problem != "" || working(t) || !execution.Terminal()
}

// working reports whether a turn runs or is about to.
func working(t operator.Task) bool {
	s := ledger.Execution(t.Status)
	return s == ledger.Starting || s == ledger.Running
}

// matches reports whether a task has the words of a filter, which is in lower case, in one of its columns.
func matches(t operator.Task, filter string) bool {
	if filter == "" {
		return true
	}
	fields := []string{t.TaskID, t.Status, t.Title}
	if t.Workspace != nil {
		fields = append(fields, t.Workspace.Cwd)
	}
	return slices.ContainsFunc(fields, func(f string) bool { return strings.Contains(strings.ToLower(f), filter) })
}

func (l *list) moveTo(at int) {
	l.at = max(0, min(at, len(l.shown)-1))
	if l.at < len(l.shown) {
		l.id = l.shown[l.at].TaskID
	}
}

func (l *list) selected() (operator.Task, bool) {
	if l.at >= len(l.shown) {
		return operator.Task{}, false
	}
	return l.shown[l.at], true
}

// press moves the selection or changes what is shown; page is how many tasks the screen holds.
func (l *list) press(k tea.KeyPressMsg, page int) {
	switch {
	case key.Matches(k, keys.up):
		l.moveTo(l.at - 1)
	case key.Matches(k, keys.down):
		l.moveTo(l.at + 1)
	case key.Matches(k, keys.pageUp):
		l.moveTo(l.at - page)
	case key.Matches(k, keys.pageDown):
		l.moveTo(l.at + page)
	case key.Matches(k, keys.top):
		l.moveTo(0)
	case key.Matches(k, keys.bottom):
		l.moveTo(len(l.shown) - 1)
	case key.Matches(k, keys.active):
		l.onlyActive = !l.onlyActive
		l.choose()
	case key.Matches(k, keys.filter):
		l.typing = true
		l.input.Focus()
	case key.Matches(k, keys.cancel):
		l.input.Reset()
		l.choose()
	}
}

// typed takes a key into the filter.
func (l *list) typed(k tea.KeyPressMsg) (cmd tea.Cmd) {
	switch {
	case key.Matches(k, keys.cancel):
		l.input.Reset()
		l.stopTyping()
	case key.Matches(k, keys.accept):
		l.stopTyping()
	default:
		l.input, cmd = l.input.Update(k)
	}
	l.filterBy(l.input.Value())
	return cmd
}

// filterBy makes a text the filter, without what would do something to the terminal.
func (l *list) filterBy(text string) {
	clean := strings.Map(func(r rune) rune {
		if words.Harmful(r) {
			return -1
		}
		return r
	}, text)
	if clean != l.input.Value() {
		l.input.SetValue(clean)
	}
	l.choose()
}

func (l *list) stopTyping() {
	l.typing = false
	l.input.Blur()
}

// window returns the shown tasks that fit into so many lines, and the index of the first of them.
func (l *list) window(height int) ([]operator.Task, int) {
	l.first = max(l.at-height+1, min(l.first, l.at, max(0, len(l.shown)-height)))
	return l.shown[l.first:min(len(l.shown), l.first+height)], l.first
}
