package requests

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dsh-agentlink/internal/home"
)

const task = "dsh_0123456789ab"

func newStore(t *testing.T) *Store {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "home"))
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	h, err := home.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return Open(h, time.Second)
}

func call(id string, arguments any) Call {
	return Call{Tool: "dsh_cancel", TaskID: task, RequestID: id, Arguments: arguments}
}

func begin(t *testing.T, s *Store, c Call) (*Running, bool) {
	t.Helper()
	r, known, err := s.Begin(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r, known
}

func end(t *testing.T, r *Running) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// A call is known from its beginning on, also to another process, and its outcome from its end on.
func TestARepeatedCallIsKnown(t *testing.T) {
	s := newStore(t)
	r, known := begin(t, s, call("id 1", "turn"))
	if known {
		t.Fatal("a fresh call is known")
	}
	end(t, r) // as a process that dies inside the call
	other := open(t, s.home.Dir())
	r, known = begin(t, other, call("id 1", "turn"))
	if !known || r.Entry().Done {
		t.Fatalf("a call that was begun: known %v, %+v", known, r.Entry())
	}
	outcome := map[string]any{"accepted": true, "taskId": task, "cwd": "/home/dev/a folder"}
	if err := r.Done(outcome); err != nil {
		t.Fatal(err)
	}
	end(t, r)
	r, known = begin(t, s, call("id 1", "turn"))
	var got map[string]any
	if !known || !r.Entry().Done || json.Unmarshal(r.Entry().Outcome, &got) != nil {
		t.Fatalf("a call that is done: known %v, %+v", known, r.Entry())
	}
	if diff := cmp.Diff(outcome, got); diff != "" {
		t.Errorf("the outcome: %s", diff)
	}
	end(t, r)
}

func TestAnIDIsForOneCall(t *testing.T) {
	s := newStore(t)
	first := call("id 1", "turn")
	r, _ := begin(t, s, first)
	end(t, r)
	for name, c := range map[string]Call{
		"other arguments": call("id 1", "queue"),
		"another tool":    {Tool: "dsh_release_workspace", TaskID: task, RequestID: "id 1", Arguments: "turn"},
	} {
		if _, _, err := s.Begin(t.Context(), c); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]Call{
		"another id":   call("id 2", "turn"),
		"another task": {Tool: "dsh_cancel", TaskID: "dsh_ffffffffffff", RequestID: "id 1", Arguments: "turn"},
	} {
		r, known := begin(t, s, c)
		if known {
			t.Errorf("%s is known", name)
		}
		end(t, r)
	}
}

func TestAForgottenCallMayBeMadeAgain(t *testing.T) {
	s := newStore(t)
	r, _ := begin(t, s, call("id 1", "turn"))
	for range 2 {
		if err := r.Forget(); err != nil {
			t.Fatal(err)
		}
	}
	end(t, r)
	r, known := begin(t, s, call("id 1", "queue"))
	if known {
		t.Error("it is still known")
	}
	end(t, r)
}

func TestOneProcessAtATime(t *testing.T) {
	s := newStore(t)
	r, _ := begin(t, s, call("id 1", "turn"))
	other := open(t, s.home.Dir())
	other.timeout = 10 * time.Millisecond
	var locked *home.LockTimeoutError
	if _, _, err := other.Begin(t.Context(), call("id 1", "turn")); !errors.As(err, &locked) {
		t.Errorf("a call that another process is at: %v", err)
	}
	end(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := other.Begin(ctx, call("id 1", "turn")); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was cancelled: %v", err)
	}
}

// Entries past their time count as none, and are removed by the next process that makes one.
func TestEntriesExpire(t *testing.T) {
	s := newStore(t)
	now := time.Now()
	s.now = func() time.Time { return now }
	for _, id := range []string{"old 1", "old 2"} {
		r, _ := begin(t, s, call(id, "turn"))
		end(t, r)
	}
	later := open(t, s.home.Dir())
	later.now = func() time.Time { return now.Add(Lifetime + time.Hour) }
	r, known := begin(t, later, call("new", "turn"))
	if known {
		t.Error("a fresh call is known")
	}
	end(t, r)
	files, err := filepath.Glob(filepath.Join(s.home.RequestsDir(), "*.json"))
	if err != nil || len(files) != 1 {
		t.Errorf("%v (%v) are left, want the new one", files, err)
	}
	r, known = begin(t, later, call("old 1", "queue"))
	if known {
		t.Error("an old call is known")
	}
	end(t, r)
}

// What an entry holds can be no content: neither the arguments nor the id are in it, and an outcome with a text in it is
// refused.
func TestNoContentIsKept(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newStore(t)
		secret := "CANARY " + rapid.StringMatching(`[a-z]{8}`).Draw(r, "secret")
		running, _ := begin(t, s, call(secret, map[string]string{"prompt": secret}))
		if err := running.Done(map[string]any{"said": []string{secret}}); err == nil {
			r.Fatal("a text was kept")
		}
		end(t, running)
		files, err := os.ReadDir(s.home.RequestsDir())
		if err != nil {
			r.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(filepath.Join(s.home.RequestsDir(), f.Name()))
			if err != nil || strings.Contains(string(data), "CANARY") {
				r.Fatalf("%s holds %s (%v)", f.Name(), data, err)
			}
		}
	})
}

func FuzzEntry(f *testing.F) {
	f.Add([]byte(`{"format":1,"tool":"dsh_cancel","began":"2026-11-30T12:00:00Z","done":true,"outcome":{}}`))
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(`null`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newStore(t)
		r, _ := begin(t, s, call("id 1", "turn"))
		path := r.path
		end(t, r)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, _, err := s.Begin(t.Context(), call("id 1", "turn"))
		if err == nil {
			end(t, r)
		}
	})
}
