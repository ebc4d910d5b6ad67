package claims

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOverlapIsByComponents(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"/a/b", "/a/b", true},
		{"/a", "/a/b", true},
		{"/a", "/a/b/c/d", true},
		{"/", "/a/b", true},
		{"/", "/", true},
		{"/a/b", "/a/bc", false},
		{"/a/b", "/a/c", false},
		{"/a/b/c", "/a/c/c", false},
		{"/a", "/b", false},
		{"/a/B", "/a/b", false},
		{"/a/ b", "/a/b", false},
	} {
		if got := overlap(c.a, c.b, false); got != c.want {
			t.Errorf("%s and %s: %t, want %t", c.a, c.b, got, c.want)
		}
	}
	if !overlap("/Users/A", "/users/a/b", true) || overlap("/Users/A", "/users/ab", true) {
		t.Error("case is not folded as on macOS")
	}
}

func genPath(maxDepth int) *rapid.Generator[string] {
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "A", "ä"}), 0, maxDepth)
	return rapid.Map(names, func(names []string) string { return "/" + strings.Join(names, "/") })
}

// overlap is what the file tree says: one is an ancestor of the other, or they are one.
func TestOverlapMeansOneHoldsTheOther(t *testing.T) {
	holds := func(outer, inner string) bool {
		for ; ; inner = filepath.Dir(inner) {
			if inner == outer {
				return true
			}
			if inner == "/" {
				return false
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		a, b := genPath(5).Draw(rt, "a"), genPath(5).Draw(rt, "b")
		got := overlap(a, b, false)
		if want := holds(a, b) || holds(b, a); got != want {
			rt.Fatalf("%s and %s: %t, want %t", a, b, got, want)
		}
		if got != overlap(b, a, false) {
			rt.Fatalf("%s and %s: not the same the other way round", a, b)
		}
		if got && !overlap(a, b, true) {
			rt.Fatalf("%s and %s: folding case parts them", a, b)
		}
	})
}

func TestCanonical(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "folder")
	file := filepath.Join(root, "file")
	for _, err := range []error{
		os.Mkdir(folder, 0o700),
		os.WriteFile(file, nil, 0o600),
		os.Symlink("folder", filepath.Join(root, "link")),
		os.Symlink(root, filepath.Join(folder, "up")),
		os.Symlink("nowhere", filepath.Join(root, "dangling")),
		os.Symlink("loop", filepath.Join(root, "loop")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for cwd, want := range map[string]string{
		folder:                       folder,
		folder + "/":                 folder,
		root + "/./folder/../folder": folder,
		root + "/link":               folder,
		root + "/link/up/link":       folder,
		"/":                          "/",
	} {
		if got, err := Canonical(cwd); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", cwd, got, err, want)
		}
	}
	for cwd, says := range map[string]string{
		"":                   "not an absolute path",
		"folder":             "not an absolute path",
		"~/folder":           "not an absolute path",
		root + "/missing":    "does not exist",
		root + "/dangling":   "does not exist",
		root + "/loop":       "cannot be resolved",
		file:                 "not a folder",
		file + "/below":      "cannot be resolved",
		root + "/fol\x00der": "cannot be resolved",
	} {
		got, err := Canonical(cwd)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "give") {
			t.Errorf("%q: %q, %v, want an error that says %q and what to give", cwd, got, err, says)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "\xff"), 0o700); err == nil {
		if got, err := Canonical(root + "/\xff"); err == nil {
			t.Errorf("a name that JSON cannot hold became %q", got)
		}
	}
}

// The canonical name of a canonical name is itself, and it is one that a claim takes.
func TestCanonicalIsStable(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(root+"/a/b", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b", root+"/a/c"); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "..", "."}), 0, 6).Draw(rt, "steps")
		once, err := Canonical(root + "/" + strings.Join(steps, "/"))
		if err != nil {
			return
		}
		twice, err := Canonical(once)
		if err != nil || twice != once || filepath.Clean(once) != once {
			rt.Fatalf("%s became %s, %v", once, twice, err)
		}
	})
}
