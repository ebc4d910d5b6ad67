package watch

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
)

// noon is the moment at which everything in these tests happens.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) string { return noon.Add(-d).Format(time.RFC3339) }

// deeds records what a model has done.
type deeds struct{ done []string }

func (d *deeds) refresh() { d.done = append(d.done, "refresh") }
func (d *deeds) openTail(id string, no int) {
	d.done = append(d.done, fmt.Sprintf("open %s as %d", id, no))
}
func (d *deeds) closeTail() { d.done = append(d.done, "close") }

// stage is a model on a screen of a fixed size.
type stage struct {
	*testing.T
	*model
	deeds *deeds
}

func newStage(t *testing.T, width, height int) *stage {
	t.Helper()
	h, err := home.Open("/home/dev/.dsh/agentlink")
	if err != nil {
		t.Fatal(err)
	}
	d := &deeds{}
	s := &stage{t, newModel(d, Options{Home: h, HostURL: "http://127.0.0.1:3080", Now: func() time.Time { return noon }}), d}
	s.send(tea.WindowSizeMsg{Width: width, Height: height})
	return s
}

// send gives the model messages and returns whether it wants to quit.
func (s *stage) send(messages ...tea.Msg) (quits bool) {
	s.Helper()
	for _, m := range messages {
		next, cmd := s.Update(m)
		if next != tea.Model(s.model) {
			s.Fatal("the model was replaced")
		}
		if cmd != nil {
			_, quits = cmd().(tea.QuitMsg)
		}
	}
	return quits
}

var named = map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "pgup": tea.KeyPgUp,
	"pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace}

// press presses keys, which are named or single characters.
func (s *stage) press(list ...string) (quits bool) {
	s.Helper()
	for _, k := range list {
		quits = s.send(keyOf(k))
	}
	return quits
}

func keyOf(k string) tea.KeyPressMsg {
	if c, ok := strings.CutPrefix(k, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(c[0]), Mod: tea.ModCtrl}
	}
	if code, ok := named[k]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	return tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
}

// golden holds what is on the screen, without its colours, against a file. UPDATE_GOLDEN=1 writes it.
func (s *stage) golden(name string) {
	s.Helper()
	s.compare(name, trimLines(ansi.Strip(s.View().Content)))
}

func (s *stage) compare(name, got string) {
	s.Helper()
	path := "testdata/" + name + ".frame"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			s.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		s.Errorf("%s:\n%s", name, diff)
	}
}

func trimLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// some is a list with a task of every kind.
func some() listMsg {
	event := func(kind string) *operator.LastEvent { return &operator.LastEvent{Type: kind} }
	folder := func(dir string) *operator.Workspace { return &operator.Workspace{Cwd: dir} }
	return listMsg{at: noon, answer: operator.TasksAnswer{Problems: 1, Tasks: []operator.Task{
		{TaskID: "dsh_000000000001", Title: "Port the parser", Status: "running", Behind: true, UpdatedAt: ago(2 * time.Second), LastEvent: event("tool/call"), Workspace: folder("/home/dev/project/parser")},
		{TaskID: "dsh_000000000002", Title: "Red or blue?", Status: "awaiting_input", Pending: 1, UpdatedAt: ago(time.Minute), LastEvent: event("question/requested"), Workspace: folder("/home/dev/project/colours")},
		{TaskID: "dsh_000000000003", Title: "Done\x1b[2J with \u202eit", Status: "turn_completed", UpdatedAt: ago(3 * time.Minute), LastEvent: event("turn/end"), Workspace: folder("/home/dev/project/docs")},
		{TaskID: "dsh_000000000004", Status: "unknown", Problem: "ledger /home/dev/.dsh/agentlink/ledgers/dsh_000000000004/events.jsonl, line 3: invalid character 'o' in literal null (expecting 'u')", Help: "dsh-agentlink ledgers recover dsh_000000000004", UpdatedAt: ago(time.Hour)},
		{TaskID: "dsh_000000000005", Title: "Remove the old release folders and everything that belongs to them", Status: "awaiting_approval", Pending: 1, UpdatedAt: ago(2 * time.Hour), LastEvent: event("approval/requested"), Workspace: folder("/home/dev/project/deep/down/in/a/folder/with/a/long/name")},
		{TaskID: "dsh_000000000006", Title: "Build", Status: "failed", UpdatedAt: ago(30 * time.Hour), LastEvent: event("turn/end")},
		{TaskID: "dsh_000000000007", Status: "starting", Launch: &operator.Launch{Stage: tasks.Claimed, PromptSent: tasks.SentNo}, UpdatedAt: ago(72 * time.Hour)},
	}}}
}

// away is the same list when the host is gone.
func away() listMsg {
	msg := some()
	msg.answer.HostUnreachable = "no DSH host answers at http://127.0.0.1:3080"
	for i := range msg.answer.Tasks {
		t := &msg.answer.Tasks[i]
		t.Execution, t.Status, t.Behind = ledger.Execution(t.Status), operator.StatusUnknown, false
	}
	return msg
}

func ids(list []operator.Task) string {
	var all []string
	for _, t := range list {
		all = append(all, strings.TrimLeft(strings.TrimPrefix(t.TaskID, "dsh_"), "0"))
	}
	return strings.Join(all, " ")
}
