// Package claims keeps the workspace claims: which task works in which folder, so that two tasks do not write to the
// same files unawares.
//
// A claim is an agreement between the bridges that share a home and nothing more. It keeps nobody from touching a
// file, and it has no bearing on what the host lets an agent do. It stays after a task's turn has ended, since a
// person can go on with the session, and ends only when it is released.
package claims

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"
	"unicode/utf8"

	"dsh-agentlink/internal/tasks"
)

// Format is the newest format of a claim file that this package reads, and the one it writes. A file without a format
// counts as the first.
const Format = 1

// Mode says what a task means to do in its folder.
type Mode string

// The modes of a claim.
const (
	// ExclusiveWrite goes with no other claim on the folder, on one above it or on one below it.
	ExclusiveWrite Mode = "exclusive-write"
	// ReadOnly goes with other read-only claims.
	ReadOnly Mode = "read-only"
)

// Valid reports whether m is one of the modes.
func (m Mode) Valid() bool { return m == ExclusiveWrite || m == ReadOnly }

// Claim is one task's claim on a folder.
type Claim struct {
	TaskID    string    `json:"taskId"`
	SessionID string    `json:"sessionId"`
	Cwd       string    `json:"cwd"` // as [Canonical] returns it
	Mode      Mode      `json:"mode"`
	CreatedAt time.Time `json:"createdAt"`
}

// fileClaim is a claim as it is in its file.
type fileClaim struct {
	Format int `json:"format,omitempty"`
	Claim
}

// Validate says what is wrong with c, or nil.
func (c Claim) Validate() error {
	switch {
	case !tasks.ValidID(c.TaskID):
		return fmt.Errorf("taskId %q is no task id", c.TaskID)
	case c.SessionID == "":
		return errors.New("sessionId is missing")
	case !filepath.IsAbs(c.Cwd) || filepath.Clean(c.Cwd) != c.Cwd:
		return fmt.Errorf("cwd %q is no absolute path in its shortest form", c.Cwd)
	case !utf8.ValidString(c.Cwd):
		return fmt.Errorf("cwd %q is not UTF-8", c.Cwd)
	case !c.Mode.Valid():
		return fmt.Errorf("mode %q is neither %q nor %q", c.Mode, ExclusiveWrite, ReadOnly)
	case c.CreatedAt.IsZero():
		return errors.New("createdAt is missing")
	}
	if year := c.CreatedAt.UTC().Year(); year < 0 || year > 9999 {
		return errors.New("createdAt is out of range")
	}
	return nil
}

// conflicts reports whether a and b cannot be held at once. A task has no conflict with itself.
func conflicts(a, b Claim) bool {
	return a.TaskID != b.TaskID && (a.Mode == ExclusiveWrite || b.Mode == ExclusiveWrite) && overlap(a.Cwd, b.Cwd, foldCase)
}

func encode(c Claim) ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.CreatedAt = c.CreatedAt.UTC()
	data, err := json.Marshal(fileClaim{Format: Format, Claim: c})
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// decode reads a claim file. The format is looked at first, since a newer one may differ in everything else.
func decode(data []byte) (Claim, error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Claim{}, err
	}
	if head.Format > Format {
		return Claim{}, fmt.Errorf("it was written by a newer bridge (format %d, this one reads up to %d)", head.Format, Format)
	}
	var c fileClaim
	if err := json.Unmarshal(data, &c); err != nil {
		return Claim{}, err
	}
	if err := c.Validate(); err != nil {
		return Claim{}, err
	}
	return c.Claim, nil
}
