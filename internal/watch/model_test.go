package watch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"dsh-agentlink/internal/operator"
	"dsh-agentlink/internal/words"
)

func TestFrames(t *testing.T) {
	s := newStage(t, 120, 16)
	s.golden("looking")
	s.send(some())
	s.golden("list")
	s.compare("list_coloured", strings.ReplaceAll(s.View().Content, "\x1b", "␛")+"\n")
	s.press("j", "j", "j", "j")
	s.golden("problem")
	s.send(tea.WindowSizeMsg{Width: 72, Height: 9})
	s.golden("narrow")
	s.send(tea.WindowSizeMsg{Width: 120, Height: 16})
	s.press("?")
	s.golden("help")
	s.press("x", "/", "p", "r", "o", "j")
	s.golden("typing")
	s.press("enter")
	s.golden("filtered")
	s.press("esc", "a")
	s.golden("active")
	s.send(away())
	s.golden("away")
	s.send(listMsg{at: noon})
	s.golden("none")
}

func TestTailFrames(t *testing.T) {
	s := newStage(t, 100, 18)
	s.send(some())
	s.press("j", "enter")
	s.golden("tail_reading")
	s.send(tailMsg{1, tailOf(5)})
	s.golden("tail")
	for i := range 5 {
		s.send(tailMsg{1, operator.Tail{Availability: "connected", Execution: "running", Status: "running",
			Events: []operator.Event{{Cursor: int64(10 + i), At: ago(0), Type: "assistant/message", Text: fmt.Sprintf("line %d\nand a second", i)}}}})
	}
	s.golden("tail_follows")
	s.press("up")
	s.send(tailMsg{1, operator.Tail{Availability: "connected", Execution: "turn_completed", Status: "turn_completed",
		Events: []operator.Event{{At: ago(0), Type: "turn/end", Turn: 1, Reason: "completed"}}}})
	s.golden("tail_stays")
	s.press("G")
	s.send(tailMsg{1, operator.Tail{Availability: "host_unreachable", Execution: "turn_completed", Status: "unknown", ContentUnavailable: "host_unreachable: no DSH host answers at http://127.0.0.1:3080"}})
	s.golden("tail_away")
}

// tailOf is a tail that ends in an approval with a command that tries to hide something.
func tailOf(cursor int64) operator.Tail {
	return operator.Tail{TaskID: "dsh_000000000005", Availability: "connected", Execution: "awaiting_approval", Status: "awaiting_approval",
		Events: []operator.Event{
			{Cursor: cursor, At: ago(time.Minute), Type: "turn/start", Turn: 1},
			{Cursor: cursor + 1, At: ago(time.Minute), Type: "user/message", From: "bridge", Text: "Remove the old folders."},
			{Cursor: cursor + 2, At: ago(time.Minute), Type: "assistant/message", Text: "I will\x1b[2J remove them " + strings.Repeat("very carefully ", 9) + "now."},
			{At: ago(0), Type: "approval/asked", Tool: "bash", Reason: "it has to"}},
		Pending: []operator.Pending{{RequestID: "r-1", Type: "approval", AgeSec: 7, ToolName: "bash", Reason: "it has to", Command: "rm -rf old \u202e#\necho done"}}}
}

func TestWhoWaitsComesFirst(t *testing.T) {
	s := newStage(t, 100, 20)
	s.send(some())
	if got := ids(s.list.shown); got != "2 5 1 3 4 6 7" {
		t.Errorf("the order is %s", got)
	}
	s.press("a")
	if got := ids(s.list.shown); got != "2 5 1 4 7" {
		t.Errorf("active are %s", got)
	}
}

func TestActive(t *testing.T) {
	for name, c := range map[string]struct {
		task operator.Task
		want bool
	}{
		"runs":                        {operator.Task{Status: "running"}, true},
		"starts":                      {operator.Task{Status: "starting"}, true},
		"waits":                       {operator.Task{Status: "awaiting_input"}, true},
		"waits behind a finished one": {operator.Task{Status: "turn_completed", Pending: 1}, true},
		"has a problem":               {operator.Task{Status: "turn_completed", Problem: "x"}, true},
		"ran when the host went":      {operator.Task{Status: "unknown", Execution: "running"}, true},
		"had ended when it went":      {operator.Task{Status: "unknown", Execution: "turn_completed"}, false},
		"goes on behind the ledger":   {operator.Task{Status: "running", Execution: "turn_completed", Behind: true}, true},
		"completed":                   {operator.Task{Status: "turn_completed"}, false},
		"failed":                      {operator.Task{Status: "failed"}, false},
		"canceled":                    {operator.Task{Status: "canceled"}, false},
		"lost its session, ended":     {operator.Task{Status: operator.StatusNoSession, Execution: "turn_completed"}, false},
	} {
		if got := active(c.task); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestTheSelectedTaskStaysSelected(t *testing.T) {
	s := newStage(t, 100, 20)
	s.send(some())
	s.press("j", "j", "j") // 3
	later := some()
	later.answer.Tasks[2].Pending = 1 // moves up
	s.send(later)
	if s.list.id != "dsh_000000000003" || s.list.shown[s.list.at].TaskID != s.list.id {
		t.Errorf("selected is %s at %d of %s", s.list.id, s.list.at, ids(s.list.shown))
	}
	later.answer.Tasks = slices.Delete(slices.Clone(later.answer.Tasks), 2, 3)
	s.send(later)
	if task, ok := s.list.selected(); !ok || task.TaskID != s.list.id {
		t.Errorf("after its end %v %v is selected, of %s", task.TaskID, ok, ids(s.list.shown))
	}
	s.send(listMsg{at: noon})
	s.press("enter", "j", "k", "G", "g")
	if len(s.deeds.done) != 0 {
		t.Errorf("without a task it did %q", s.deeds.done)
	}
}

// What the keys do on either screen.
func TestKeys(t *testing.T) {
	for _, c := range []struct {
		keys  string
		quits bool
		done  string
		at    int
	}{
		{"q", true, "", 0},
		{"ctrl+c", true, "", 0},
		{"/ q ctrl+c", true, "", 0},
		{"/ q", false, "", 0},
		{"j j k", false, "", 1},
		{"down down up", false, "", 1},
		{"k", false, "", 0},
		{"G", false, "", 6},
		{"end j", false, "", 6},
		{"pgdown", false, "", 6},
		{"G pgup", false, "", 0},
		{"G home", false, "", 0},
		{"r", false, "refresh", 0},
		{"j enter", false, "open dsh_000000000005 as 1", 1},
		{"enter esc j enter", false, "open dsh_000000000002 as 1, close, open dsh_000000000005 as 2", 1},
		{"enter backspace", false, "open dsh_000000000002 as 1, close", 0},
		{"enter r", false, "open dsh_000000000002 as 1, refresh", 0},
		{"enter q", true, "open dsh_000000000002 as 1", 0},
		{"enter j k G g pgup a /", false, "open dsh_000000000002 as 1", 0},
		{"? enter", false, "", 0},
		{"? r", false, "", 0},
		{"? ? r", false, "refresh", 0},
		{"? q", true, "", 0},
		{"esc", false, "", 0},
		{"y Y x d c", false, "", 0},
	} {
		s := newStage(t, 100, 20)
		s.send(some())
		quits := s.press(strings.Fields(c.keys)...)
		if done := strings.Join(s.deeds.done, ", "); quits != c.quits || done != c.done || s.list.at != c.at {
			t.Errorf("%s: quits %v, did %q, stands at %d; want %v, %q, %d", c.keys, quits, done, s.list.at, c.quits, c.done, c.at)
		}
	}
}

func TestFilter(t *testing.T) {
	for filter, want := range map[string]string{
		"": "2 5 1 3 4 6 7", "PARSER": "1", "0005": "5", "project/docs": "3", "awaiting": "2 5", " build ": "6", "nothing like it": "",
	} {
		s := newStage(t, 100, 20)
		s.send(some())
		s.press("/")
		for _, r := range filter {
			s.press(string(r))
		}
		if got := ids(s.list.shown); got != want {
			t.Errorf("%q shows %q, want %q", filter, got, want)
		}
		s.press("esc")
		if got := ids(s.list.shown); got != "2 5 1 3 4 6 7" || s.list.typing {
			t.Errorf("%q: after esc %q, typing %v", filter, got, s.list.typing)
		}
	}
	s := newStage(t, 100, 20)
	s.send(some())
	s.press("/")
	s.send(tea.PasteMsg{Content: "docs"})
	s.press("enter")
	if got := ids(s.list.shown); got != "3" || s.list.typing {
		t.Errorf("pasted: %q, typing %v", got, s.list.typing)
	}
}

// A look that failed leaves what was there, and says so.
func TestAFailedLook(t *testing.T) {
	s := newStage(t, 100, 20)
	s.send(some(), listMsg{at: noon, err: errors.New("the tasks cannot be listed: no\x1bway")})
	s.golden("failed")
	s.send(some())
	if s.list.err != nil {
		t.Error("the error stays")
	}
}

func TestTheHostComesBack(t *testing.T) {
	s := newStage(t, 100, 20)
	first := away()
	s.send(first)
	second := away()
	second.at = noon.Add(time.Minute)
	s.send(second)
	if !s.list.awaySince.Equal(noon) {
		t.Errorf("away since %v", s.list.awaySince)
	}
	s.send(some())
	if !strings.Contains(s.frame(), "connected") {
		t.Error("the host is back, and it is not told")
	}
}

// What comes of a tail that was left must not appear in the next one.
func TestLateTails(t *testing.T) {
	s := newStage(t, 100, 20)
	s.send(some())
	s.press("enter", "esc", "enter")
	s.send(tailMsg{1, tailOf(5)}, tailEndMsg{1, errors.New("old")})
	if s.tail.known || s.tail.ended {
		t.Error("the new tail took the old one's")
	}
	s.send(tailEndMsg{2, errors.New("its file cannot be used")})
	s.golden("tail_ended")
	s.press("esc")
	s.send(tailMsg{2, tailOf(5)}, tailEndMsg{2, nil})
}

// A long tail keeps its end, and a reader who has gone up stays where the text is.
func TestATailIsBounded(t *testing.T) {
	s := newStage(t, 80, 20)
	s.send(some())
	s.press("enter")
	long := func(n int) operator.Tail {
		return operator.Tail{Status: "running", Execution: "running", Events: []operator.Event{{At: ago(0), Type: "assistant/message", Text: strings.Repeat(fmt.Sprintf("part %d\n", n), 1000)}}}
	}
	for n := range 5 {
		s.send(tailMsg{1, long(n)})
	}
	s.press("pgup")
	before := s.tail.view.View()
	s.send(tailMsg{1, long(5)})
	if got := s.tail.view.View(); got != before {
		t.Errorf("the reader was moved from\n%s\nto\n%s", before, got)
	}
	if len(s.tail.lines) != maxLines {
		t.Errorf("%d lines are kept", len(s.tail.lines))
	}
	s.press("G")
	if frame := s.frame(); !strings.Contains(frame, "part 5") || !strings.Contains(frame, "for what came before") {
		t.Errorf("the end is\n%s", frame)
	}
}

func TestWrap(t *testing.T) {
	line := words.Line{{Text: "ab工cde", Tint: words.Bold}}
	for width, want := range map[int]string{0: "a|b|工|c|d|e", 1: "a|b|工|c|d|e", 2: "ab|工|cd|e", 3: "ab|工c|de", 4: "ab工|cde", 80: "ab工cde"} {
		var got []string
		for _, l := range wrap(line, width) {
			got = append(got, l.String())
		}
		if strings.Join(got, "|") != want {
			t.Errorf("at %d: %q, want %s", width, got, want)
		}
	}
	hanging := wrap(words.Line{{Text: "12 "}, {Text: "abcdefghij"}}, 7)
	if hanging[0].String() != "12 abcd" || hanging[1].String() != "   efgh" || hanging[2].String() != "   ij" {
		t.Errorf("hanging: %q", hanging)
	}
	if got := wrap(nil, 10); len(got) != 1 || len(got[0]) != 0 {
		t.Errorf("an empty line became %v", got)
	}
}
