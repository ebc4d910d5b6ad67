package ledger

import (
	"encoding/json"
	"strconv"
)

// The lines of a ledger are JSON as encoding/json writes it. Ledgers are written and read by the thousand records, and
// reflection was most of the work; so the members that nearly every record has are written and read by hand here and in
// decode.go, and encoding/json keeps the rest: nested values, and whatever is not of the plain form.

// encode appends the record to buf as one line. The bytes are those of json.Marshal.
func (r *Record) encode(buf []byte) ([]byte, error) {
	w := line{buf: buf}
	w.raw(`{"cursor":`)
	w.number(r.Cursor)
	w.raw(`,"observedAt":`)
	w.number(r.ObservedAt)
	w.optWord(`,"sourceSessionId":`, r.SourceSessionID)
	if r.SourceSeq != nil {
		w.raw(`,"sourceSeq":`)
		w.number(*r.SourceSeq)
	}
	w.optWord(`,"parentSessionId":`, r.ParentSessionID)
	w.raw(`,"origin":`)
	w.word(r.Origin)
	w.raw(`,"type":`)
	w.word(string(r.Type))
	w.raw(`,"coordination":{`)
	c, start := &r.Coordination, len(w.buf)
	w.optWord(`,"event":`, c.Event)
	w.optNumber(`,"time":`, c.Time)
	w.optNumber(`,"turn":`, int64(c.Turn))
	w.optNumber(`,"step":`, int64(c.Step))
	w.optWord(`,"reason":`, c.Reason)
	w.optTrue(`,"text":true`, c.Text)
	w.optWord(`,"sourceKind":`, c.SourceKind)
	w.optWord(`,"requestId":`, c.RequestID)
	w.optWord(`,"approvalId":`, c.ApprovalID)
	w.optWord(`,"outcome":`, c.Outcome)
	w.optTrue(`,"bridge":true`, c.Bridge)
	w.optWord(`,"fingerprint":`, c.Fingerprint)
	w.optWord(`,"mode":`, c.Mode)
	w.optNested(`,"inbox":`, c.Inbox, c.Inbox != nil)
	w.optNested(`,"goal":`, c.Goal, c.Goal != nil)
	w.optNested(`,"queue":`, c.Queue, len(c.Queue) > 0)
	w.optNested(`,"jobs":`, c.Jobs, len(c.Jobs) > 0)
	w.optNumber(`,"from":`, c.From)
	w.optNumber(`,"to":`, c.To)
	w.optNested(`,"session":`, c.Session, c.Session != nil)
	w.optNested(`,"lost":`, c.Lost, len(c.Lost) > 0)
	if len(w.buf) > start { // the first member has no comma
		w.buf = append(w.buf[:start], w.buf[start+1:]...)
	}
	w.raw("}}\n")
	if w.err != nil {
		return buf, w.err
	}
	return w.buf, nil
}

// line is a line that is being written.
type line struct {
	buf []byte
	err error
}

func (w *line) raw(s string) { w.buf = append(w.buf, s...) }

func (w *line) number(n int64) { w.buf = strconv.AppendInt(w.buf, n, 10) }

func (w *line) word(s string) {
	if !IsWord(s) {
		w.nested(s) // it has to be escaped, perhaps
		return
	}
	w.buf = append(append(append(w.buf, '"'), s...), '"')
}

func (w *line) nested(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		w.err = err
		return
	}
	w.buf = append(w.buf, data...)
}

func (w *line) optNumber(name string, n int64) {
	if n != 0 {
		w.raw(name)
		w.number(n)
	}
}

func (w *line) optWord(name, s string) {
	if s != "" {
		w.raw(name)
		w.word(s)
	}
}

func (w *line) optTrue(member string, set bool) {
	if set {
		w.raw(member)
	}
}

func (w *line) optNested(name string, v any, set bool) {
	if set {
		w.raw(name)
		w.nested(v)
	}
}
