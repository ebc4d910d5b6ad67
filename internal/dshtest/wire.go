package dshtest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"time"
)

// object is a JSON object of the wire.
type object = map[string]any

// encode is the wire's JSON: not escaped for HTML, so that texts have the size they have on a real host. What the
// host encodes are its own values and JSON that was parsed before; should one of a caller's values (EmitEvent) not be
// encodable, null stands in for it.
func encode(v any) json.RawMessage {
	if raw, ok := v.(json.RawMessage); ok && len(raw) > 0 {
		return raw
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// newID makes a random UUID. Nothing depends on it being hard to guess, and a busy host makes a great many.
func newID() string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], rand.Uint64())
	binary.BigEndian.PutUint64(raw[8:], rand.Uint64())
	raw[6] = raw[6]&0x0f | 0x40
	raw[8] = raw[8]&0x3f | 0x80
	var s [36]byte
	hex.Encode(s[:], raw[:4])
	hex.Encode(s[9:], raw[4:6])
	hex.Encode(s[14:], raw[6:8])
	hex.Encode(s[19:], raw[8:10])
	hex.Encode(s[24:], raw[10:])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}

// now is the wire's clock: milliseconds since the epoch.
func now() int64 { return time.Now().UnixMilli() }

// envelope wraps a frame's payload for the events.mux stream.
func envelope(kind, rpcID string, payload []byte) []byte {
	b := make([]byte, 0, len(payload)+len(kind)+len(rpcID)+80)
	b = append(b, `{"type":"server-request","rpcId":"`...)
	b = append(b, rpcID...)
	b = append(b, `","method":`...)
	b = append(b, encode(kind)...)
	b = append(b, `,"payload":`...)
	b = append(b, payload...)
	return append(b, '}')
}
