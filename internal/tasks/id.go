package tasks

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// A task id is idPrefix and idDigits lower-case hex digits.
const (
	idPrefix = "dsh_"
	idDigits = 12
)

// NewID returns a new random task id.
func NewID() string {
	var b [idDigits / 2]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process when the system has no randomness
	return idPrefix + hex.EncodeToString(b[:])
}

// ValidID reports whether s has the shape of a task id. An id of that shape is safe as a file name.
func ValidID(s string) bool {
	digits, ok := strings.CutPrefix(s, idPrefix)
	return ok && len(digits) == idDigits && isHex(digits)
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
