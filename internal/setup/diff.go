package setup

import (
	"bytes"
	"os"

	"github.com/rogpeppe/go-internal/diff"
)

// maxDiffLine is the longest line that a diff shows. One of a file without line ends would be the whole file.
const maxDiffLine = 2000

// Diff is the change as a unified diff; empty for [Keep]. It reports false when a line of it would be too long to read.
func (c Change) Diff() (string, bool) {
	if c.Action == Keep {
		return "", true
	}
	before, after := c.Path, c.Path
	if c.Action == Create {
		before = os.DevNull
	}
	if c.Action == Remove {
		after = os.DevNull
	}
	text := diff.Diff(before, c.Before, after, c.After)
	// Its first line is a command, which is none here.
	if at := bytes.Index(text, []byte("--- ")); at >= 0 {
		text = text[at:]
	}
	for line := range bytes.Lines(text) {
		if len(line) > maxDiffLine {
			return "", false
		}
	}
	return string(text), true
}
