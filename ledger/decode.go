package ledger

import (
	"bytes"
	"encoding/json"
)

// decoder reads the lines of a ledger. It keeps the words that are in every other record, so that a thousand records
// of a session do not hold its id a thousand times.
type decoder struct {
	words map[string]string
}

// maxWords bounds what a decoder keeps: a task has some dozens of sessions and kinds of events.
const maxWords = 512

// decode reads a record and refuses one that is not of the form this package writes.
func (d *decoder) decode(raw []byte, r *Record) error {
	if !d.quick(raw, r) {
		*r = Record{}
		if err := json.Unmarshal(raw, r); err != nil {
			return err
		}
	}
	return r.check()
}

// quick reads a line as encode writes it. It reports false for anything else, well-formed or not, and leaves it to
// encoding/json to make something of it or to say what is wrong.
func (d *decoder) quick(raw []byte, r *Record) bool {
	in := input{data: raw, decoder: d}
	c := &r.Coordination
	in.take(`{"cursor":`)
	r.Cursor = in.number()
	in.take(`,"observedAt":`)
	r.ObservedAt = in.number()
	if in.has(`,"sourceSessionId":"`) {
		r.SourceSessionID = in.shared()
	}
	if in.has(`,"sourceSeq":`) {
		r.SourceSeq = new(in.number())
	}
	if in.has(`,"parentSessionId":"`) {
		r.ParentSessionID = in.shared()
	}
	in.take(`,"origin":"`)
	r.Origin = in.shared()
	in.take(`,"type":"`)
	r.Type = Type(in.shared())
	in.take(`,"coordination":{`)
	for first := true; !in.odd && !in.has(`}`); first = false {
		if !first {
			in.take(`,`)
		}
		d.member(&in, c)
	}
	return !in.odd && in.has(`}`) && len(in.data) == 0
}

// member reads one member of a record's coordination.
func (d *decoder) member(in *input, c *Coordination) {
	in.take(`"`)
	name := in.plain()
	in.take(`:`)
	if in.odd {
		return
	}
	switch string(name) {
	case "event":
		c.Event = in.first(c.Event, true)
	case "reason":
		c.Reason = in.first(c.Reason, true)
	case "sourceKind":
		c.SourceKind = in.first(c.SourceKind, true)
	case "outcome":
		c.Outcome = in.first(c.Outcome, true)
	case "mode":
		c.Mode = in.first(c.Mode, true)
	case "requestId":
		c.RequestID = in.first(c.RequestID, false)
	case "approvalId":
		c.ApprovalID = in.first(c.ApprovalID, false)
	case "fingerprint":
		c.Fingerprint = in.first(c.Fingerprint, false)
	case "time":
		c.Time = in.count(c.Time)
	case "turn":
		c.Turn = int(in.count(int64(c.Turn)))
	case "step":
		c.Step = int(in.count(int64(c.Step)))
	case "from":
		c.From = in.count(c.From)
	case "to":
		c.To = in.count(c.To)
	case "text":
		c.Text = in.yes(c.Text)
	case "bridge":
		c.Bridge = in.yes(c.Bridge)
	case "inbox":
		in.nested(&c.Inbox, c.Inbox != nil)
	case "goal":
		in.nested(&c.Goal, c.Goal != nil)
	case "queue":
		in.nested(&c.Queue, c.Queue != nil)
	case "jobs":
		in.nested(&c.Jobs, c.Jobs != nil)
	case "session":
		in.nested(&c.Session, c.Session != nil)
	case "lost":
		in.nested(&c.Lost, c.Lost != nil)
	default:
		in.odd = true
	}
}

// input is what is left of a line. It is odd as soon as something is not of the plain form; what is read then is of no
// account.
type input struct {
	data    []byte
	odd     bool
	decoder *decoder
}

func (in *input) has(s string) bool {
	if len(in.data) < len(s) || string(in.data[:len(s)]) != s {
		return false
	}
	in.data = in.data[len(s):]
	return true
}

func (in *input) take(s string) {
	if !in.has(s) {
		in.odd = true
	}
}

// number reads a whole number that is not negative.
func (in *input) number() int64 {
	n, i := int64(0), 0
	for ; i < len(in.data) && '0' <= in.data[i] && in.data[i] <= '9'; i++ {
		n = n*10 + int64(in.data[i]-'0')
	}
	if i == 0 || i > 18 || (i > 1 && in.data[0] == '0') {
		in.odd = true
	}
	in.data = in.data[i:]
	return n // a fraction or an exponent is not what has to follow
}

// plain reads the rest of a string of printable ASCII without escapes. It shares the memory of the line.
func (in *input) plain() []byte {
	for i, c := range in.data {
		switch {
		case c == '"':
			s := in.data[:i]
			in.data = in.data[i+1:]
			return s
		case c == '\\' || c < ' ' || c > '~':
			in.odd = true
			return nil
		}
	}
	in.odd = true
	return nil
}

// shared reads the rest of a string that many records have.
func (in *input) shared() string {
	s := in.plain()
	if known, ok := in.decoder.words[string(s)]; ok {
		return known
	}
	word := string(s)
	if in.decoder.words == nil || len(in.decoder.words) >= maxWords {
		in.decoder.words = map[string]string{}
	}
	in.decoder.words[word] = word
	return word
}

// first reads a string into a member that has nothing yet.
func (in *input) first(old string, shared bool) string {
	in.odd = in.odd || old != ""
	in.take(`"`)
	if shared {
		return in.shared()
	}
	return string(in.plain())
}

// count reads a number into a member that has nothing yet.
func (in *input) count(old int64) int64 {
	in.odd = in.odd || old != 0
	return in.number()
}

func (in *input) yes(old bool) bool {
	in.odd = in.odd || old
	in.take(`true`)
	return true
}

// nested leaves an object or an array to encoding/json. had says that the member was there before.
func (in *input) nested(v any, had bool) {
	n := extent(in.data)
	if had || n == 0 || json.Unmarshal(in.data[:n], v) != nil {
		in.odd = true
		return
	}
	in.data = in.data[n:]
}

// extent is the length of the object or array that data begins with, brackets of both kinds taken for one; 0 for
// anything else.
func extent(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			n := bytes.IndexByte(data[i+1:], '"')
			if n < 0 || bytes.IndexByte(data[i+1:i+1+n], '\\') >= 0 {
				return 0
			}
			i += n + 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		if depth == 0 {
			return 0
		}
	}
	return 0
}
