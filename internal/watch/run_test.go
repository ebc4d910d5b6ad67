package watch

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/internal/tasks"
)

const enter, back = "\r", "\x7f"

func asks(command string) labmodel.Step {
	args, _ := json.Marshal(map[string]string{"command": command, "description": "d", "sandbox_permissions": "danger-full-access", "justification": "It has to."})
	return labmodel.Step{Tool: "bash", Args: args}
}

// A person sees what waits, reads the tail of it, and leaves home and host as they were.
func TestWatchShowsWhatWaits(t *testing.T) {
	r := newRig(t)
	r.task(labmodel.Step{Say: "All is done."})
	id, session := r.task(asks("echo \u202ehidden"))
	before := r.picture()
	v := r.watch()
	v.await(`(?m)^>! ` + id + ` +awaiting_approval`)
	v.await(`2 tasks, 1 waiting for an answer`)
	v.press(enter)
	v.await(`>> APPROVAL .* waits`)
	v.await(`\$ .*\\u202ehidden`)
	v.await(`following`)
	v.press(back + "?")
	v.await(`changes anything`)
	v.press("?/done" + enter)
	v.await(`0 of 2 tasks match done|no task matches done`)
	v.press("q")
	v.ended()
	if diff := cmp.Diff(before, r.picture()); diff != "" {
		t.Error(diff)
	}
	if open := r.host.Pending(); len(open) != 1 || open[0].SessionID != session {
		t.Errorf("%+v waits at the host", open)
	}
}

// What happens is seen while it happens: a task of another process, its end, the loss of the host and its return.
func TestWatchKeepsUp(t *testing.T) {
	r := newRig(t)
	v := r.watch()
	v.await(`no tasks`)
	v.await(`connected`)
	id, _ := r.task(labmodel.Step{Say: "The answer."})
	v.await(id + ` +turn_completed `)
	v.press(enter)
	v.await(`agent +The answer\.`)
	r.host.Kill()
	v.await(`waiting for it`)
	v.press(back)
	v.await(`away since .*no DSH host answers`)
	v.await(id + ` +turn_completed\?`)
	if err := r.host.Restart(); err != nil {
		t.Fatal(err)
	}
	v.await(`connected`)
	v.await(id + ` +turn_completed `)
	v.press("r" + enter)
	v.await(`agent +The answer\.`)
	v.press("q")
	v.ended()
}

// The process is told to end while a tail is open.
func TestWatchEndsWithItsContext(t *testing.T) {
	r := newRig(t)
	id, _ := r.task(labmodel.Step{Say: "The answer."})
	v := r.watch()
	v.await(id)
	v.press(enter)
	v.await(`following`)
	v.stop()
	v.ended()
}

// A task whose ledger is damaged is no reason not to see the others, and its tail says what is wrong.
func TestWatchShowsProblems(t *testing.T) {
	r := newRig(t)
	id, _ := r.task(labmodel.Step{Say: "Good."})
	path := filepath.Join(r.home.LedgerDir(id), "events.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, "nonsense\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	v := r.watch()
	v.await(`1 with a problem`)
	v.await(`events\.jsonl, line \d+`)
	v.press(enter)
	v.await(`(?s)events\.jsonl, line.*the tail has ended`)
	v.press("q")
	v.ended()
}

// many makes copies of a finished task, each with a session and a ledger of its own.
func (r *rig) many(n int) {
	r.Helper()
	id, session := r.task(labmodel.Step{Tool: "bash", Args: json.RawMessage(`{"command":"echo a","description":"d"}`)}, labmodel.Step{Say: "Done."})
	original, err := os.ReadFile(filepath.Join(r.home.LedgerDir(id), "events.jsonl"))
	if err != nil {
		r.Fatal(err)
	}
	mapping, err := os.ReadFile(r.home.TaskFile(id))
	if err != nil {
		r.Fatal(err)
	}
	for range n - 1 {
		copied := tasks.NewID()
		other, err := r.host.AddSession(dshtest.SessionSpec{Title: "Copied"})
		if err != nil {
			r.Fatal(err)
		}
		renamed := strings.NewReplacer(id, copied, session, other)
		if err := os.Mkdir(r.home.LedgerDir(copied), 0o700); err != nil {
			r.Fatal(err)
		}
		for path, data := range map[string][]byte{r.home.TaskFile(copied): mapping, filepath.Join(r.home.LedgerDir(copied), "events.jsonl"): original} {
			if err := os.WriteFile(path, []byte(renamed.Replace(string(data))), 0o600); err != nil {
				r.Fatal(err)
			}
		}
	}
}

// However many tasks there are, a check costs one session.list and a look another, and nothing for each task.
func TestManyTasksCostTwoCalls(t *testing.T) {
	const n = 60
	r := newRig(t)
	r.many(n)
	l := newLooks(r.opts, quick)
	lists, others := r.count.lists.Load(), r.count.others.Load()
	seen := l.traces(t.Context())
	msg := l.look(t.Context())
	if msg.err != nil || len(msg.answer.Tasks) != n || msg.answer.Problems > 0 {
		t.Fatalf("%d tasks, %d problems, %v", len(msg.answer.Tasks), msg.answer.Problems, msg.err)
	}
	if a, b := r.count.lists.Load()-lists, r.count.others.Load()-others; a != 2 || b != 0 {
		t.Errorf("%d session.list and %d other calls", a, b)
	}
	if l.traces(t.Context()) != seen {
		t.Error("nothing has changed, and it looks as if")
	}
	s := newStage(t, 120, 40)
	s.send(msg)
	s.press("G")
	if last := s.list.shown[n-1]; s.list.id != last.TaskID || !strings.Contains(s.frame(), last.TaskID) {
		t.Errorf("the last task is not on the screen:\n%s", s.frame())
	}
}

// Every trace of a change is noticed.
func TestTraces(t *testing.T) {
	r := newRig(t)
	l := newLooks(r.opts, quick)
	seen := map[traces]string{}
	step := func(name string) {
		t.Helper()
		now := l.traces(t.Context())
		if before, known := seen[now]; known {
			t.Errorf("%s looks like %s", name, before)
		}
		seen[now] = name
	}
	step("an empty home")
	id, _ := r.task(labmodel.Step{Say: "Done."})
	step("a task")
	f, err := os.OpenFile(filepath.Join(r.home.LedgerDir(id), "events.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(f, "{}")
	f.Close()
	step("a record more")
	if err := os.Remove(r.home.ClaimFile(id)); err != nil {
		t.Fatal(err)
	}
	step("a claim released")
	if _, err := r.host.AddSession(dshtest.SessionSpec{}); err != nil {
		t.Fatal(err)
	}
	step("a session more")
	r.host.Kill()
	step("no host")
}

func BenchmarkLookAtAThousandTasks(b *testing.B) {
	r := newRig(b)
	r.many(1000)
	l := newLooks(r.opts, quick)
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			l.traces(b.Context())
		}
	})
	b.Run("look", func(b *testing.B) {
		for b.Loop() {
			l.look(b.Context())
		}
	})
	b.Run("frame", func(b *testing.B) {
		m := newModel(&deeds{}, r.opts)
		m.Update(tea.WindowSizeMsg{Width: 160, Height: 50})
		msg := l.look(b.Context())
		for b.Loop() {
			m.Update(msg)
			io.Discard.Write([]byte(m.View().Content))
		}
	})
}
