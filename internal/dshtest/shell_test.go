package dshtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestShell(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		line string
		want output
	}{
		{"", output{}},
		{"echo hello world", output{"hello world\n", 0}},
		{`echo 'a  b' "c d"`, output{"a  b c d\n", 0}},
		{"true", output{}},
		{"false", output{"", 1}},
		{"make everything", output{}},
		{"echo a; false", output{"a\n", 1}},
		{"false; echo a", output{"a\n", 0}},
		{"false && echo a", output{"", 1}},
		{"true && echo a && echo b", output{"a\nb\n", 0}},
		{"exit 3; echo a", output{"", 3}},
		{"exit x", output{}},
		{"sleep 0.001; echo slept", output{"slept\n", 0}},
		{"sleep forever", output{}},
		{"sleep -1", output{}},
		{"until [ -e " + there + " ]; do sleep 0.1; done; echo there", output{"there\n", 0}},
		{"until make; do sleep 0.001; done", output{}},
		{`echo "unfinished`, output{"unfinished\n", 0}},
	}
	for _, tt := range tests {
		got, ok := New(Options{}).shell(t.Context(), project, tt.line)
		if !ok || got != tt.want {
			t.Errorf("%q = %+v, %v", tt.line, got, ok)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, line := range []string{"sleep 3600; echo a", "until [ -e nothing ]; do sleep 1; done"} {
		if _, ok := New(Options{}).shell(ended, project, line); ok {
			t.Errorf("%q was stopped and ended well", line)
		}
	}
}

// The scripted touch makes files below the one directory it was given, and nowhere else.
func TestTouchStaysInside(t *testing.T) {
	base := t.TempDir()
	inside, outside := filepath.Join(base, "in"), filepath.Join(base, "out")
	for _, dir := range []string{inside, outside, filepath.Join(inside, "sub")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(inside, "link")); err != nil {
		t.Fatal(err)
	}
	h := New(Options{AllowWrites: inside})
	line := strings.Join([]string{
		"touch a sub/b " + filepath.Join(inside, "c"), "touch ../out/d", "touch link/e", "touch " + filepath.Join(outside, "f"),
	}, " && ")
	if _, ok := h.shell(t.Context(), inside, line); !ok {
		t.Fatal("not run")
	}
	for path, want := range map[string]bool{"in/a": true, "in/sub/b": true, "in/c": true, "out/d": false, "out/e": false, "out/f": false} {
		if _, err := os.Stat(filepath.Join(base, path)); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, ok := New(Options{}).shell(t.Context(), inside, "touch g"); !ok {
		t.Fatal("not run")
	}
	if _, err := os.Stat(filepath.Join(inside, "g")); err == nil {
		t.Error("a host without AllowWrites made a file")
	}
}

func FuzzCommands(f *testing.F) {
	f.Add("echo 'a b' && touch x; sleep 1")
	f.Add(`echo "`)
	f.Add("&&&;;&")
	f.Fuzz(func(t *testing.T, line string) {
		for _, c := range commands(line) {
			for _, w := range c.words {
				if len(w) > 3*len(line) { // a broken byte becomes three
					t.Fatalf("%q holds the word %q", line, w)
				}
			}
		}
	})
}
