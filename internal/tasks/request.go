package tasks

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Request identifies the call that made a task, so that the caller's own retry of it is recognised. Both fields are
// SHA-256 digests in 64 lower-case hex digits: a caller may put anything into a request id, and the arguments are
// conversation.
type Request struct {
	ID          string `json:"id"`          // of the request id
	Fingerprint string `json:"fingerprint"` // of the arguments
}

// NewRequest digests a request id and the call's arguments. The arguments have to be encoded the same way each time.
func NewRequest(requestID string, arguments []byte) Request {
	return Request{ID: digest([]byte(requestID)), Fingerprint: digest(arguments)}
}

func (r Request) validate() error {
	if !isDigest(r.ID) || !isDigest(r.Fingerprint) {
		return errors.New("request holds something other than two digests")
	}
	return nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func isDigest(s string) bool { return len(s) == 2*sha256.Size && isHex(s) }
