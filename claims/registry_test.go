package claims

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dsh-agentlink/internal/home"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

const patience = 20 * time.Second

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRegistry(t *testing.T) (*Registry, *home.Home) {
	t.Helper()
	h, err := home.Open(filepath.Join(t.TempDir(), "agentlink"))
	if err != nil {
		t.Fatal(err)
	}
	return Open(h, patience), h
}

func claim(n int, cwd string, mode Mode) Claim {
	return Claim{
		TaskID:    fmt.Sprintf("dsh_%012x", n),
		SessionID: fmt.Sprintf("session-%d", n),
		Cwd:       cwd,
		Mode:      mode,
		CreatedAt: noon.Add(time.Duration(n) * time.Second),
	}
}

func TestConflicts(t *testing.T) {
	for _, c := range []struct {
		held, wanted Mode
		heldAt, at   string
		conflict     bool
	}{
		{ExclusiveWrite, ExclusiveWrite, "/a/b", "/a/b", true},
		{ExclusiveWrite, ExclusiveWrite, "/a/b", "/a", true},
		{ExclusiveWrite, ExclusiveWrite, "/a/b", "/a/b/c", true},
		{ExclusiveWrite, ExclusiveWrite, "/a/b", "/a/bc", false},
		{ExclusiveWrite, ExclusiveWrite, "/", "/a", true},
		{ExclusiveWrite, ReadOnly, "/a/b", "/a/b/c", true},
		{ReadOnly, ExclusiveWrite, "/a/b", "/a", true},
		{ReadOnly, ExclusiveWrite, "/a/b", "/c", false},
		{ReadOnly, ReadOnly, "/a/b", "/a/b", false},
		{ReadOnly, ReadOnly, "/a/b", "/", false},
	} {
		r, _ := newRegistry(t)
		holder, wanted := claim(1, c.heldAt, c.held), claim(2, c.at, c.wanted)
		if err := r.Acquire(t.Context(), holder); err != nil {
			t.Fatal(err)
		}
		err := r.Acquire(t.Context(), wanted)
		if !c.conflict {
			if err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		conflict, ok := errors.AsType[*ConflictError](err)
		if !ok {
			t.Errorf("%+v: got %v", c, err)
			continue
		}
		if diff := cmp.Diff(&ConflictError{Requested: wanted, Holder: holder}, conflict); diff != "" {
			t.Error(diff)
		}
		for _, part := range []string{holder.TaskID, holder.Cwd, string(holder.Mode), wanted.Cwd} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not name %s", err, part)
			}
		}
		if _, found, _ := r.Get(wanted.TaskID); found {
			t.Error("the refused claim is on disk")
		}
	}
}

func TestTheOldestHolderIsNamed(t *testing.T) {
	r, _ := newRegistry(t)
	for _, n := range []int{3, 2, 4} {
		if err := r.Acquire(t.Context(), claim(n, fmt.Sprintf("/a/%d", n), ExclusiveWrite)); err != nil {
			t.Fatal(err)
		}
	}
	err := r.Acquire(t.Context(), claim(1, "/a", ReadOnly))
	if conflict, ok := errors.AsType[*ConflictError](err); !ok || conflict.Holder.TaskID != claim(2, "", "").TaskID {
		t.Errorf("got %v", err)
	}
}

func TestAcquiringAgain(t *testing.T) {
	r, _ := newRegistry(t)
	first := claim(1, "/a", ExclusiveWrite)
	if err := r.Acquire(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	again := first
	again.CreatedAt = first.CreatedAt.Add(time.Hour)
	if err := r.Acquire(t.Context(), again); err != nil {
		t.Errorf("the same again: %v", err)
	}
	for name, change := range map[string]func(*Claim){
		"cwd":     func(c *Claim) { c.Cwd = "/b" },
		"mode":    func(c *Claim) { c.Mode = ReadOnly },
		"session": func(c *Claim) { c.SessionID = "another" },
	} {
		other := first
		change(&other)
		err := r.Acquire(t.Context(), other)
		if held, ok := errors.AsType[*HeldError](err); !ok || !cmp.Equal(held, &HeldError{Requested: other, Held: first}) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	got, found, err := r.Get(first.TaskID)
	if diff := cmp.Diff(first, got); !found || err != nil || diff != "" {
		t.Errorf("%t, %v\n%s", found, err, diff)
	}
}

func TestAcquireRefusesWhatIsNoClaim(t *testing.T) {
	for says, change := range map[string]func(*Claim){
		"task id":       func(c *Claim) { c.TaskID = "../x" },
		"sessionId":     func(c *Claim) { c.SessionID = "" },
		"absolute path": func(c *Claim) { c.Cwd = "a" },
		"shortest form": func(c *Claim) { c.Cwd = "/a/../b" },
		"UTF-8":         func(c *Claim) { c.Cwd = "/\xff" },
		"mode":          func(c *Claim) { c.Mode = "exclusive" },
		"out of range":  func(c *Claim) { c.CreatedAt = noon.AddDate(9000, 0, 0) },
	} {
		r, h := newRegistry(t)
		c := claim(1, "/a", ReadOnly)
		change(&c)
		if err := r.Acquire(t.Context(), c); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
		if _, err := os.Lstat(h.Dir()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was made", says)
		}
	}
}

func TestReleaseFreesTheFolder(t *testing.T) {
	r, h := newRegistry(t)
	first, second := claim(1, "/a", ExclusiveWrite), claim(2, "/a/b", ExclusiveWrite)
	if _, found, err := r.Release(t.Context(), first.TaskID); found || err != nil {
		t.Errorf("nothing to release: %t, %v", found, err)
	}
	if _, err := os.Lstat(h.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Error("releasing nothing made something")
	}
	if err := r.Acquire(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	got, found, err := r.Release(t.Context(), first.TaskID)
	if diff := cmp.Diff(first, got); !found || err != nil || diff != "" {
		t.Errorf("%t, %v\n%s", found, err, diff)
	}
	if _, found, err := r.Release(t.Context(), first.TaskID); found || err != nil {
		t.Errorf("the second time: %t, %v", found, err)
	}
	if err := r.Acquire(t.Context(), second); err != nil {
		t.Errorf("the folder is not free: %v", err)
	}
}

func TestHolders(t *testing.T) {
	r, h := newRegistry(t)
	check := func(want map[string]bool) {
		t.Helper()
		got, err := r.Holders()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	check(map[string]bool{}) // there is no folder yet
	a, b := claim(1, "/src/a", ExclusiveWrite), claim(2, "/src/b", ExclusiveWrite)
	for _, c := range []Claim{a, b} {
		if err := r.Acquire(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(h.ClaimFile(a.TaskID), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(map[string]bool{a.TaskID: true, b.TaskID: true}) // one that cannot be read is one
	if _, _, err := r.Release(t.Context(), b.TaskID); err != nil {
		t.Fatal(err)
	}
	check(map[string]bool{a.TaskID: true})
}

func TestCreatedAtIsFilledIn(t *testing.T) {
	r, _ := newRegistry(t)
	c := claim(1, "/a", ReadOnly)
	c.CreatedAt = time.Time{}
	if err := r.Acquire(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got, _, err := r.Get(c.TaskID); err != nil || got.CreatedAt.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFileFormat(t *testing.T) {
	r, h := newRegistry(t)
	if err := r.Acquire(t.Context(), claim(10, "/a b", ExclusiveWrite)); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(h.Dir() + "/claims/dsh_00000000000a.json")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"format":1,"taskId":"dsh_00000000000a","sessionId":"session-10","cwd":"/a b","mode":"exclusive-write","createdAt":"2026-01-02T12:00:10Z"}` + "\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

// A claim that cannot be read could be on any folder, so nobody gets a new one; what can be read is still shown and
// can be released.
func TestAClaimThatCannotBeReadFailsClosed(t *testing.T) {
	for name, content := range map[string]string{
		"torn":       `{"format":1,`,
		"newer":      `{"format":2}`,
		"misplaced":  `{"taskId":"dsh_000000000003","sessionId":"s","cwd":"/z","mode":"read-only","createdAt":"2026-01-02T12:00:00Z"}`,
		"wrong mode": `{"taskId":"dsh_000000000002","sessionId":"s","cwd":"/z","mode":"all","createdAt":"2026-01-02T12:00:00Z"}`,
		"too large":  strings.Repeat(" ", maxFileBytes+1),
	} {
		t.Run(name, func(t *testing.T) {
			r, h := newRegistry(t)
			good := claim(1, "/a", ExclusiveWrite)
			if err := r.Acquire(t.Context(), good); err != nil {
				t.Fatal(err)
			}
			bad := claim(2, "", "").TaskID
			if err := os.WriteFile(h.ClaimFile(bad), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, getErr := r.Get(bad)
			_, _, releaseErr := r.Release(t.Context(), bad)
			all, listErr := r.List()
			for what, err := range map[string]error{
				"get": getErr, "release": releaseErr, "list": listErr,
				"acquire": r.Acquire(t.Context(), claim(3, "/b", ReadOnly)),
			} {
				if file, ok := errors.AsType[*FileError](err); !ok || file.TaskID != bad || file.Path != h.ClaimFile(bad) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if diff := cmp.Diff([]Claim{good}, all); diff != "" {
				t.Error(diff)
			}
			if _, found, err := r.Release(t.Context(), good.TaskID); !found || err != nil {
				t.Errorf("the good claim is not released: %t, %v", found, err)
			}
			if _, err := os.Lstat(h.ClaimFile(bad)); err != nil {
				t.Errorf("the bad file is gone: %v", err)
			}
		})
	}
}

func TestAClaimWaitsForTheRegistryLock(t *testing.T) {
	r, h := newRegistry(t)
	lock := h.Lock(h.RegistryLock())
	if err := lock.Acquire(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
	hurried := Open(h, time.Millisecond)
	if _, ok := errors.AsType[*home.LockTimeoutError](hurried.Acquire(t.Context(), claim(1, "/a", ReadOnly))); !ok {
		t.Error("the lock of another process was not honoured")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Acquire(ctx, claim(1, "/a", ReadOnly)) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := r.Acquire(t.Context(), claim(1, "/a", ReadOnly)); err != nil {
		t.Error(err)
	}
}

// Many tasks want overlapping folders at once, through registries that know nothing of each other. One gets its claim
// and all others are told of that one.
func TestOneOfManyWins(t *testing.T) {
	_, h := newRegistry(t)
	folders := []string{"/", "/a", "/a/b", "/a/b/c"}
	var winner atomic.Value
	var conflicts []*ConflictError
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			c := claim(n, folders[n%len(folders)], ExclusiveWrite)
			err := Open(h, patience).Acquire(t.Context(), c)
			if err == nil {
				if !winner.CompareAndSwap(nil, c.TaskID) {
					t.Error("a second winner")
				}
				return
			}
			conflict, ok := errors.AsType[*ConflictError](err)
			if !ok {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			conflicts = append(conflicts, conflict)
		})
	}
	all.Wait()
	for _, c := range conflicts {
		if c.Holder.TaskID != winner.Load() {
			t.Errorf("%v, but the winner is %v", c, winner.Load())
		}
	}
}

// The registry does what a map with the rule of conflicts does, and never holds two claims that conflict.
func TestRegistryFollowsTheRule(t *testing.T) {
	var n int
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		n++
		h, err := home.Open(fmt.Sprintf("%s/%d", dir, n))
		if err != nil {
			rt.Fatal(err)
		}
		registries := []*Registry{Open(h, patience), Open(h, patience)}
		held := map[string]Claim{}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			r := rapid.SampledFrom(registries).Draw(rt, "process")
			task := rapid.IntRange(1, 4).Draw(rt, "task")
			c := claim(task, genPath(3).Draw(rt, "cwd"), rapid.SampledFrom([]Mode{ExclusiveWrite, ReadOnly}).Draw(rt, "mode"))
			mine, has := held[c.TaskID]
			if rapid.IntRange(0, 3).Draw(rt, "release") == 0 {
				got, found, err := r.Release(t.Context(), c.TaskID)
				if err != nil || found != has || !cmp.Equal(got, mine) {
					rt.Fatalf("released %+v, %t, %v, want %+v, %t", got, found, err, mine, has)
				}
				delete(held, c.TaskID)
				continue
			}
			blocked := false
			for _, o := range held {
				blocked = blocked || conflicts(c, o)
			}
			err := r.Acquire(t.Context(), c)
			_, isHeld := errors.AsType[*HeldError](err)
			_, isConflict := errors.AsType[*ConflictError](err)
			switch {
			case has && mine != c:
				if !isHeld {
					rt.Fatalf("has %+v, wants %+v: %v", mine, c, err)
				}
			case !has && blocked:
				if !isConflict {
					rt.Fatalf("%+v among %+v: %v", c, held, err)
				}
			default:
				if err != nil {
					rt.Fatal(err)
				}
				held[c.TaskID] = c
			}
		}
		all, err := registries[0].List()
		if err != nil {
			rt.Fatal(err)
		}
		listed := map[string]Claim{}
		for i, a := range all {
			listed[a.TaskID] = a
			for _, b := range all[i+1:] {
				if conflicts(a, b) {
					rt.Fatalf("%+v and %+v are both held", a, b)
				}
			}
		}
		if diff := cmp.Diff(held, listed); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// Whatever is read is a claim that can be written again.
func FuzzDecode(f *testing.F) {
	data, err := encode(claim(1, "/a", ReadOnly))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(`{"taskId":"dsh_0123456789ab","sessionId":"s","cwd":"/\ud800","mode":"read-only","createdAt":"9999-12-31T23:59:59-01:00"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decode(data)
		if err != nil {
			return
		}
		again, err := encode(c)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if got, err := decode(again); err != nil || !cmp.Equal(c, got) {
			t.Fatalf("%q became %q: %v", data, again, err)
		}
	})
}
