package watch

import (
	"slices"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/words"
)

// tailMsg is what has come in the tail with that number.
type tailMsg struct {
	number int
	tail   operator.Tail
}

// tailEndMsg says that the tail with that number cannot go on; err says why.
type tailEndMsg struct {
	number int
	err    error
}

// maxLines bounds what a tail keeps. The oldest lines go first.
const maxLines = 5000

// tail is the open tail of a task.
type tail struct {
	number int
	taskID string
	known  bool // something has come
	last   operator.Tail
	ended  bool

	lines []words.Line // of the events
	rows  []string     // the lines as they are shown at this width
	lost  bool         // older lines were dropped
	view  viewport.Model
}

func newTail(number int, taskID string, width, height int) *tail {
	v := viewport.New(viewport.WithWidth(width), viewport.WithHeight(height))
	v.FillHeight = true
	return &tail{number: number, taskID: taskID, view: v}
}

// take shows further events. Who reads the end goes on reading the end; who has gone up stays there.
func (t *tail) take(more operator.Tail) {
	follows := !t.known || t.view.AtBottom()
	t.known, t.last = true, more
	for _, e := range more.Events {
		t.add(words.Event(e))
	}
	above := 0
	if drop := len(t.lines) - maxLines; drop > 0 {
		above = len(wrapAll(t.lines[:drop], t.view.Width()))
		t.lines, t.rows, t.lost = t.lines[drop:], t.rows[above:], true
	}
	t.render(follows, above)
}

func (t *tail) add(lines []words.Line) {
	t.lines = append(t.lines, lines...)
	t.rows = append(t.rows, wrapAll(lines, t.view.Width())...)
}

// end writes below the last line why there will be no more.
func (t *tail) end(err error) {
	t.ended = true
	if err != nil {
		for _, line := range words.Lines(err.Error()) {
			t.add([]words.Line{{{Text: line, Tint: words.Bad}}})
		}
	}
	t.last.Pending = nil // whether they still wait is not known
	t.render(true, 0)
}

// render writes the rows into the view, from which so many were taken away above.
func (t *tail) render(follows bool, above int) {
	at := t.view.YOffset() - above
	rows := slices.Clone(t.rows)
	for _, p := range t.last.Pending {
		rows = append(rows, wrapAll(words.Pending(p), t.view.Width())...)
	}
	t.view.SetContentLines(rows)
	if follows {
		t.view.GotoBottom()
	} else {
		t.view.SetYOffset(at)
	}
}

func (t *tail) resize(width, height int) {
	follows := t.view.AtBottom()
	t.view.SetWidth(width)
	t.view.SetHeight(height)
	t.rows = wrapAll(t.lines, width)
	t.render(follows, 0)
}

func (t *tail) press(k tea.KeyPressMsg) {
	switch {
	case key.Matches(k, keys.up):
		t.view.ScrollUp(1)
	case key.Matches(k, keys.down):
		t.view.ScrollDown(1)
	case key.Matches(k, keys.pageUp):
		t.view.PageUp()
	case key.Matches(k, keys.pageDown):
		t.view.PageDown()
	case key.Matches(k, keys.top):
		t.view.GotoTop()
	case key.Matches(k, keys.bottom):
		t.view.GotoBottom()
	}
}

// remark says what is wrong, or where in the tail the screen is.
func (t *tail) remark() words.Line {
	switch {
	case t.ended:
		return say(words.Bad, "the tail has ended")
	case !t.known:
		return say(words.Faint, "reading…")
	case t.last.ContentUnavailable != "":
		return say(words.Careful, t.last.ContentUnavailable+"; waiting for it")
	case t.last.Fault != "":
		return say(words.Bad, t.last.Fault)
	case !t.view.AtBottom():
		return say(words.Careful, "not at the end; G goes there and follows")
	case t.lost:
		return say(words.Faint, "following; for what came before: dsh-agentlink tail "+t.taskID+" --limit 0")
	}
	return say(words.Faint, "following")
}
