package watch

import (
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"dsh-agentlink/internal/operator"
)

// actions is what a model has done that takes time. The methods return at once; what comes of them comes as messages.
type actions interface {
	refresh()
	openTail(taskID string, number int)
	closeTail()
}

// model is the state of the screen. It is changed by messages alone, and looks at neither disk nor host nor clock.
type model struct {
	actions
	host string // its address
	home string // the folder

	width, height int
	now           time.Time // of the last news
	help          help.Model
	helping       bool // the keys are explained

	list list
	tail *tail // nil while the list is shown
	// opened counts the tails, so that what is left of a closed one is not taken for the open one's.
	opened int
}

var _ tea.Model = (*model)(nil)

func newModel(a actions, opts Options) *model {
	return &model{actions: a, host: opts.HostURL, home: opts.Home.Dir(), now: opts.Now(), help: newHelp(), list: newList()}
}

// Init implements [tea.Model].
func (m *model) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.help.SetWidth(m.width)
		if m.tail != nil {
			m.tail.resize(m.width, m.body())
		}
	case listMsg:
		m.now = msg.at
		m.list.take(msg)
	case beatMsg:
		m.now = msg.at
	case tailMsg:
		if m.tail != nil && m.tail.number == msg.number {
			m.tail.take(msg.tail)
		}
	case tailEndMsg:
		if m.tail != nil && m.tail.number == msg.number {
			m.tail.end(msg.err)
		}
	case tea.KeyPressMsg:
		return m, m.press(msg)
	case tea.PasteMsg:
		if m.list.typing {
			m.list.filterBy(m.list.input.Value() + msg.Content)
		}
	}
	return m, nil
}

// press does what a key means on the screen that is shown.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	if key.Matches(k, keys.interrupt) {
		return tea.Quit
	}
	if m.tail == nil && m.list.typing {
		return m.list.typed(k)
	}
	switch {
	case key.Matches(k, keys.quit):
		return tea.Quit
	case key.Matches(k, keys.help):
		m.helping = !m.helping
	case m.helping:
		m.helping = false // any key leaves the help, and does nothing else
	case key.Matches(k, keys.refresh):
		m.refresh()
	case m.tail == nil:
		m.pressInList(k)
	case key.Matches(k, keys.back):
		m.closeTail()
		m.tail = nil
	default:
		m.tail.press(k)
	}
	return nil
}

func (m *model) pressInList(k tea.KeyPressMsg) {
	if !key.Matches(k, keys.open) {
		m.list.press(k, m.body())
		return
	}
	if task, ok := m.list.selected(); ok {
		m.opened++
		m.tail = newTail(m.opened, task.TaskID, m.width, m.body())
		m.openTail(task.TaskID, m.opened)
	}
}

// task is what the list knows of a task.
func (m *model) task(id string) operator.Task {
	for _, t := range m.list.answer.Tasks {
		if t.TaskID == id {
			return t
		}
	}
	return operator.Task{TaskID: id}
}
