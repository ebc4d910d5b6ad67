package repair

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/tasks"
)

// awayHost is a host that cannot be reached.
type awayHost struct{ dsh.Host }

func (awayHost) Sessions(context.Context) ([]dsh.Session, error) {
	return nil, &dsh.Error{Kind: dsh.NotSent, Method: "session.list"}
}

// listHost is a host that has some sessions.
type listHost struct {
	dsh.Host
	ids []string
}

func (h listHost) Sessions(context.Context) (list []dsh.Session, err error) {
	for _, id := range h.ids {
		list = append(list, dsh.Session{ID: id})
	}
	return list, nil
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newRepair(t *testing.T, dir string, host dsh.Host) *Repair {
	t.Helper()
	h, err := home.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Home: h, Host: host, HostURL: "http://127.0.0.1:1", LockTimeout: time.Second, Now: func() time.Time { return noon }})
}

// put makes the files of a home.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	taskA = "dsh_00000000000a"
	taskB = "dsh_00000000000b"
)

// Tasks and claims come over with their ids, modes and times; what cannot be read is named and keeps nothing else.
func TestImport(t *testing.T) {
	old := filepath.Join(t.TempDir(), "old")
	work := t.TempDir()
	put(t, old, map[string]string{
		"tasks/" + taskA + ".json":        `{"taskId":"` + taskA + `","sessionId":"session-a"}`,
		"claims/" + taskA + ".json":       `{"taskId":"` + taskA + `","sessionId":"session-a","cwd":"` + work + `","mode":"read-only","createdAt":"2026-10-01T08:00:00Z"}`,
		"tasks/" + taskB + ".json":        `{"taskId":"` + taskB + `","sessionId":"session-b"}`,
		"claims/" + taskB + ".json":       `{"cwd":"` + work + `/below","workspaceMode":"read-only","createdAt":1759305600000}`,
		"tasks/task-17.json":              `{"taskId":"task-17","sessionId":"session-c"}`,
		"tasks/broken.json":               `{"taskId":`,
		"tasks/dsh_00000000000c.json":     `{"taskId":"` + taskA + `","sessionId":"session-d"}`,
		"tasks/dsh_00000000000d.json":     `{"sessionId":"a sentence about something"}`,
		"tasks/dsh_00000000000e.json":     `{"sessionId":"session-e"}`,
		"claims/dsh_00000000000e.json":    `{"cwd":"not absolute"}`,
		"tasks/notes.txt":                 "nothing of it",
		"ledgers/" + taskA + "/any.jsonl": "{}\n",
	})
	r := newRepair(t, filepath.Join(t.TempDir(), "new"), listHost{ids: []string{"session-a", "session-c"}})
	found, scanned, err := r.Scan(old)
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	for _, p := range scanned.Problems {
		problems = append(problems, filepath.Base(strings.SplitN(p.What, ": ", 2)[0]))
	}
	if diff := cmp.Diff([]string{"broken.json", "dsh_00000000000c.json", "dsh_00000000000d.json", "dsh_00000000000e.json"}, problems); diff != "" {
		t.Errorf("what cannot be read: %s", diff)
	}
	report, err := r.Import(t.Context(), found)
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("import: %+v, %v", report, err)
	}
	got, bad, err := r.tasks.List()
	if err != nil || len(bad) > 0 {
		t.Fatal(bad, err)
	}
	sessions := map[string]string{}
	for _, task := range got {
		sessions[task.TaskID] = task.SessionID
	}
	renamed := newIDFor("task-17")
	if diff := cmp.Diff(map[string]string{taskA: "session-a", taskB: "session-b", renamed: "session-c"}, sessions); diff != "" || !tasks.ValidID(renamed) {
		t.Errorf("tasks: %s", diff)
	}
	held, err := r.claims.List()
	if err != nil {
		t.Fatal(err)
	}
	want := []claims.Claim{
		{TaskID: taskB, SessionID: "session-b", Cwd: work + "/below", Mode: claims.ReadOnly, CreatedAt: time.Date(2025, 10, 1, 8, 0, 0, 0, time.UTC)},
		{TaskID: taskA, SessionID: "session-a", Cwd: work, Mode: claims.ReadOnly, CreatedAt: time.Date(2026, 10, 1, 8, 0, 0, 0, time.UTC)},
	}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Errorf("claims: %s", diff)
	}
	if diff := cmp.Diff([]string{taskB}, r.Missing(t.Context(), found)); diff != "" {
		t.Errorf("sessions that the host does not know: %s", diff)
	}
	again, _, err := r.Scan(old)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range again {
		if !f.Known() {
			t.Errorf("task %s would be taken over again", f.Task.TaskID)
		}
	}
}

// In a home that both bridges share, what the other one had is kept under other names.
func TestImportInPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	work := t.TempDir()
	put(t, dir, map[string]string{
		"tasks/" + taskA + ".json":           `{"taskId":"` + taskA + `","sessionId":"session-a"}`,
		"claims/" + taskA + ".json":          `{"taskId":"` + taskA + `","sessionId":"session-a","cwd":"` + work + `","mode":"exclusive-write"}`,
		"ledgers/" + taskA + "/events.jsonl": `{"cursor":1,"mergeIndex":1}` + "\n",
	})
	r := newRepair(t, dir, awayHost{})
	found, _, err := r.Scan(dir)
	if err != nil {
		t.Fatal(err)
	}
	report, err := r.Import(t.Context(), found)
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("import: %+v, %v", report, err)
	}
	if _, err := r.tasks.Load(taskA); err != nil {
		t.Error(err)
	}
	if c, held, err := r.claims.Get(taskA); err != nil || !held || c.Cwd != work {
		t.Errorf("the claim is %+v, %v, %v", c, held, err)
	}
	for _, kept := range []string{"tasks/" + taskA + ".json", "claims/" + taskA + ".json", "ledgers/" + taskA} {
		if _, err := os.Stat(filepath.Join(dir, kept+".typescript-20261130T120000Z")); err != nil {
			t.Errorf("the other bridge's %s is not kept: %v", kept, err)
		}
	}
	if r.Missing(t.Context(), found) != nil {
		t.Error("a host that is away is said to miss sessions")
	}
}

// A claim that another task of this home has in the way is not taken over; the task is.
func TestImportOfAConflictingClaim(t *testing.T) {
	old := filepath.Join(t.TempDir(), "old")
	work := t.TempDir()
	put(t, old, map[string]string{
		"tasks/" + taskA + ".json":  `{"taskId":"` + taskA + `","sessionId":"session-a"}`,
		"claims/" + taskA + ".json": `{"cwd":"` + work + `","mode":"exclusive-write"}`,
	})
	r := newRepair(t, filepath.Join(t.TempDir(), "new"), awayHost{})
	if err := r.claims.Acquire(t.Context(), claims.Claim{TaskID: taskB, SessionID: "session-b", Cwd: work, Mode: claims.ReadOnly}); err != nil {
		t.Fatal(err)
	}
	found, _, err := r.Scan(old)
	if err != nil {
		t.Fatal(err)
	}
	report, err := r.Import(t.Context(), found)
	if err != nil || len(report.Problems) != 1 || !strings.Contains(report.Problems[0].What, taskB) {
		t.Errorf("import: %+v, %v", report, err)
	}
	if _, err := r.tasks.Load(taskA); err != nil {
		t.Error(err)
	}
	if _, held, err := r.claims.Get(taskA); err != nil || held {
		t.Errorf("it has a claim: %v %v", held, err)
	}
}

func TestScanOfNoHome(t *testing.T) {
	r := newRepair(t, filepath.Join(t.TempDir(), "new"), awayHost{})
	if _, _, err := r.Scan(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no folder tasks") {
		t.Errorf("a folder that is no home: %v", err)
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"taskId":"dsh_00000000000a","sessionId":"s"}`), []byte(`{"cwd":"/w","mode":"read-only","createdAt":1}`))
	f.Add([]byte(`{}`), []byte(`null`))
	f.Add([]byte(`{"sessionId":"s"}`), []byte(`{"cwd":"/w","createdAt":"0000-00-00"}`))
	f.Fuzz(func(t *testing.T, task, claim []byte) {
		old := t.TempDir()
		put(t, old, map[string]string{"tasks/" + taskA + ".json": string(task), "claims/" + taskA + ".json": string(claim)})
		r := newRepair(t, filepath.Join(t.TempDir(), "new"), awayHost{})
		found, report, err := r.Scan(old)
		if err != nil || len(found)+len(report.Problems) != 1 {
			t.Fatalf("%d tasks, %v, %v", len(found), report.Problems, err)
		}
		if _, err := r.Import(t.Context(), found); err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 {
			if _, err := r.tasks.Load(taskA); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestReleaseOfAClaimThatCannotBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	put(t, dir, map[string]string{"claims/" + taskA + ".json": "garbage"})
	r := newRepair(t, dir, awayHost{})
	report, err := r.ReleaseClaim(t.Context(), taskA)
	if err != nil || len(report.Done) != 1 || !strings.HasSuffix(report.Done[0].Kept, ".unreadable-20261130T120000Z") {
		t.Fatalf("release: %+v, %v", report, err)
	}
	if data, err := os.ReadFile(report.Done[0].Kept); err != nil || string(data) != "garbage" {
		t.Errorf("what was there: %q %v", data, err)
	}
	report, err = r.ReleaseClaim(t.Context(), taskA)
	if err != nil || len(report.Done) != 0 || len(report.Problems) != 1 {
		t.Errorf("the second time: %+v, %v", report, err)
	}
}

func TestRecoverLedgerWithoutAHost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	put(t, dir, map[string]string{"ledgers/" + taskA + "/events.jsonl": "garbage\n"})
	r := newRepair(t, dir, awayHost{})
	if err := r.tasks.Save(tasks.Task{TaskID: taskA, SessionID: "s", CreatedAt: noon, Stage: tasks.Prompted, PromptSent: tasks.SentYes}); err != nil {
		t.Fatal(err)
	}
	_, err := r.RecoverLedger(t.Context(), taskA, 0)
	var host *dsh.Error
	if !errors.As(err, &host) {
		t.Errorf("recovered without a host: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "ledgers", taskA, "events.jsonl")); err != nil || string(data) != "garbage\n" {
		t.Errorf("the ledger was touched: %q %v", data, err)
	}
}
