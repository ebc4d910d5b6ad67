package tasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dsh-agentlink/internal/home"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func newStore(t *testing.T) (*Store, *home.Home) {
	t.Helper()
	h, err := home.Open(filepath.Join(t.TempDir(), "agentlink"))
	if err != nil {
		t.Fatal(err)
	}
	return Open(h), h
}

func newTask() Task {
	request := NewRequest("a caller's id", []byte(`{"prompt":"p"}`))
	return Task{
		TaskID:     NewID(),
		SessionID:  "0b0f6a4e-3f0a-4a52-9a39-6a3f0f8a9d11",
		CreatedAt:  time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Preset:     "standard",
		Stage:      Prompted,
		PromptID:   "5d5f2b4c-0a43-4a7b-8c49-0c7a9f3f7b1e",
		PromptSent: SentUnknown,
		Request:    &request,
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"dsh_0123456789ab":           true,
		"dsh_0123456789aB":           false,
		"dsh_0123456789a":            false,
		"dsh_0123456789abc":          false,
		"dsh_0123456789a/":           false,
		"dsh_0123456789a\x00":        false,
		"DSH_0123456789ab":           false,
		"0123456789ab":               false,
		"":                           false,
		"dsh_":                       false,
		"../../dsh_0123456789ab":     false,
		"dsh_0123456789ab\n":         false,
		"dsh_٠١٢٣٤٥":                 false, // twelve bytes of digits that are no hex digits
		"dsh_0123456789abdsh_012345": false,
	} {
		if got := ValidID(id); got != want {
			t.Errorf("%q: %t, want %t", id, got, want)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		if !ValidID(id) || seen[id] {
			t.Fatalf("%q is not valid or not new", id)
		}
		seen[id] = true
	}
}

func TestStagesAreInOrder(t *testing.T) {
	order := []Stage{Mapped, Claimed, Created, Prompted}
	for i, s := range order {
		for j, other := range order {
			if got := s.Reached(other); got != (i >= j) {
				t.Errorf("%s.Reached(%s) is %t", s, other, got)
			}
		}
		if s.Reached("later") || Stage("later").Reached(s) {
			t.Errorf("an unknown stage is in order with %s", s)
		}
	}
}

func TestFileFormat(t *testing.T) {
	task := newTask()
	task.TaskID = "dsh_0123456789ab"
	got, err := encode(task)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"format":1,"taskId":"dsh_0123456789ab","sessionId":"0b0f6a4e-3f0a-4a52-9a39-6a3f0f8a9d11",` +
		`"createdAt":"2026-01-02T03:04:05.000000006Z","preset":"standard","stage":"prompted",` +
		`"promptId":"5d5f2b4c-0a43-4a7b-8c49-0c7a9f3f7b1e","promptSent":"unknown",` +
		`"request":{"id":"` + task.Request.ID + `","fingerprint":"` + task.Request.Fingerprint + `"}}` + "\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}

	task.Preset, task.PromptID, task.Request = "", "", nil
	got, err = encode(task)
	if err != nil {
		t.Fatal(err)
	}
	for _, absent := range []string{"preset", "promptId", "request"} {
		if strings.Contains(string(got), `"`+absent+`"`) {
			t.Errorf("%s is there without being set: %s", absent, got)
		}
	}
}

// A file is refused when it is no task, and a task is refused when it would make such a file.
func TestLaunched(t *testing.T) {
	for _, tt := range []struct {
		name string
		task Task
		want bool
	}{
		{"not prompted", Task{Stage: Created, PromptID: "p", PromptSent: SentNo}, false},
		{"prompted, perhaps", Task{Stage: Prompted, PromptID: "p", PromptSent: SentUnknown}, false},
		{"prompted", Task{Stage: Prompted, PromptID: "p", PromptSent: SentYes}, true},
		{"prompted, its goal is missing", Task{Stage: Prompted, PromptID: "p", PromptSent: SentYes, GoalSent: SentNo}, false},
		{"prompted, with its goal", Task{Stage: Prompted, PromptID: "p", PromptSent: SentYes, GoalSent: SentYes}, true},
		{"a goal alone", Task{Stage: Prompted, PromptSent: SentYes, GoalSent: SentYes}, true},
		{"a goal alone, perhaps", Task{Stage: Prompted, PromptSent: SentUnknown, GoalSent: SentUnknown}, false},
		{"a fork that is to come", Task{Stage: Claimed, PromptSent: SentNo, ForkOf: "s"}, false},
		{"a fork", Task{Stage: Created, PromptSent: SentNo, ForkOf: "s"}, true},
		{"a fork, not prompted", Task{Stage: Created, PromptID: "p", PromptSent: SentNo, ForkOf: "s"}, false},
		{"a fork, prompted", Task{Stage: Prompted, PromptID: "p", PromptSent: SentYes, ForkOf: "s"}, true},
	} {
		if got := tt.task.Launched(); got != tt.want {
			t.Errorf("%s: launched %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := newTask().Validate(); err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(*Task){
		"taskId":             func(t *Task) { t.TaskID = "../x" },
		"sessionId":          func(t *Task) { t.SessionID = "" },
		"createdAt":          func(t *Task) { t.CreatedAt = time.Time{} },
		"stage":              func(t *Task) { t.Stage = "later" },
		"promptSent":         func(t *Task) { t.PromptSent = "" },
		"goalSent":           func(t *Task) { t.GoalSent = "perhaps" },
		"forkOf":             func(t *Task) { t.ForkOf = "a text" },
		"request":            func(t *Task) { t.Request.ID = "a caller's id" },
		"digests":            func(t *Task) { t.Request.Fingerprint = "" },
		"sessionId is no id": func(t *Task) { t.SessionID = "two words" },
		"preset is no id":    func(t *Task) { t.Preset = "line\nbreak" },
		"promptId is no id":  func(t *Task) { t.PromptID = strings.Repeat("x", 257) },
	} {
		t.Run(says, func(t *testing.T) {
			s, h := newStore(t)
			task := newTask()
			change(&task)
			if err := s.Save(task); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("got %v", err)
			}
			if _, err := os.Lstat(h.Dir()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something was written: %v", err)
			}
			data, err := json.Marshal(task)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decode(data); err == nil {
				t.Errorf("decoded %s", data)
			}
		})
	}
}

func TestSaveReplacesAndLoadReturnsIt(t *testing.T) {
	s, _ := newStore(t)
	task := newTask()
	task.CreatedAt = task.CreatedAt.In(time.FixedZone("elsewhere", 3600))
	for _, stage := range stages {
		task.Stage = stage
		if err := s.Save(task); err != nil {
			t.Fatal(err)
		}
		got, err := s.Load(task.TaskID)
		if diff := cmp.Diff(task, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

func TestLoadOfNoTask(t *testing.T) {
	s, h := newStore(t)
	for _, id := range []string{NewID(), "", "../../etc/passwd", "dsh_", "a person's own words"} {
		if _, err := s.Load(id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := os.Lstat(h.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("looking for a task made something: %v", err)
	}
}

func TestDelete(t *testing.T) {
	s, h := newStore(t)
	gone, kept := newTask(), newTask()
	if err := s.Delete(gone.TaskID); err != nil {
		t.Errorf("no such task: %v", err)
	}
	for _, task := range []Task{gone, kept} {
		if err := s.Save(task); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{gone.TaskID, gone.TaskID, "../tasks/" + kept.TaskID, ""} {
		if err := s.Delete(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := s.Load(gone.TaskID); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Load(kept.TaskID); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(h.TaskFile(kept.TaskID), h.TaskFile(gone.TaskID)); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(gone.TaskID); err == nil {
		t.Error("a link was deleted")
	}
}

func TestAFileThatCannotBeUsedConcernsItsTaskAlone(t *testing.T) {
	s, h := newStore(t)
	old, young := newTask(), newTask()
	young.CreatedAt = old.CreatedAt.Add(time.Second)
	young.Request = nil
	for _, task := range []Task{young, old} {
		if err := s.Save(task); err != nil {
			t.Fatal(err)
		}
	}
	other, err := encode(newTask())
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string]struct {
		content []byte
		is      error
		says    string
	}{
		"dsh_000000000001": {[]byte(`{"format":2,"stage":{"all":"new"}}`), ErrNewerFormat, "format 2"},
		"dsh_000000000002": {[]byte(`{"format":1,`), nil, "unexpected end"},
		"dsh_000000000003": {nil, nil, "unexpected end"},
		"dsh_000000000004": {bytes.Repeat([]byte(" "), maxFileBytes+1), home.ErrTooLarge, "larger"},
		"dsh_000000000005": {other, nil, "it holds task"},
		"dsh_000000000006": {[]byte(`{"taskId":"dsh_000000000006"}`), nil, "sessionId is missing"},
	}
	for id, c := range bad {
		if err := os.WriteFile(h.TaskFile(id), c.content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(h.TaskFile(old.TaskID), h.TaskFile("dsh_000000000007")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".dsh_0000000000081234.json", "notes.txt", "dsh_000000000009.json.bak", "x.json"} {
		if err := os.WriteFile(h.TasksDir()+"/"+name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	good, unusable, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Task{old, young}, good); diff != "" {
		t.Error(diff)
	}
	var ids []string
	for _, e := range unusable {
		ids = append(ids, e.TaskID)
		if e.Path != h.TaskFile(e.TaskID) || !strings.Contains(e.Error(), e.Path) {
			t.Errorf("the error does not name its file: %v", e)
		}
		if c, ok := bad[e.TaskID]; ok && (!strings.Contains(e.Error(), c.says) || c.is != nil && !errors.Is(e, c.is)) {
			t.Errorf("%s: %v", e.TaskID, e)
		}
		if _, err := s.Load(e.TaskID); err == nil || err.Error() != e.Error() {
			t.Errorf("Load says %v, List %v", err, e)
		}
	}
	want := []string{"dsh_000000000001", "dsh_000000000002", "dsh_000000000003", "dsh_000000000004", "dsh_000000000005", "dsh_000000000006", "dsh_000000000007"}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Error(diff)
	}
	if got, found, err := s.FindRequest("a caller's id", time.Time{}); err != nil || !found || got.TaskID != old.TaskID {
		t.Errorf("found %+v, %t, %v", got, found, err)
	}
}

func TestListIsInOrderOfCreation(t *testing.T) {
	s, _ := newStore(t)
	if good, bad, err := s.List(); err != nil || good != nil || bad != nil {
		t.Errorf("without a folder: %v, %v, %v", good, bad, err)
	}
	var want []string
	for i := range 5 {
		task := newTask()
		task.TaskID = fmt.Sprintf("dsh_00000000000%d", 9-i)
		task.CreatedAt = task.CreatedAt.Add(time.Duration(i/2) * time.Hour)
		if err := s.Save(task); err != nil {
			t.Fatal(err)
		}
	}
	want = []string{"dsh_000000000008", "dsh_000000000009", "dsh_000000000006", "dsh_000000000007", "dsh_000000000005"}
	good, _, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, task := range good {
		got = append(got, task.TaskID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFindRequest(t *testing.T) {
	s, h := newStore(t)
	if _, found, err := s.FindRequest("CANARY id", time.Time{}); found || err != nil {
		t.Errorf("without a folder: %t, %v", found, err)
	}
	first, second := newTask(), newTask()
	request := NewRequest("CANARY id", []byte("CANARY arguments"))
	first.Request, second.Request = &request, &request
	second.CreatedAt = second.CreatedAt.Add(time.Second)
	for _, task := range []Task{second, first, newTask()} {
		if err := s.Save(task); err != nil {
			t.Fatal(err)
		}
	}
	got, found, err := s.FindRequest("CANARY id", time.Time{})
	if diff := cmp.Diff(first, got); err != nil || !found || diff != "" {
		t.Errorf("%t, %v\n%s", found, err, diff)
	}
	if *got.Request != NewRequest("CANARY id", []byte("CANARY arguments")) || *got.Request == NewRequest("CANARY id", []byte("others")) {
		t.Error("the fingerprint does not tell arguments apart")
	}
	if _, found, _ := s.FindRequest("canary id", time.Time{}); found {
		t.Error("found a request that never was")
	}
	if got, found, _ := s.FindRequest("CANARY id", second.CreatedAt); !found || got.TaskID != second.TaskID {
		t.Errorf("since the second: %t, %s", found, got.TaskID)
	}
	if _, found, _ := s.FindRequest("CANARY id", second.CreatedAt.Add(time.Second)); found {
		t.Error("found a request that is too old")
	}
	names, err := h.Names(h.TasksDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(h.TasksDir() + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("CANARY")) {
			t.Errorf("%s holds a caller's words: %s", name, data)
		}
	}
}

func genTask(rt *rapid.T) Task {
	name := rapid.StringMatching(`[A-Za-z0-9_.:/-]{1,64}`)
	maybe := rapid.OneOf(rapid.Just(""), name)
	task := Task{
		TaskID:     rapid.StringMatching(`dsh_[0-9a-f]{12}`).Draw(rt, "taskId"),
		SessionID:  name.Draw(rt, "sessionId"),
		CreatedAt:  time.Unix(rapid.Int64Range(0, 1<<34).Draw(rt, "seconds"), rapid.Int64Range(0, 1e9-1).Draw(rt, "nanoseconds")),
		Preset:     maybe.Draw(rt, "preset"),
		Stage:      rapid.SampledFrom(stages).Draw(rt, "stage"),
		PromptID:   maybe.Draw(rt, "promptId"),
		PromptSent: rapid.SampledFrom([]Sent{SentNo, SentYes, SentUnknown}).Draw(rt, "promptSent"),
		GoalSent:   rapid.SampledFrom([]Sent{"", SentNo, SentYes, SentUnknown}).Draw(rt, "goalSent"),
		ForkOf:     rapid.SampledFrom([]string{"", "session-1"}).Draw(rt, "forkOf"),
	}
	if rapid.Bool().Draw(rt, "with request") {
		r := NewRequest(rapid.String().Draw(rt, "request id"), []byte(rapid.String().Draw(rt, "arguments")))
		task.Request = &r
	}
	return task
}

func TestEncodedIsDecoded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		task := genTask(rt)
		data, err := encode(task)
		if err != nil {
			rt.Fatal(err)
		}
		if bytes.Count(data, []byte("\n")) != 1 || len(data) > maxFileBytes {
			rt.Fatalf("not one short line: %q", data)
		}
		got, err := decode(data)
		if diff := cmp.Diff(task, got); err != nil || diff != "" {
			rt.Fatalf("%v\n%s", err, diff)
		}
	})
}

// Whatever is read is a task that can be saved again.
func FuzzDecode(f *testing.F) {
	data, err := encode(newTask())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(`{"taskId":"dsh_0123456789ab","sessionId":"s","createdAt":"9999-12-31T23:59:59-01:00","stage":"mapped","promptSent":"no"}`))
	f.Add([]byte(`{"format":-1,"taskId":"dsh_0123456789ab","sessionId":"s","createdAt":"0001-01-01T00:00:01Z","stage":"mapped","promptSent":"no"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		task, err := decode(data)
		if err != nil {
			return
		}
		again, err := encode(task)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if got, err := decode(again); err != nil || !cmp.Equal(task, got) {
			t.Fatalf("%q became %q: %v", data, again, err)
		}
	})
}
