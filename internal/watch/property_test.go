package watch

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/words"
)

// Whatever comes in whatever order, on a screen of whatever size, the frame fills the screen and no more, and nothing in
// it was put there by somebody else's control characters.
func TestEveryFrameFits(t *testing.T) {
	h, err := home.Open("/home/dev/.dsh/agentlink")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(&deeds{}, Options{Home: h, HostURL: anyText(t), Now: func() time.Time { return noon }})
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			m.Update(anyMessage(t, m))
			check(t, m)
		}
	})
}

func check(t *rapid.T, m *model) {
	frame := m.View().Content
	lines := strings.Split(frame, "\n")
	if len(lines) != max(1, m.height) {
		t.Fatalf("%d lines on a screen of %d", len(lines), m.height)
	}
	for _, line := range lines {
		if w := ansi.StringWidth(line); w > m.width {
			t.Fatalf("%d columns on a screen of %d: %q", w, m.width, line)
		}
		if bare := ansi.Strip(line); strings.ContainsFunc(bare, words.Harmful) {
			t.Fatalf("harmful: %q", line)
		}
	}
}

func anyText(t *rapid.T) string {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\x1b[2J\x1b]0;x\a", "工工工工", "a\nb", "\u202eabc", strings.Repeat("long ", 60), "👩‍💻"})).Draw(t, "text")
}

func anyMessage(t *rapid.T, m *model) tea.Msg {
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return tea.WindowSizeMsg{Width: rapid.IntRange(0, 140).Draw(t, "width"), Height: rapid.IntRange(0, 30).Draw(t, "height")}
	case 1:
		return anyList(t)
	case 2:
		return tailMsg{m.opened, anyTail(t)}
	case 3:
		return tailEndMsg{m.opened, errors.New(anyText(t))}
	case 4:
		return tea.PasteMsg{Content: anyText(t)}
	}
	return keyOf(rapid.SampledFrom([]string{"j", "k", "G", "g", "pgup", "pgdown", "enter", "esc", "/", "a", "r", "?", "x", "工", "backspace"}).Draw(t, "key"))
}

func anyList(t *rapid.T) listMsg {
	msg := listMsg{at: noon}
	if rapid.IntRange(0, 9).Draw(t, "fails") == 0 {
		msg.err = errors.New(anyText(t))
	}
	msg.answer.HostUnreachable = rapid.SampledFrom([]string{"", "", anyText(t)}).Draw(t, "away")
	for range rapid.IntRange(0, 9).Draw(t, "tasks") {
		msg.answer.Tasks = append(msg.answer.Tasks, operator.Task{TaskID: anyText(t), Title: anyText(t), Status: anyText(t), Pending: rapid.IntRange(0, 2).Draw(t, "pending"),
			UpdatedAt: ago(0), Problem: anyText(t), Help: anyText(t), Workspace: &operator.Workspace{Cwd: anyText(t)}, LastEvent: &operator.LastEvent{Type: anyText(t)}})
	}
	return msg
}

func anyTail(t *rapid.T) operator.Tail {
	tail := operator.Tail{Status: anyText(t), ContentUnavailable: rapid.SampledFrom([]string{"", anyText(t)}).Draw(t, "away"), Fault: anyText(t)}
	for range rapid.IntRange(0, 5).Draw(t, "events") {
		tail.Events = append(tail.Events, operator.Event{At: ago(0), Type: rapid.SampledFrom([]string{"assistant/message", "tool/call", "turn/end", anyText(t)}).Draw(t, "type"),
			Text: anyText(t), Tool: anyText(t), From: anyText(t), SessionID: anyText(t), Reason: anyText(t)})
	}
	if rapid.Bool().Draw(t, "asks") {
		tail.Pending = []operator.Pending{{RequestID: anyText(t), Type: "approval", Command: anyText(t), Reason: anyText(t), ToolName: anyText(t)}}
	}
	return tail
}
