package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Inspection is what a ledger's files hold, looked at without changing them.
type Inspection struct {
	Root string // the session that the ledger belongs to
	Size int64  // of the file in bytes, 0 when there is none
	// First and Last are the cursors of the first and the last record in the file; First is Last+1 when it has none.
	First, Last int64
	// Checkpoint is the cursor that the checkpoint covers, 0 for none.
	Checkpoint int64
	// UpdatedAt is when the last record was written, in milliseconds since the epoch.
	UpdatedAt int64
	// Torn is how many bytes lie behind the last whole line: one that is being written, or that a killed writer left.
	// The next append cuts it off.
	Torn int64
}

// Inspect reads the ledger in opts.Dir from its beginning and writes nothing; opts.Lock may be nil. Without opts.Root
// the ledger's own word is taken for it. A ledger that does not exist is the zero Inspection. With an error, which is a
// *DamagedError when the files are not what this package writes, Root and Size are still told as far as they are known.
func Inspect(opts Options) (Inspection, error) {
	l := Open(opts)
	defer l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := l.look()
	if info == nil {
		return Inspection{Root: opts.Root}, err
	}
	found := Inspection{Root: opts.Root, Size: info.Size()}
	if found.Root == "" {
		if found.Root, err = l.claimedRoot(); err != nil {
			return found, err
		}
		l.opts.Root, l.state = found.Root, newState(found.Root)
	}
	size, err := l.refresh()
	if err != nil {
		return found, err
	}
	found.Size, found.Torn = size, size-l.offset
	found.First, found.Last = l.after+1, l.state.Cursor
	found.Checkpoint, found.UpdatedAt = l.checkpoint, l.state.UpdatedAt
	return found, nil
}

// claimedRoot reads the root out of the file's first line.
func (l *Ledger) claimedRoot() (root string, err error) {
	file, err := l.opts.Disk.OpenFile(l.path)
	if err != nil {
		return "", fmt.Errorf("open ledger %s: %w", l.path, err)
	}
	l.file = file
	defer func() { err = errors.Join(err, l.closeFile()) }()
	err = l.scan(0, maxHeader, func(raw []byte, _ int64) error {
		var h header
		if json.Unmarshal(raw, &h) == nil {
			root = h.Root
		}
		return errStop
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	if err == nil && root == "" {
		err = &DamagedError{Path: l.path, Line: 1, Reason: "this is not the first line of a ledger"}
	}
	return root, err
}

// maxHeader is more than a header has: three short fields.
const maxHeader = 4096
