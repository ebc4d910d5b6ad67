package operator

import (
	"fmt"
	"io/fs"
	"os"

	"dsh-agentlink/internal/home"
	"dsh-agentlink/ledger"
)

// readOnlyDisk lets a ledger read its files and nothing else.
type readOnlyDisk struct{ home *home.Home }

var _ ledger.Disk = readOnlyDisk{}

func (d readOnlyDisk) OpenFile(path string) (ledger.File, error) {
	return d.home.OpenFile(path, os.O_RDONLY)
}

func (d readOnlyDisk) Stat(path string) (fs.FileInfo, error) { return os.Lstat(path) }

func (d readOnlyDisk) ReadFile(path string, maxBytes int64) ([]byte, error) {
	return d.home.ReadFile(path, maxBytes)
}

func (d readOnlyDisk) WriteFile(path string, _ []byte) error {
	return fmt.Errorf("%s: %w: this is a look only", path, fs.ErrPermission)
}
