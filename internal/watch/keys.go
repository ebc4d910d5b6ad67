package watch

import (
	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"

	"charm.land/lipgloss/v2"
)

// keys are all the keys there are. None of them changes anything but the screen.
var keys = struct {
	up, down, pageUp, pageDown, top, bottom key.Binding
	open, back, filter, active, refresh     key.Binding
	help, quit, interrupt, accept, cancel   key.Binding
}{
	up:        binding("↑/k", "up", "up", "k"),
	down:      binding("↓/j", "down", "down", "j"),
	pageUp:    binding("pgup", "page up", "pgup", "ctrl+b"),
	pageDown:  binding("pgdn", "page down", "pgdown", "space", "ctrl+f"),
	top:       binding("g", "first", "home", "g"),
	bottom:    binding("G", "last", "end", "G", "shift+g"),
	open:      binding("enter", "open the tail", "enter"),
	back:      binding("esc", "back", "esc", "backspace", "left", "h"),
	filter:    binding("/", "filter", "/"),
	active:    binding("a", "active/all", "a"),
	refresh:   binding("r", "look now", "r"),
	help:      binding("?", "help", "?"),
	quit:      binding("q", "quit", "q"),
	interrupt: binding("ctrl+c", "quit", "ctrl+c"),
	accept:    binding("enter", "keep the filter", "enter", "up", "down"),
	cancel:    binding("esc", "no filter", "esc"),
}

func binding(name, does string, pressed ...string) key.Binding {
	return key.NewBinding(key.WithKeys(pressed...), key.WithHelp(name, does))
}

// What the last line names, by the screen that is shown.
var (
	listKeys   = []key.Binding{keys.open, keys.filter, keys.active, keys.refresh, keys.help, keys.quit}
	typingKeys = []key.Binding{keys.accept, keys.cancel}
	tailKeys   = []key.Binding{keys.back, keys.up, keys.down, keys.bottom, keys.help, keys.quit}
)

// allKeys is what the help explains, in columns.
var allKeys = [][]key.Binding{
	{keys.up, keys.down, keys.pageUp, keys.pageDown, keys.top, keys.bottom},
	{keys.open, keys.back, keys.filter, keys.active},
	{keys.refresh, keys.help, keys.quit, keys.interrupt},
}

// newHelp returns a help in the colours of words: a terminal's own, whatever its background.
func newHelp() help.Model {
	h := help.New()
	faint, plain := lipgloss.NewStyle().Faint(true), lipgloss.NewStyle()
	h.Styles = help.Styles{Ellipsis: faint, ShortKey: plain, ShortDesc: faint, ShortSeparator: faint, FullKey: plain, FullDesc: faint, FullSeparator: faint}
	return h
}
