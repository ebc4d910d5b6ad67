package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
)

// maxFileBytes bounds what is read of a configuration. Claude Code's own file grows to some megabytes over the years.
const maxFileBytes = 64 << 20

// maxBackups bounds the backups of one second.
const maxBackups = 100

// file is a file as it was found.
type file struct {
	path   string
	exists bool
	data   []byte
	mode   fs.FileMode // of the file, or the one to make it with
}

// readFile reads a file that may be missing; one that is made gets the mode, less the umask.
func readFile(path string, mode fs.FileMode) (file, error) {
	f := file{path: path, mode: mode}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return f, err
	case info.Mode()&fs.ModeSymlink != 0:
		return f, &RefusedError{path, "is a symbolic link, which would be replaced by a file", "name the folder it points into, or edit the file by hand (--print shows the entry)"}
	case !info.Mode().IsRegular():
		return f, &RefusedError{path, "is no plain file", "move it away"}
	case info.Size() > maxFileBytes:
		return f, &RefusedError{path, fmt.Sprintf("has %d bytes, more than the %d that are read", info.Size(), maxFileBytes), "edit it by hand"}
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return f, &RefusedError{path, fmt.Sprintf("belongs to user id %d, not to %d who runs this", stat.Uid, os.Geteuid()), "run this as its owner"}
	}
	f.exists, f.mode = true, info.Mode().Perm()
	opened, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return f, err
	}
	defer opened.Close()
	f.data, err = io.ReadAll(io.LimitReader(opened, maxFileBytes))
	return f, err
}

// Applied tells what was done to a file.
type Applied struct {
	Path   string `json:"path"`
	Action Action `json:"action"`
	Backup string `json:"backup,omitempty"`
}

// Apply writes the plan, file by file: a backup beside one that is there, then the file, atomically, which is read again. When it fails, what was done by then is returned along with the error.
func (p *Plan) Apply(now time.Time) ([]Applied, error) {
	var done []Applied
	for _, c := range p.Changes {
		applied, err := c.apply(now)
		if err != nil {
			return done, err
		}
		done = append(done, applied)
	}
	return done, nil
}

func (c Change) apply(now time.Time) (Applied, error) {
	applied := Applied{Path: c.Path, Action: c.Action}
	if c.Action == Keep {
		return applied, nil
	}
	if err := os.MkdirAll(filepath.Dir(c.Path), folderMode(c.seen.mode)); err != nil {
		return applied, err
	}
	var err error
	if c.seen.exists && !c.ours {
		if applied.Backup, err = backup(c.seen, now); err != nil {
			return applied, err
		}
	}
	// The caller may run and write the same file. What came between is not lost, it is looked at again.
	current, err := readFile(c.Path, c.seen.mode)
	if err != nil {
		return applied, err
	}
	if current.exists != c.seen.exists || !bytes.Equal(current.data, c.seen.data) {
		return applied, &RefusedError{c.Path, "was changed by somebody else in this moment", "run the command again"}
	}
	if c.Action == Remove {
		err := os.Remove(c.Path)
		if err == nil && c.ours {
			_ = os.Remove(filepath.Dir(c.Path)) // the skill's own folder, unless something else is in it
		}
		return applied, err
	}
	if err := c.write(); err != nil {
		return applied, err
	}
	written, err := readFile(c.Path, c.seen.mode)
	if err == nil && !bytes.Equal(written.data, c.After) {
		err = errors.New("it has other bytes than were written")
	}
	if err == nil {
		err = c.verify(written.data)
	}
	if err != nil {
		return applied, fmt.Errorf("%s was written and does not read back: %w (a copy of it as it was: %q)", c.Path, err, applied.Backup)
	}
	return applied, nil
}

// folderMode lets those enter a folder who may read the file in it.
func folderMode(mode fs.FileMode) fs.FileMode {
	if mode&0o077 == 0 {
		return 0o700
	}
	return 0o755
}

func (c Change) write() error {
	mode := renameio.WithPermissions(c.seen.mode)
	if c.seen.exists {
		mode = renameio.WithStaticPermissions(c.seen.mode)
	}
	pending, err := renameio.NewPendingFile(c.Path, renameio.WithTempDir(filepath.Dir(c.Path)), mode)
	if err != nil {
		return err
	}
	defer pending.Cleanup()
	if _, err := pending.Write(c.After); err != nil {
		return err
	}
	return pending.CloseAtomicallyReplace()
}

// backup copies a file beside itself, under a name that tells the time, and returns that name.
func backup(f file, now time.Time) (string, error) {
	base := f.path + "." + now.UTC().Format("20060102T150405Z")
	for i := range maxBackups {
		path := base + ".bak"
		if i > 0 {
			path = fmt.Sprintf("%s.%d.bak", base, i)
		}
		to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, f.mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = to.Write(f.data)
		if err == nil {
			err = to.Sync()
		}
		return path, errors.Join(err, to.Close())
	}
	return "", fmt.Errorf("%s: there are %d backups of this second", base, maxBackups)
}
