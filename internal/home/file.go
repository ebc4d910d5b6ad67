package home

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// ErrTooLarge is what [Home.ReadFile] returns for a file above the caller's limit.
var ErrTooLarge = errors.New("file is larger than it may be")

// WriteFile replaces the file at path, which is below the home, by one with exactly data in it, mode 0600. A reader
// sees the old content or the new, never a mixture, and when WriteFile returns nil the new content survives a loss of
// power. Missing folders are made. A process killed inside WriteFile may leave a temporary file beside path whose
// name begins with a dot.
func (h *Home) WriteFile(path string, data []byte) error {
	if err := h.parent(path, true); err != nil {
		return err
	}
	if err := plainOrAbsent(path); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	// Without a folder of ours renameio would try the system's temporary one, where others can look.
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(filePerm))
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return err
	}
	// renameio syncs the file but not the folder: without this the rename itself can be lost.
	return syncFolder(dir)
}

// ReadFile reads the file at path, which is below the home. A file of more than maxBytes is [ErrTooLarge], a missing
// one [fs.ErrNotExist].
func (h *Home) ReadFile(path string, maxBytes int64) ([]byte, error) {
	f, err := h.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > maxBytes {
		return nil, fmt.Errorf("%s: %w (%d bytes)", path, ErrTooLarge, maxBytes)
	}
	return data, nil
}

// OpenFile opens the plain file at path, which is below the home, with the flags of [os.OpenFile]. With os.O_CREATE a
// missing file is made with mode 0600, and so are the folders it is in. A symbolic link is never followed, and a pipe
// or a device is refused without waiting for it.
func (h *Home) OpenFile(path string, flag int) (*os.File, error) {
	if err := h.parent(path, flag&os.O_CREATE != 0); err != nil {
		return nil, err
	}
	return openPlain(path, flag)
}

// Remove removes the plain file at path, which is below the home, and makes that last. A missing one is
// [fs.ErrNotExist].
func (h *Home) Remove(path string) error {
	if err := h.parent(path, false); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if err := checkFile(path, info); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// Names lists what is in the folder dir, which is the home or below it, in lexical order. It is empty when there is
// no such folder.
func (h *Home) Names(dir string) ([]string, error) {
	below, err := h.below(dir)
	if err != nil {
		return nil, err
	}
	if err := h.folders(below, false); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// openPlain opens a plain file without following a link and without waiting for a pipe's other end.
func openPlain(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, filePerm)
	if errors.Is(err, syscall.ELOOP) {
		return nil, symlinkError(path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkFile(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func plainOrAbsent(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return checkFile(path, info)
}

// syncFolder makes the names in a folder last. File systems that cannot sync a folder keep its names by other means
// or not at all; there is nothing to be done about that here.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
