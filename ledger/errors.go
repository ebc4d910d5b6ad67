package ledger

import "fmt"

// DamagedError says that a ledger file is not what this package writes. Nothing of it was changed.
type DamagedError struct {
	Path string
	// Line is the number of the bad line, from 1; 0 when the damage is not in a line.
	Line   int64
	Reason string
	// Newer is set when a newer program wrote the file: nothing is broken, and nothing must be repaired.
	Newer bool
	// Seen is the highest cursor that this process has read or written, as far as an operation on the ledger found the
	// damage; 0 for none. What stands in the file's place may know less.
	Seen int64
}

func (e *DamagedError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("ledger %s, line %d: %s", e.Path, e.Line, e.Reason)
	}
	return fmt.Sprintf("ledger %s: %s", e.Path, e.Reason)
}

// CursorError says that a cursor is not in the ledger.
type CursorError struct {
	Cursor int64
	// Earliest is the first cursor that can still be read from, as the value of "since": Earliest-1 is the lowest
	// cursor that reads without loss.
	Earliest int64
	// Last is the cursor of the last record.
	Last int64
}

// Expired reports whether the records behind the cursor have left the file; otherwise the cursor is ahead of it.
func (e *CursorError) Expired() bool { return e.Cursor < e.Earliest-1 }

func (e *CursorError) Error() string {
	if e.Expired() {
		return fmt.Sprintf("cursor %d has expired: the earliest record is %d", e.Cursor, e.Earliest)
	}
	return fmt.Sprintf("cursor %d is not in the ledger: its last record is %d", e.Cursor, e.Last)
}

// NotContiguousError says that the writer of a batch has not seen every event of a session since the last one
// recorded. Nothing was written; the writer has to read the history.
type NotContiguousError struct {
	SessionID string
	// From is the first seq the writer vouches for, Watermark the last one recorded.
	From, Watermark int64
}

func (e *NotContiguousError) Error() string {
	return fmt.Sprintf("events of session %s from seq %d do not follow the recorded seq %d", e.SessionID, e.From, e.Watermark)
}

// IssuedError says that a prompt which its caller may repeat was issued before, by this process or another. Nothing was
// written.
type IssuedError struct{ Issued Issued }

func (e *IssuedError) Error() string {
	return fmt.Sprintf("prompt %s was issued before, its outcome is %s", e.Issued.RequestID, e.Issued.Outcome)
}
