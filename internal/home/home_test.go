package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const taskID = "dsh_0123456789ab"

// newHome returns a home that does not exist yet.
func newHome(t *testing.T) *Home {
	t.Helper()
	h, err := Open(filepath.Join(t.TempDir(), "a", "agentlink"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wantUnsafe(t *testing.T, err error, part string) {
	t.Helper()
	unsafe, ok := errors.AsType[*UnsafeError](err)
	if !ok || !strings.Contains(unsafe.Error(), part) {
		t.Errorf("got error %v, want an *UnsafeError that says %q", err, part)
	}
}

func TestOpenTouchesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	h, err := Open(dir + "/")
	if err != nil {
		t.Fatal(err)
	}
	if h.Dir() != dir {
		t.Errorf("Dir is %s, want %s", h.Dir(), dir)
	}
	if names, err := h.Names(h.TasksDir()); err != nil || names != nil {
		t.Errorf("names of a missing folder: %v, %v", names, err)
	}
	if _, err := h.ReadFile(h.TaskFile(taskID), 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading in a missing home: %v", err)
	}
	if err := h.Remove(h.TaskFile(taskID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removing in a missing home: %v", err)
	}
	if _, err := os.Lstat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	link := filepath.Join(dir, "link")
	open := filepath.Join(dir, "open")
	for _, err := range []error{
		os.WriteFile(file, nil, 0o600),
		os.Symlink(dir, link),
		os.Mkdir(open, 0o700),
		os.Chmod(open, 0o777),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ dir, says string }{
		{"", "not an absolute path"},
		{"agentlink", "not an absolute path"},
		{"~/agentlink", "not an absolute path"},
		{"/", "root of the file system"},
		{file, "not a folder"},
		{link, "symbolic link"},
		{link + "/", "symbolic link"},
		{open, "written to by everybody"},
	} {
		_, err := Open(c.dir)
		wantUnsafe(t, err, c.says)
	}
	if _, err := Open(filepath.Join(file, "below")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a home below a file: %v", err)
	}
}

func TestOpenRefusesAnotherUsersFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chown(dir, os.Geteuid()+1, -1); err != nil {
		t.Skipf("giving a folder away takes more rights than this test has: %v", err)
	}
	_, err := Open(dir)
	wantUnsafe(t, err, "belongs to user id")
}

func TestPaths(t *testing.T) {
	h, err := Open("/h")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{h.TaskFile(taskID), h.ClaimFile(taskID), h.RegistryLock(), h.LedgerDir(taskID)}
	want := []string{
		"/h/tasks/dsh_0123456789ab.json",
		"/h/claims/dsh_0123456789ab.json",
		"/h/claims/registry.lock",
		"/h/ledgers/dsh_0123456789ab",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFoldersAndFilesArePrivate(t *testing.T) {
	h := newHome(t)
	path := h.LedgerDir(taskID) + "/checkpoint.json"
	if err := h.WriteFile(path, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]fs.FileMode{
		filepath.Dir(h.Dir()): 0o700 | fs.ModeDir,
		h.Dir():               0o700 | fs.ModeDir,
		h.LedgersDir():        0o700 | fs.ModeDir,
		h.LedgerDir(taskID):   0o700 | fs.ModeDir,
		path:                  0o600,
	} {
		info, err := os.Lstat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", p, info.Mode(), want)
		}
	}
}

func TestWriteFileReplacesWholeFiles(t *testing.T) {
	h := newHome(t)
	path := h.TaskFile(taskID)
	if err := h.WriteFile(path, []byte("a long first content")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := h.WriteFile(path, []byte("second")); err != nil {
		t.Fatal(err)
	}
	if got, err := h.ReadFile(path, 100); err != nil || string(got) != "second" {
		t.Errorf("read %q, %v", got, err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	first := make([]byte, 20)
	if _, err := old.ReadAt(first, 0); err != nil || string(first) != "a long first content" {
		t.Errorf("a reader from before sees %q, %v", first, err)
	}
	if names, err := h.Names(h.TasksDir()); err != nil || len(names) != 1 {
		t.Errorf("beside the file there is %v, %v", names, err)
	}
}

func TestReadFileIsBounded(t *testing.T) {
	h := newHome(t)
	path := h.TaskFile(taskID)
	if err := h.WriteFile(path, []byte("12345")); err != nil {
		t.Fatal(err)
	}
	if got, err := h.ReadFile(path, 5); err != nil || string(got) != "12345" {
		t.Errorf("at the limit: %q, %v", got, err)
	}
	if _, err := h.ReadFile(path, 4); !errors.Is(err, ErrTooLarge) {
		t.Errorf("above the limit: %v", err)
	}
}

func TestRemove(t *testing.T) {
	h := newHome(t)
	path := h.ClaimFile(taskID)
	if err := h.WriteFile(path, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Remove(path); err != nil {
		t.Error(err)
	}
	if err := h.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the second time: %v", err)
	}
}

// Each operation meets a symbolic link at each place below the home, and none follows it.
func TestLinksAreNotFollowed(t *testing.T) {
	operations := map[string]func(h *Home, path string) error{
		"write": func(h *Home, path string) error { return h.WriteFile(path, []byte("x")) },
		"read":  func(h *Home, path string) error { _, err := h.ReadFile(path, 10); return err },
		"append": func(h *Home, path string) error {
			_, err := h.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY)
			return err
		},
		"remove": func(h *Home, path string) error { return h.Remove(path) },
		"lock":   func(h *Home, path string) error { return h.Lock(path).Acquire(t.Context(), 0) },
	}
	for name, operation := range operations {
		for _, linked := range []string{"", "/ledgers", "/ledgers/" + taskID, "/ledgers/" + taskID + "/file"} {
			t.Run(name+" through home"+linked, func(t *testing.T) {
				outside := t.TempDir()
				target := filepath.Join(outside, "target")
				h := newHome(t)
				place := h.Dir() + linked
				path := h.LedgerDir(taskID) + "/file"
				if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
					t.Fatal(err)
				}
				if place == path {
					if err := os.WriteFile(target, []byte("theirs"), 0o600); err != nil {
						t.Fatal(err)
					}
				} else if err := os.MkdirAll(target+strings.TrimPrefix(h.LedgerDir(taskID), place), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(target, place); err != nil {
					t.Fatal(err)
				}
				before := tree(t, outside)
				wantUnsafe(t, operation(h, path), "symbolic link")
				if diff := cmp.Diff(before, tree(t, outside)); diff != "" {
					t.Errorf("something outside changed:\n%s", diff)
				}
			})
		}
	}
}

// tree lists the files below dir with their contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			all[path] = ""
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPipesAndFoldersAreNoFiles(t *testing.T) {
	h := newHome(t)
	if err := h.WriteFile(h.TaskFile(taskID), nil); err != nil {
		t.Fatal(err)
	}
	pipe := h.TasksDir() + "/pipe"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, h.TasksDir()} {
		_, err := h.ReadFile(path, 10)
		wantUnsafe(t, err, "not a plain file")
		wantUnsafe(t, h.WriteFile(path, nil), "not a plain file")
		wantUnsafe(t, h.Remove(path), "not a plain file")
	}
	wantUnsafe(t, h.Lock(pipe).Acquire(t.Context(), 0), "not a plain file")
	wantUnsafe(t, h.WriteFile(h.Dir(), nil), "folder itself")
}

// Whatever an id holds, nothing outside the home is written, read or removed with it.
func TestPathsNeverLeaveTheHome(t *testing.T) {
	h := newHome(t)
	outside := filepath.Dir(filepath.Dir(h.Dir()))
	if err := h.WriteFile(h.TaskFile(taskID), []byte("x")); err != nil {
		t.Fatal(err)
	}
	part := rapid.OneOf(rapid.SampledFrom([]string{"..", ".", "", "tasks", "agentlink", "x\x00y"}), rapid.StringN(0, 4, 16))
	rapid.Check(t, func(rt *rapid.T) {
		id := strings.Join(rapid.SliceOfN(part, 1, 6).Draw(rt, "id"), "/")
		path := rapid.SampledFrom([]string{h.TaskFile(id), h.LedgerDir(id), h.Dir() + "/" + id, id}).Draw(rt, "path")
		err := h.WriteFile(path, []byte("x"))
		if err == nil {
			if rel, e := filepath.Rel(h.Dir(), path); e != nil || !filepath.IsLocal(rel) || filepath.Clean(path) != path {
				rt.Fatalf("wrote %q", path)
			}
			_ = h.Remove(path)
		}
		for file := range tree(t, outside) {
			if file != outside && file != filepath.Dir(h.Dir()) && file != h.Dir() && !strings.HasPrefix(file, h.Dir()+"/") {
				rt.Fatalf("%q made %s", path, file)
			}
		}
	})
}

func TestWrittenIsRead(t *testing.T) {
	h := newHome(t)
	rapid.Check(t, func(rt *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(rt, "data")
		if err := h.WriteFile(h.TaskFile(taskID), data); err != nil {
			rt.Fatal(err)
		}
		got, err := h.ReadFile(h.TaskFile(taskID), int64(len(data)))
		if err != nil || string(got) != string(data) {
			rt.Fatalf("wrote %q, read %q, %v", data, got, err)
		}
	})
}
