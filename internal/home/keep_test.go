package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestKeep(t *testing.T) {
	h, err := Open(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	path := h.TaskFile("dsh_000000000001")
	if _, err := h.Keep(path, "damaged", noon); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	var kept []string
	for _, content := range []string{"first", "second"} {
		if err := h.WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		as, err := h.Keep(path, "damaged", noon)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, as)
	}
	if err := h.WriteFile(path, []byte("third")); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{path: "third", path + ".damaged-20261130T120000Z": "first", path + ".damaged-20261130T120000Z-2": "second"}
	if kept[0] == kept[1] {
		t.Errorf("two files are kept under one name, %s", kept[0])
	}
	for path, content := range want {
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%s holds %q (%v), want %q", path, got, err, content)
		}
	}
}

func TestMoveAside(t *testing.T) {
	h, err := Open(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	folder := h.RegistryLock()
	for range 2 {
		if err := os.MkdirAll(filepath.Join(folder, "inside"), 0o700); err != nil {
			t.Fatal(err)
		}
		moved, err := h.MoveAside(folder, "typescript", noon)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(moved, "inside")); err != nil {
			t.Errorf("what was inside is not there: %v", err)
		}
		if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", folder, err)
		}
	}
	if _, err := h.MoveAside(folder, "typescript", noon); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing to move: %v", err)
	}
	var unsafe *UnsafeError
	if _, err := h.MoveAside(h.Dir()+"/../elsewhere", "x", noon); !errors.As(err, &unsafe) {
		t.Errorf("a path outside: %v", err)
	}
}
