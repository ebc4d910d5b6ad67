// Package home is the bridge's folder on disk: where things are in it, and the only general way to read, replace and
// remove them.
//
// The folder may be shared by several bridge processes and outlives all of them, so a file is replaced whole and
// synced before anyone is told of it, a symbolic link below the folder is refused rather than followed, and a lock
// file is never removed. Nothing is opened, scanned or created before it is needed.
package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// What the folder holds is the business of one user.
const (
	dirPerm  fs.FileMode = 0o700
	filePerm fs.FileMode = 0o600
)

// Home is the bridge's folder. The zero value is not usable; get one from [Open]. Its methods may be called by many
// goroutines at once.
type Home struct {
	dir  string // absolute and clean
	disk disk
	// names has the folders that this process has looked after: true once the name of one is known to last, false
	// while one that was made here may still be lost.
	names sync.Map
}

// UnsafeError says that a path in the bridge's folder is not what it has to be (a symbolic link, another user's
// folder, something that is no plain file), so that it was not touched.
type UnsafeError struct {
	Path    string
	Problem string
	Fix     string // what a person can do about it; may be empty
}

func (e *UnsafeError) Error() string {
	s := fmt.Sprintf("%s %s", e.Path, e.Problem)
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Open names the folder at dir, an absolute path. A folder that does not exist yet is made by the first write. One
// that exists has to be a real folder of this user that not everybody can write to; otherwise the error is an
// *[UnsafeError].
func Open(dir string, opts ...Option) (*Home, error) {
	if !filepath.IsAbs(dir) {
		return nil, &UnsafeError{Path: fmt.Sprintf("%q", dir), Problem: "is not an absolute path", Fix: "give the folder's full path"}
	}
	h := &Home{dir: filepath.Clean(dir)}
	if h.dir == "/" {
		return nil, &UnsafeError{Path: h.dir, Problem: "is the root of the file system", Fix: "give the bridge a folder of its own"}
	}
	for _, o := range opts {
		o(h)
	}
	if err := h.checkRoot(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return h, nil
}

// Dir is the absolute path of the folder.
func (h *Home) Dir() string { return h.dir }

// The paths below are concatenated, not joined, so that an id with ".." in it stays visible and is refused when the
// path is used.

// TasksDir holds the task files.
func (h *Home) TasksDir() string { return h.dir + "/tasks" }

// TaskFile is the path of a task's mapping.
func (h *Home) TaskFile(id string) string { return h.TasksDir() + "/" + id + ".json" }

// LaunchLock is the path of the lock that a task is made under, by the digest of what identifies the making: one of 256,
// since a lock file is never removed.
func (h *Home) LaunchLock(digest string) string {
	return h.TasksDir() + "/launch-" + digest[:min(2, len(digest))] + ".lock"
}

// ClaimsDir holds the claim files and [Home.RegistryLock].
func (h *Home) ClaimsDir() string { return h.dir + "/claims" }

// ClaimFile is the path of a task's workspace claim.
func (h *Home) ClaimFile(id string) string { return h.ClaimsDir() + "/" + id + ".json" }

// RegistryLock is the path of the lock that a change of any claim is made under.
func (h *Home) RegistryLock() string { return h.ClaimsDir() + "/registry.lock" }

// RequestsDir holds what calls with a requestId came to, and the locks beside them.
func (h *Home) RequestsDir() string { return h.dir + "/requests" }

// RequestFile is the path of the entry of a requestId, by its digest.
func (h *Home) RequestFile(digest string) string { return h.RequestsDir() + "/" + digest + ".json" }

// RequestLock is the path of the lock that a call with that requestId is made under: one of 256, since a lock file is
// never removed.
func (h *Home) RequestLock(digest string) string {
	return h.RequestsDir() + "/" + digest[:min(2, len(digest))] + ".lock"
}

// LedgersDir holds a folder for each task that has a ledger.
func (h *Home) LedgersDir() string { return h.dir + "/ledgers" }

// LedgerDir is the path of the folder with a task's ledger.
func (h *Home) LedgerDir(id string) string { return h.LedgersDir() + "/" + id }

// checkRoot looks at the folder itself. It returns an error that is [fs.ErrNotExist] when there is none.
func (h *Home) checkRoot() error {
	info, err := h.disk.lstat(h.dir)
	if err != nil {
		return err
	}
	if err := checkFolder(h.dir, info); err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return &UnsafeError{
			Path:    h.dir,
			Problem: fmt.Sprintf("belongs to user id %d, not to %d who runs the bridge", stat.Uid, os.Geteuid()),
			Fix:     "choose another folder or run the bridge as its owner",
		}
	}
	if info.Mode().Perm()&0o002 != 0 {
		return &UnsafeError{Path: h.dir, Problem: "can be written to by everybody", Fix: "chmod 700 it or choose another folder"}
	}
	return nil
}

// checkFolder refuses everything that is no real folder.
func checkFolder(dir string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		return &UnsafeError{Path: dir, Problem: "is a symbolic link, which the bridge does not follow", Fix: "give the path it points to or replace it by a real folder"}
	}
	return &UnsafeError{Path: dir, Problem: "is not a folder", Fix: "move it away"}
}

// checkFile refuses everything that is no plain file.
func checkFile(path string, info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		return symlinkError(path)
	}
	return &UnsafeError{Path: path, Problem: "is not a plain file", Fix: "move it away"}
}

func symlinkError(path string) error {
	return &UnsafeError{Path: path, Problem: "is a symbolic link, which the bridge does not follow", Fix: "move it away"}
}

// below splits the part of path that is below the folder into its names, and refuses a path that is elsewhere or
// that tries to leave.
func (h *Home) below(path string) ([]string, error) {
	if path == h.dir {
		return nil, nil
	}
	rest, ok := strings.CutPrefix(path, h.dir+"/")
	if !ok {
		return nil, &UnsafeError{Path: fmt.Sprintf("%q", path), Problem: "is not inside " + h.dir}
	}
	names := strings.Split(rest, "/")
	for _, name := range names {
		if name == "" || name == "." || name == ".." || strings.ContainsRune(name, 0) {
			return nil, &UnsafeError{Path: fmt.Sprintf("%q", path), Problem: "is not a plain path inside " + h.dir}
		}
	}
	return names, nil
}

// parent checks every folder from the home down to the one that path is in, and with create makes those that are
// missing. Without it a missing one is an error that is [fs.ErrNotExist].
func (h *Home) parent(path string, create bool) error {
	names, err := h.below(path)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return &UnsafeError{Path: path, Problem: "is the bridge's folder itself"}
	}
	return h.folders(names[:len(names)-1], create)
}

func (h *Home) folders(names []string, create bool) error {
	err := h.checkRoot()
	if create && errors.Is(err, fs.ErrNotExist) {
		if err = h.makeAll(h.dir); err == nil {
			err = h.checkRoot()
		}
	}
	if err == nil && create {
		err = h.nameLasts(h.dir)
	}
	dir := h.dir
	for _, name := range names {
		if err != nil {
			return err
		}
		dir += "/" + name
		err = h.folder(dir, create)
	}
	return err
}

// folder checks one folder below the home, and with create makes the one that is missing.
func (h *Home) folder(dir string, create bool) error {
	info, err := h.disk.lstat(dir)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err = h.makeFolder(dir); err == nil {
			info, err = h.disk.lstat(dir)
		}
	}
	if err != nil {
		return err
	}
	if err := checkFolder(dir, info); err != nil || !create {
		return err
	}
	return h.nameLasts(dir)
}

// makeAll makes a folder and those above it. Links above the home are the user's own affair and are followed.
func (h *Home) makeAll(dir string) error {
	_, err := h.disk.lstat(dir)
	if err == nil {
		return h.nameLasts(dir)
	}
	if up := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && up != dir {
		if err = h.makeAll(up); err == nil {
			err = h.makeFolder(dir)
		}
	}
	return err
}

// makeFolder makes one folder, unless another process is faster, and makes its name last.
func (h *Home) makeFolder(dir string) error {
	switch err := h.disk.mkdir(dir); {
	case err == nil:
		h.names.Store(dir, false)
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	return h.nameLasts(dir)
}

// nameLasts makes the name of a folder last that may still be lost.
func (h *Home) nameLasts(dir string) error {
	lasts, seen := h.names.Load(dir)
	if seen && lasts == true || !seen && !strings.HasPrefix(dir, h.dir+"/") {
		return nil // the folders above the home are others' as long as they are there
	}
	// Whoever made it, a process that died or this one before a fault, may not have got to this.
	if err := h.disk.syncFolder(filepath.Dir(dir)); err != nil {
		return err
	}
	h.names.Store(dir, true)
	return nil
}
