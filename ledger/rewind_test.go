package ledger

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// timed is an event with a host's time of its own, by which a rewritten one is told.
func timed(session string, seq int64, event string, time int64, c Coordination) Entry {
	c.Event, c.Time = event, time
	return Entry{Record: Record{SourceSessionID: session, SourceSeq: &seq, Origin: OriginRoot, Type: TypeEvent, Coordination: c}}
}

func rewound(session string, from int64, seen Mark, left *Session, lost ...string) Entry {
	return Entry{Seen: seen, Record: Record{SourceSessionID: session, Origin: OriginRoot, Type: TypeRewind, Coordination: Coordination{From: from, Session: left, Lost: lost}}}
}

// held is the ledger's own state, for a look at it.
func held(t *testing.T, l *Ledger) (state *State) {
	t.Helper()
	if err := l.View(func(s *State) { state = s }); err != nil {
		t.Fatal(err)
	}
	return state
}

// A host that was killed has lost the events it had not written down, and gives their seqs to others.
func TestRewind(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	first := []Entry{
		timed(root, 0, "turn/start", 10, Coordination{Turn: 1}),
		timed(root, 1, "assistant/message", 11, Coordination{Text: true}),
		timed(root, 2, "turn/end", 12, Coordination{Turn: 1, Reason: ReasonCompleted}),
	}
	lost := []Entry{
		timed(root, 3, "turn/start", 13, Coordination{Turn: 2}),
		timed(root, 4, "user/message", 14, Coordination{RequestID: "p2", SourceKind: "user"}),
		timed(root, 5, "assistant/message", 15, Coordination{Text: true}),
	}
	appendAll(t, l, append(append([]Entry{}, first...), lost...)...)
	marks, err := l.Marks(root)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Mark{Seq: 5, Event: "assistant/message", Time: 15}); len(marks) != 6 || marks[5] != want {
		t.Fatalf("the marks are %v", marks)
	}

	left := Prefix(root, first)
	appendAll(t, l, rewound(root, 3, marks[5], left),
		timed(root, 3, "session/end-seed", 30, Coordination{}))

	state := held(t, l)
	if got := state.Execution(); got != Interrupted {
		t.Errorf("the lost turn counts as %s", got)
	}
	if s := state.Sessions[root]; s.Watermark != 3 || s.Final != -1 || s.Turn.Number != 2 {
		t.Errorf("the session is %+v", s)
	}
	// The next prompt begins turn 2 anew, under seqs that were given before. The last turn that ended is the first, then.
	appendAll(t, l, timed(root, 4, "turn/start", 40, Coordination{Turn: 2}))
	if s := held(t, l).Sessions[root]; s.Final != 1 || s.Candidate != -1 {
		t.Errorf("beside the turn that was begun anew the session is %+v", s)
	}
	appendAll(t, l, timed(root, 5, "turn/end", 41, Coordination{Turn: 2, Reason: ReasonCompleted}))
	if got := held(t, l).Execution(); got != TurnCompleted {
		t.Errorf("the turn that was begun anew counts as %s", got)
	}
	marks, err = l.Marks(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []Mark{
		{Seq: 0, Event: "turn/start", Time: 10}, {Seq: 1, Event: "assistant/message", Time: 11},
		{Seq: 2, Event: "turn/end", Time: 12, Reason: ReasonCompleted}, {Seq: 3, Event: "session/end-seed", Time: 30},
		{Seq: 4, Event: "turn/start", Time: 40}, {Seq: 5, Event: "turn/end", Time: 41, Reason: ReasonCompleted},
	}
	if diff := cmp.Diff(want, marks); diff != "" {
		t.Errorf("the marks after the rewind (-want +got):\n%s", diff)
	}
	if diff := jsonDiff(stateOf(t, l), stateOf(t, f.open())); diff != "" {
		t.Errorf("read anew the state is another:\n%s", diff)
	}
}

// Two processes find out at the same time; one rewinds.
func TestRewindHappensOnce(t *testing.T) {
	f := newFolder(t)
	l := f.open()
	appendAll(t, l, timed(root, 0, "turn/start", 10, Coordination{Turn: 1}), timed(root, 1, "step/start", 11, Coordination{}))
	seen := Mark{Seq: 1, Event: "step/start", Time: 11}
	left := Prefix(root, []Entry{timed(root, 0, "turn/start", 10, Coordination{Turn: 1})})
	appendAll(t, l, rewound(root, 1, seen, left), timed(root, 1, "turn/end", 20, Coordination{Turn: 1, Reason: ReasonInterrupted}))
	other := f.open()
	done, err := other.Append(t.Context(), []Entry{rewound(root, 1, seen, left), timed(root, 1, "turn/end", 20, Coordination{Turn: 1, Reason: ReasonInterrupted})})
	if err != nil || done.Added != 0 {
		t.Errorf("the second rewind added %d records (%v)", done.Added, err)
	}
}

// The turn that is left open by a rewind stays open until the history tells of its end.
func TestRewindIntoATurn(t *testing.T) {
	l := newFolder(t).open()
	first := []Entry{timed(root, 0, "turn/start", 10, Coordination{Turn: 1}), timed(root, 1, "assistant/message", 11, Coordination{Text: true})}
	appendAll(t, l, append(append([]Entry{}, first...), timed(root, 2, "turn/end", 12, Coordination{Turn: 1, Reason: ReasonCompleted}))...)
	appendAll(t, l, rewound(root, 2, Mark{Seq: 2, Event: "turn/end", Time: 12}, Prefix(root, first)))
	if got := held(t, l).Execution(); got != Running {
		t.Errorf("the task is %s", got)
	}
	appendAll(t, l, timed(root, 2, "turn/end", 20, Coordination{Turn: 1, Reason: ReasonInterrupted}))
	state := held(t, l)
	if got := state.Execution(); got != Interrupted || state.Sessions[root].Final != 1 {
		t.Errorf("the task is %s, its final message at %d", got, state.Sessions[root].Final)
	}
}

// A rewind into a turn before the last one leaves that turn as the last; the end that the host gives it is its own.
func TestRewindIntoATurnBeforeTheLast(t *testing.T) {
	l := newFolder(t).open()
	first := []Entry{timed(root, 0, "turn/start", 10, Coordination{Turn: 1}), timed(root, 1, "step/end", 11, Coordination{})}
	appendAll(t, l, append(append([]Entry{}, first...),
		timed(root, 2, "turn/end", 12, Coordination{Turn: 1, Reason: ReasonCompleted}),
		timed(root, 3, "turn/start", 13, Coordination{Turn: 2}))...)
	appendAll(t, l, rewound(root, 2, Mark{Seq: 3, Event: "turn/start", Time: 13}, Prefix(root, first)))
	if s := held(t, l).Sessions[root]; s.Turn.Number != 1 || !s.Turn.Open() {
		t.Errorf("behind the rewind the turn is %+v", s.Turn)
	}
	appendAll(t, l, timed(root, 2, "turn/end", 11, Coordination{Turn: 1, Reason: ReasonInterrupted}))
	if s := held(t, l).Sessions[root]; s.Turn.Number != 1 || s.Turn.EndSeq != 2 || s.Turn.Reason != ReasonInterrupted {
		t.Errorf("at last the turn is %+v", s.Turn)
	}
}

// What a rewind leaves in the inbox waits for somebody to send something; what it takes out of a claimed inbox is gone.
func TestRewindSettlesPrompts(t *testing.T) {
	inbox := func(seq int64, change InboxChange) Entry {
		change.Target = "next-turn"
		return timed(root, seq, "agent/inbox/spliced", 10+seq, Coordination{Inbox: &change})
	}
	issued := func(id string) Entry {
		return other(TypePromptIssued, Coordination{RequestID: id, Outcome: PromptAccepted, Fingerprint: "f"})
	}
	first := []Entry{
		timed(root, 0, "turn/start", 10, Coordination{Turn: 1}),
		timed(root, 1, "turn/end", 11, Coordination{Turn: 1, Reason: ReasonCompleted}),
		inbox(2, InboxChange{Inserted: []InboxItem{{ID: "m1", RequestID: "p1"}, {ID: "m2", RequestID: "p2"}}}),
	}
	rest := []Entry{
		timed(root, 3, "turn/start", 13, Coordination{Turn: 2}),
		inbox(4, InboxChange{Removed: 1}),
	}
	for _, tt := range []struct {
		name      string
		from      int64
		execution Execution
		waiting   []string // of p1, claimed for the second turn, and p2, behind it
	}{
		{"to the beginning of the turn", 4, Running, []string{"p1", "p2"}},
		{"to before the turn", 3, Interrupted, []string{"p1", "p2"}},
		{"to before the prompts", 2, Interrupted, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newFolder(t).open()
			history := slices.Concat(first, rest)
			appendAll(t, l, slices.Concat([]Entry{issued("p1"), issued("p2")}, history)...)
			appendAll(t, l, rewound(root, tt.from, Mark{Seq: 4, Time: 14}, Prefix(root, history[:tt.from])))
			state := held(t, l)
			if got := state.Execution(); got != tt.execution {
				t.Errorf("execution is %s, want %s", got, tt.execution)
			}
			for _, id := range []string{"p1", "p2"} {
				want := slices.Contains(tt.waiting, id)
				if issued, _ := state.IssuedPrompt(id); state.Arrived(id) != want || (state.Prompts[id] != nil) != want || (issued.Outcome == PromptAccepted) != want {
					t.Errorf("%s: arrived %v, awaited %v, %+v", id, state.Arrived(id), state.Prompts[id], issued)
				}
			}
		})
	}
}

// The end of a turn that a rewind leaves alone was told once, at its own cursor.
func TestRewindBehindTheEndOfATurn(t *testing.T) {
	l := newFolder(t).open()
	appendAll(t, l, events(root, 0, 4)...)
	want := held(t, l).RootTurn()
	appendAll(t, l, timed(root, 5, "session/title", 50, Coordination{}))
	appendAll(t, l, rewound(root, 5, Mark{Seq: 5, Time: 50}, Prefix(root, events(root, 0, 4))))
	if diff := cmp.Diff(want, held(t, l).RootTurn()); diff != "" {
		t.Error(diff)
	}
}

// A prompt that went down with the host may be sent again under its id.
func TestRewindTakesPromptsBack(t *testing.T) {
	l := newFolder(t).open()
	issue := func(id, outcome string) Entry {
		return Entry{Record: Record{SourceSessionID: root, Origin: OriginRoot, Type: TypePromptIssued, Coordination: Coordination{RequestID: id, Outcome: outcome, Fingerprint: "f"}}}
	}
	queued := timed(root, 2, "agent/inbox/spliced", 12, Coordination{Inbox: &InboxChange{Target: "next-turn", Inserted: []InboxItem{{ID: "m2", RequestID: "p2"}}}})
	appendAll(t, l,
		issue("p1", PromptAccepted), issue("p2", PromptAccepted),
		timed(root, 0, "turn/start", 10, Coordination{Turn: 1}),
		timed(root, 1, "user/message", 11, Coordination{RequestID: "p1", SourceKind: "user"}),
		queued)
	appendAll(t, l, rewound(root, 1, Mark{Seq: 2, Event: queued.Coordination.Event, Time: 12}, Prefix(root, []Entry{timed(root, 0, "turn/start", 10, Coordination{Turn: 1})}), "p1"))
	state := held(t, l)
	for _, id := range []string{"p1", "p2"} {
		if issued, known := state.IssuedPrompt(id); !known || issued.Outcome != PromptRefused || state.Arrived(id) || state.Prompts[id] != nil {
			t.Errorf("%s is %+v, arrived %t, awaited %v", id, issued, state.Arrived(id), state.Prompts[id])
		}
	}
}

// When the events before those in the file have left it, the checkpoint still knows the last of them: what the host puts
// behind that one is not taken for recorded.
func TestMarksBehindACompaction(t *testing.T) {
	f := newFolder(t)
	f.maxBytes = 1000
	l := f.open()
	appendAll(t, l, timed(root, 0, "turn/start", 10, Coordination{Turn: 1}), timed(root, 1, "step/start", 11, Coordination{}))
	var others []Entry
	for seq := range int64(keepMarks*markEvery + 1000) {
		others = append(others, timed("other", seq, "step/start", 12, Coordination{}))
	}
	appendAll(t, l, others...)
	if err := l.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	appendAll(t, l, Entry{From: 2, Record: timed(root, 3, "agent/inbox/spliced", 13, Coordination{}).Record})
	want := []Mark{{Seq: 1, Event: "step/start", Time: 11}, {Seq: 3, Event: "agent/inbox/spliced", Time: 13}}
	for name, l := range map[string]*Ledger{"the writer": l, "another": f.open()} {
		marks, err := l.Marks(root)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, marks); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	appendAll(t, l, rewound(root, 1, Mark{Seq: 3, Event: "agent/inbox/spliced", Time: 13}, Prefix(root, []Entry{timed(root, 0, "turn/start", 10, Coordination{Turn: 1})})),
		timed(root, 1, "step/end", 11, Coordination{}))
	marks, err := l.Marks(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Mark{{Seq: 1, Event: "step/end", Time: 11}}, marks); diff != "" {
		t.Errorf("behind the rewind:\n%s", diff)
	}
}
