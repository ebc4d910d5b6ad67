package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	root  = "session-root"
	child = "session-child"
)

// story is a sequence of observations, told step by step as a bridge would make them. It numbers the events of each
// session by itself.
type story struct {
	tb    testing.TB
	state *State
	seqs  map[string]int64
	who   string // the session that the next steps are about
	// records are those that the state took in.
	records []Record
}

type step func(*story)

// tell folds a story.
func tell(tb testing.TB, steps ...step) *story {
	tb.Helper()
	s := &story{tb: tb, state: newState(root), seqs: map[string]int64{}, who: root}
	s.tell(steps...)
	return s
}

func (s *story) tell(steps ...step) {
	s.tb.Helper()
	for _, step := range steps {
		step(s)
	}
}

// add does what an append does, without a disk.
func (s *story) add(e Entry) {
	s.tb.Helper()
	r := e.Record
	if err := r.check(); err != nil {
		s.tb.Fatalf("check %s: %v", r.Type, err)
	}
	admitted, err := s.state.admit(&r, e.From, e.Seen)
	if err != nil {
		s.tb.Fatalf("admit %s: %v", r.Type, err)
	}
	if !admitted {
		return
	}
	r.Cursor, r.ObservedAt = s.state.Cursor+1, 1000+s.state.Cursor
	s.state.apply(&r)
	s.records = append(s.records, r)
}

// entry is an observation of the session that the story is about.
func (s *story) entry(t Type, c Coordination) Entry {
	e := Entry{Record: Record{SourceSessionID: s.who, Origin: OriginRoot, Type: t, Coordination: c}}
	if s.who != root {
		e.Origin, e.ParentSessionID = OriginSubagent, root
	}
	return e
}

func observe(t Type, c Coordination) step {
	return func(s *story) { s.tb.Helper(); s.add(s.entry(t, c)) }
}

// event is a durable event of the history.
func event(kind string, c Coordination) step {
	return func(s *story) {
		s.tb.Helper()
		c.Event = kind
		e := s.entry(TypeEvent, c)
		seq := s.seqs[s.who]
		s.seqs[s.who]++
		e.SourceSeq, e.From = &seq, seq
		s.add(e)
	}
}

// in tells steps of another session.
func in(session string, steps ...step) step {
	return func(s *story) {
		s.tb.Helper()
		before := s.who
		s.who = session
		s.tell(steps...)
		s.who = before
	}
}

// lost skips seqs, and records that they cannot be had any more.
func lost(n int64) step {
	return func(s *story) {
		s.tb.Helper()
		from := s.seqs[s.who]
		s.seqs[s.who] += n
		s.add(s.entry(TypeGap, Coordination{From: from, To: from + n - 1}))
	}
}

func turnStart(n int) step { return event("turn/start", Coordination{Turn: n, Time: int64(n) * 100}) }
func turnEnd(n int, reason string) step {
	return event("turn/end", Coordination{Turn: n, Reason: reason, Time: int64(n)*100 + 50})
}

// says and works are assistant messages with text and without.
func says(turn int) step { return event("assistant/message", Coordination{Turn: turn, Text: true}) }
func works(turn int) step {
	return event("assistant/message", Coordination{Turn: turn})
}

// message is the user message that a prompt became.
func message(prompt string) step {
	return event("user/message", Coordination{SourceKind: "user", RequestID: prompt})
}

func issue(prompt, outcome string) step {
	return observe(TypePromptIssued, Coordination{RequestID: prompt, Mode: "queue", Outcome: outcome})
}

// prompted is a prompt that the host took, as far as the caller knows.
func prompted(prompt string) step {
	return func(s *story) {
		s.tb.Helper()
		s.tell(issue(prompt, PromptSending), issue(prompt, PromptAccepted))
	}
}

func spliced(change InboxChange, outcome string) step {
	return event("agent/inbox/spliced", Coordination{Inbox: &change, Outcome: outcome})
}

// queued puts a prompt into the inbox, in the first place of those that wait for a turn.
func queued(prompt string) step {
	return spliced(InboxChange{Target: "next-turn", Inserted: []InboxItem{{ID: "item-" + prompt, RequestID: prompt}}}, "")
}

// claimed takes the first message out of the inbox for the running turn.
func claimed() step { return spliced(InboxChange{Target: "next-turn", Removed: 1}, "") }

// unqueued is the first message being taken out of the inbox by a person.
func unqueued() step { return spliced(InboxChange{Target: "next-turn", Removed: 1}, "canceled") }

func asks(id string) step { return observe(TypeQuestionRequested, Coordination{RequestID: id}) }
func answered(id string) step {
	return observe(TypeQuestionResolved, Coordination{RequestID: id, Outcome: "answered"})
}
func wantsApproval(id, approval string) step {
	return observe(TypeApprovalRequested, Coordination{RequestID: id, ApprovalID: approval})
}
func resolvedApproval(approval string) step {
	return observe(TypeApprovalResolved, Coordination{ApprovalID: approval, Outcome: "allowed-once"})
}
func withdrawn(id string) step { return observe(TypeWithdrawn, Coordination{RequestID: id}) }

// toJSON is how states are compared: what goes into a checkpoint is all there is.
func toJSON(tb interface {
	Helper()
	Fatal(...any)
}, v any) string {
	tb.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// jsonDiff shows how two texts of JSON differ; it is empty when they do not.
func jsonDiff(want, got string) string {
	if want == got {
		return ""
	}
	var a, b bytes.Buffer
	if err := errors.Join(json.Indent(&a, []byte(want), "", " "), json.Indent(&b, []byte(got), "", " ")); err != nil {
		return err.Error()
	}
	return cmp.Diff(a.String(), b.String())
}
