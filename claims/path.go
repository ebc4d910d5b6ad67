package claims

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"
)

// foldCase makes paths that differ in the case of letters only count as one folder. That is what the usual file
// systems of macOS do; on one of the others two such folders conflict without need, which is the safe side.
const foldCase = runtime.GOOS == "darwin"

// Canonical returns the one name of the folder cwd: absolute and without symbolic links. The error says why cwd
// cannot be worked in and what to give instead.
func Canonical(cwd string) (string, error) {
	if !filepath.IsAbs(cwd) {
		return "", fmt.Errorf("cwd %q is not an absolute path; give the full path of the folder to work in", cwd)
	}
	resolved, err := filepath.EvalSymlinks(cwd)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("cwd %q does not exist on this machine; create the folder first or give another", cwd)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("cwd %q cannot be reached by this user; give a folder that can", cwd)
	case err != nil:
		return "", fmt.Errorf("cwd %q cannot be resolved (%w); give the full path of an existing folder", cwd, err)
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return "", fmt.Errorf("cwd %q cannot be looked at (%w); give the full path of an existing folder", cwd, err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("cwd %q is not a folder; give the folder it is in", cwd)
	}
	if !utf8.ValidString(resolved) {
		// It would not survive being written as JSON, and a claim on another name than the folder's protects nothing.
		return "", fmt.Errorf("cwd %q has a name that is not UTF-8; rename the folder or give another", cwd)
	}
	return resolved, nil
}

// overlap reports whether a and b, clean absolute paths, are the same folder or one is somewhere inside the other.
func overlap(a, b string, fold bool) bool {
	as, bs := components(a), components(b)
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] && !(fold && strings.EqualFold(as[i], bs[i])) {
			return false
		}
	}
	return true
}

// components splits a clean absolute path; the root has none.
func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator })
}
