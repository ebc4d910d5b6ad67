package setup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLinksAreRefused(t *testing.T) {
	path := tomlFile(t, "a = 1\n")
	link := filepath.Join(t.TempDir(), "config.toml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if _, err := Codex(link, testServer, true); !errors.As(err, &refused) || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("got %v", err)
	}
	if _, err := Codex(filepath.Dir(path), testServer, true); !errors.As(err, &refused) || !strings.Contains(err.Error(), "no plain file") {
		t.Errorf("a folder: %v", err)
	}
	if read(t, path) != "a = 1\n" {
		t.Error("the file behind the link was changed")
	}
}

// What somebody else writes between the plan and the change is not lost.
func TestChangesInBetweenAreKept(t *testing.T) {
	path := tomlFile(t, "a = 1\n")
	plan, err := Codex(path, testServer, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("a = 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if _, err := plan.Apply(testTime); !errors.As(err, &refused) || !strings.Contains(err.Error(), "run the command again") {
		t.Errorf("got %v", err)
	}
	if read(t, path) != "a = 2\n" {
		t.Error("the other's change was overwritten")
	}
}

func TestBackupsNeverOverwrite(t *testing.T) {
	path := tomlFile(t, "a = 1\n")
	var backups []string
	for range 3 {
		plan, err := Codex(path, testServer, false)
		backups = append(backups, carry(t, plan, err)[0].Backup)
		plan, err = RemoveCodex(path)
		backups = append(backups, carry(t, plan, err)[0].Backup)
	}
	seen := map[string]bool{}
	for _, b := range backups {
		if seen[b] {
			t.Errorf("%s was written twice", b)
		}
		seen[b] = true
		if info, err := os.Stat(b); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v", b, info.Mode(), err)
		}
	}
	if got := read(t, backups[0]); got != "a = 1\n" || !strings.HasSuffix(backups[0], "config.toml.20260102T030405Z.bak") {
		t.Errorf("%s holds %q", backups[0], got)
	}
}
