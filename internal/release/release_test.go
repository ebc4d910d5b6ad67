package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/config"
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
}

func files(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "extra")
	if err := writeExtras(dir, time.Unix(1_700_000_000, 0)); err != nil {
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

// A bundle holds the binary, and says how to start it; two are equal to the byte.
func TestBundle(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "binary")
	if err := os.WriteFile(binary, []byte("a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	var made [2][]byte
	for i := range made {
		path := filepath.Join(dir, "x.mcpb")
		if err := writeBundle(binary, path, "1.2.3", time.Unix(1_700_000_000, 0)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		made[i] = data
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("two bundles of one binary differ")
	}
	z, err := zip.NewReader(bytes.NewReader(made[0]), int64(len(made[0])))
	if err != nil {
		t.Fatal(err)
	}
	var about struct {
		Version string
		Server  struct {
			EntryPoint string `json:"entry_point"`
		}
	}
	f, err := z.Open("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(f).Decode(&about); err != nil || about.Version != "1.2.3" {
		t.Errorf("the manifest is %+v (%v)", about, err)
	}
	info, err := fs.Stat(z, about.Server.EntryPoint)
	if err != nil || info.Mode().Perm() != 0o755 || info.Size() != int64(len("a program")) {
		t.Errorf("the binary: %v, %v", info, err)
	}
}

// The entry names each bundle with its digest, and every variable.
func TestServerJSON(t *testing.T) {
	const sums = "aa  dsh-agentlink_linux_amd64.tar.gz\nbb  dsh-agentlink_linux_amd64.mcpb\ncc  dsh-agentlink_darwin_arm64.mcpb\n"
	data, err := serverJSON("io.github.somebody/dsh-agentlink", "1.2.3", "https://github.com/somebody/dsh-agentlink/releases/download/v1.2.3/", strings.NewReader(sums))
	if err != nil {
		t.Fatal(err)
	}
	var s server
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		t.Fatal(err)
	}
	if len(s.Packages) != 2 || s.Packages[0].FileSha256 != "bb" || !strings.HasSuffix(s.Packages[1].Identifier, "/v1.2.3/dsh-agentlink_darwin_arm64.mcpb") {
		t.Errorf("packages: %+v", s.Packages)
	}
	if len(s.Packages[0].EnvironmentVariables) != len(config.Variables) || len(s.Description) > 100 {
		t.Errorf("%d variables, a description of %d characters", len(s.Packages[0].EnvironmentVariables), len(s.Description))
	}
	if _, err := serverJSON("n", "1", "b", strings.NewReader("aa  x.tar.gz\n")); err == nil {
		t.Error("a release without bundles has an entry")
	}
}
