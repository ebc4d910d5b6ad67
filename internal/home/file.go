package home

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

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
	if err := h.plainOrAbsent(path); err != nil {
		return err
	}
	if err := h.replace(path, data); err != nil {
		return err
	}
	// renameio syncs the file but not the folder: without this the rename itself can be lost.
	return h.disk.syncFolder(filepath.Dir(path))
}

// replace puts a synced file with data in it in the place of the one at path.
func (h *Home) replace(path string, data []byte) (err error) {
	if err := h.disk.fault(OpOpen, path); err != nil {
		return err
	}
	// Without a folder of ours renameio would try the system's temporary one, where others can look.
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(filePerm))
	if err != nil {
		return about(OpOpen, path, err)
	}
	defer func() {
		if err != nil {
			h.discard(f, path)
		}
	}()
	if _, err := h.disk.write(path, data, f.Write); err != nil {
		return about(OpWrite, path, err)
	}
	for _, op := range []Op{OpSync, OpRename} { // both are done by the call below
		if err := h.disk.fault(op, path); err != nil {
			return err
		}
	}
	return about(OpRename, path, f.CloseAtomicallyReplace())
}

// discard closes the temporary file for path and removes it. That it stays when the disk refuses harms nobody: it is
// never read.
func (h *Home) discard(f *renameio.PendingFile, path string) {
	if h.disk.fault(OpRemove, path) != nil {
		_ = f.File.Close()
		return
	}
	_ = f.Cleanup()
}

// ReadFile reads the file at path, which is below the home. A file of more than maxBytes is [ErrTooLarge], a missing
// one [fs.ErrNotExist].
func (h *Home) ReadFile(path string, maxBytes int64) ([]byte, error) {
	f, err := h.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := h.disk.fault(OpRead, path); err != nil {
		return nil, err
	}
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
	return h.disk.open(path, flag)
}

// Stat describes what is at path, which is below the home, without following a link there. The folders above it are
// not looked at: that is for the call that opens it.
func (h *Home) Stat(path string) (fs.FileInfo, error) {
	if _, err := h.below(path); err != nil {
		return nil, err
	}
	return h.disk.lstat(path)
}

// Remove removes the plain file at path, which is below the home, and makes that last. A missing one is
// [fs.ErrNotExist].
func (h *Home) Remove(path string) error {
	if err := h.parent(path, false); err != nil {
		return err
	}
	info, err := h.disk.lstat(path)
	if err != nil {
		return err
	}
	if err := checkFile(path, info); err != nil {
		return err
	}
	if err := h.disk.remove(path); err != nil {
		return err
	}
	return h.disk.syncFolder(filepath.Dir(path))
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
	entries, err := h.disk.list(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (h *Home) plainOrAbsent(path string) error {
	info, err := h.disk.lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return checkFile(path, info)
}
