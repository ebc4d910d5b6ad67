package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// maxKept bounds how many names are tried for files that were put aside in the same second.
const maxKept = 100

// Keep gives the file at path, which is below the home, a second name beside it, and returns that. The name tells why
// and when; what is written to path afterwards by [Home.WriteFile] leaves the kept file as it was. A missing file is
// [fs.ErrNotExist].
func (h *Home) Keep(path, why string, now time.Time) (kept string, err error) {
	return h.aside(path, why, now, func(as string) error {
		if err := h.disk.fault(OpLink, path); err != nil {
			return err
		}
		return about(OpLink, path, os.Link(path, as))
	})
}

// MoveAside renames the file or folder at path, which is below the home, to a name that tells why and when, and returns
// that. Nothing is overwritten. A missing one is [fs.ErrNotExist].
func (h *Home) MoveAside(path, why string, now time.Time) (moved string, err error) {
	return h.aside(path, why, now, func(as string) error {
		if _, err := h.disk.lstat(as); err == nil {
			return fs.ErrExist
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err // a rename would overwrite what may be there
		}
		if err := h.disk.fault(OpRename, path); err != nil {
			return err
		}
		return about(OpRename, path, os.Rename(path, as))
	})
}

func (h *Home) aside(path, why string, now time.Time, put func(as string) error) (string, error) {
	if err := h.parent(path, false); err != nil {
		return "", err
	}
	if _, err := h.disk.lstat(path); err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s.%s-%s", path, why, now.UTC().Format("20060102T150405Z"))
	for n := 1; n <= maxKept; n++ {
		as := name
		if n > 1 {
			as = fmt.Sprintf("%s-%d", name, n)
		}
		err := put(as)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return as, h.disk.syncFolder(filepath.Dir(path))
	}
	return "", fmt.Errorf("%s: there are %d files of that name already", name, maxKept)
}
