package home

// Op is a kind of operation on the disk.
type Op string

// The kinds of operations, as [WithFaults] is asked about them.
const (
	OpStat       Op = "stat"  // of a name, or of an open file
	OpList       Op = "list"  // reading the names in a folder
	OpOpen       Op = "open"  // and making: the path is the one that the file will have, also while it has a temporary one
	OpRead       Op = "read"  // one call of the caller's, whole files included
	OpWrite      Op = "write" // see [Torn]
	OpTruncate   Op = "truncate"
	OpSync       Op = "sync"        // of a file's content
	OpSyncFolder Op = "sync folder" // of the names in a folder
	OpRename     Op = "rename"      // the path is the new name where a temporary file gets it, else the old one
	OpLink       Op = "link"        // giving a file a second name
	OpMkdir      Op = "mkdir"
	OpRemove     Op = "remove" // temporary files that are not wanted any more included
	OpLock       Op = "lock"   // opening a lock file and locking it
)

// Option changes a home from the usual.
type Option func(*Home)

// WithFaults is for tests: meet is asked before every operation on the disk that goes through the home, and when it
// returns an error the operation is not done and fails with a [io/fs.PathError] around it, as it would with the
// system's. It may be called by many goroutines at once.
func WithFaults(meet func(op Op, path string) error) Option {
	return func(h *Home) { h.disk.meet = meet }
}

// Torn as the fault of an [OpWrite] lets half of the data reach the file before the write fails with Err.
type Torn struct{ Err error }

func (t Torn) Error() string { return t.Err.Error() }

func (t Torn) Unwrap() error { return t.Err }
