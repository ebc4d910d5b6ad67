package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Two runs make the same files, with every command in them.
func TestExtras(t *testing.T) {
	first, second := files(t), files(t)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("two runs differ: %s", diff)
	}
	for _, name := range []string{"completions/dsh-agentlink.bash", "completions/dsh-agentlink.zsh", "completions/dsh-agentlink.fish", "man/dsh-agentlink.1",
		"man/dsh-agentlink-doctor.1", "man/dsh-agentlink-ledgers-recover.1", "man/dsh-agentlink-setup-codex.1"} {
		if first[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if !strings.Contains(first["man/dsh-agentlink.1"], "DSH_HOST_URL") {
		t.Error("the man page does not tell the environment")
	}
	if err := write("", time.Time{}); err == nil {
		t.Error("no folder is no error")
	}
}

func files(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "extra")
	if err := write(dir, time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
