package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExecutionFollowsTheTurn(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []step
		want  Execution
	}{
		{"nothing recorded", nil, Starting},
		{"begun", []step{turnStart(1)}, Running},
		{"at work", []step{turnStart(1), says(1), works(1)}, Running},
		{"completed", []step{turnStart(1), turnEnd(1, ReasonCompleted)}, TurnCompleted},
		{"aborted", []step{turnStart(1), turnEnd(1, ReasonAborted)}, Canceled},
		{"failed", []step{turnStart(1), turnEnd(1, ReasonError)}, Failed},
		{"ended for a reason of a newer host", []step{turnStart(1), turnEnd(1, ReasonOther)}, Failed},
		{"read to have died with the host", []step{turnStart(1), turnEnd(1, ReasonInterrupted)}, Interrupted},
		{"inferred to have died with the host", []step{turnStart(1), observe(TypeTurnInterrupted, Coordination{})}, Interrupted},
		{"inferred to have been stopped in silence", []step{turnStart(1), observe(TypeTurnInterrupted, Coordination{Reason: ReasonAborted})}, Canceled},
		{"inferred, then read otherwise", []step{turnStart(1), observe(TypeTurnInterrupted, Coordination{}), turnEnd(1, ReasonError)}, Failed},
		{"begun again by itself", []step{turnStart(1), turnEnd(1, ReasonCompleted), turnStart(2)}, Running},
		{"a subagent's end is not the root's", []step{turnStart(1), in(child, turnStart(1), turnEnd(1, ReasonError))}, Running},
		{"a subagent's turn is not the root's", []step{turnStart(1), turnEnd(1, ReasonCompleted), in(child, turnStart(1))}, TurnCompleted},
		{"its beginning in a gap", []step{lost(5), event("step/start", Coordination{Turn: 1, Step: 3})}, Running},
		{"the end of one and the beginning of the next in a gap",
			[]step{turnStart(1), turnEnd(1, ReasonCompleted), lost(5), event("tool/call", Coordination{Turn: 3})}, Running},
		{"an end of which the beginning is in a gap", []step{lost(5), turnEnd(4, ReasonAborted)}, Canceled},
		{"what comes late of an ended turn does not open it",
			[]step{turnStart(2), turnEnd(2, ReasonCompleted), event("tool/result", Coordination{Turn: 2}), event("tool/result", Coordination{Turn: 1})}, TurnCompleted},
		{"an interruption of an earlier turn leaves this one alone",
			[]step{turnStart(1), turnEnd(1, ReasonCompleted), turnStart(2), observe(TypeTurnInterrupted, Coordination{Turn: 1})}, Running},
		{"an interruption of no turn", []step{turnStart(1), turnEnd(1, ReasonCompleted), observe(TypeTurnInterrupted, Coordination{})}, TurnCompleted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tell(t, tt.steps...).state.Execution(); got != tt.want {
				t.Errorf("execution is %s, want %s", got, tt.want)
			}
		})
	}
}

func TestExecutionFollowsRequests(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []step
		want  Execution
	}{
		{"a question", []step{asks("q")}, AwaitingInput},
		{"an approval", []step{wantsApproval("a", "app")}, AwaitingApproval},
		{"an approval goes before a question", []step{asks("q"), wantsApproval("a", "app")}, AwaitingApproval},
		{"a subagent's question", []step{in(child, turnStart(1), asks("q"))}, AwaitingInput},
		{"a subagent's approval", []step{in(child, turnStart(1), wantsApproval("a", "app"))}, AwaitingApproval},
		{"answered", []step{asks("q"), answered("q")}, Running},
		{"one of two answered", []step{asks("q"), asks("q2"), answered("q")}, AwaitingInput},
		{"approved, by the frame", []step{wantsApproval("a", "app"), resolvedApproval("app")}, Running},
		{"approved, by the history", []step{wantsApproval("a", "app"), event("approval/decided", Coordination{ApprovalID: "app", Outcome: "rejected"})}, Running},
		{"withdrawn", []step{asks("q"), withdrawn("q")}, Running},
		{"withdrawn and brought again", []step{asks("q"), withdrawn("q"), asks("q")}, AwaitingInput},
		{"an approval withdrawn and brought again", []step{wantsApproval("a", "app"), withdrawn("a"), wantsApproval("a", "app")}, AwaitingApproval},
		{"answered before it was seen asked by a slower observer", []step{asks("q"), answered("q"), asks("q")}, Running},
		{"approved before it was seen asked by a slower observer", []step{wantsApproval("a", "app"), resolvedApproval("app"), wantsApproval("a", "app")}, Running},
		{"an answer to a question that was never seen", []step{answered("q")}, Running},
		{"an approval without an id is not resolved by one without", []step{asks("q"), wantsApproval("a", ""), resolvedApproval("")}, AwaitingApproval},
		{"the end of the turn takes them along", []step{asks("q"), wantsApproval("a", "app"), turnEnd(1, ReasonAborted)}, Canceled},
		{"the inferred end of the turn too", []step{asks("q"), observe(TypeTurnInterrupted, Coordination{})}, Interrupted},
		{"the end of another session's turn does not", []step{in(child, asks("q")), turnEnd(1, ReasonCompleted)}, AwaitingInput},
		{"one that the host brings after the end that was to have taken it", []step{asks("q"), turnEnd(1, ReasonCompleted), turnStart(2), asks("q")}, AwaitingInput},
		{"a request without an id is not recorded", []step{asks("")}, Running},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tell(t, turnStart(1))
			s.tell(tt.steps...)
			if got := s.state.Execution(); got != tt.want {
				t.Errorf("execution is %s, want %s", got, tt.want)
			}
		})
	}
}

func TestRequestsAreRecordedOnce(t *testing.T) {
	s := tell(t, turnStart(1),
		asks("q"), asks("q"), wantsApproval("a", "app"), wantsApproval("a", "app"), // two observers
		answered("q"), answered("q"), resolvedApproval("app"), resolvedApproval("app"),
		asks("w"), withdrawn("w"), withdrawn("w"), asks("w"), asks("w"))
	var got []string
	for _, r := range s.records[1:] {
		got = append(got, fmt.Sprintf("%s %s", r.Type, r.Coordination.RequestID))
	}
	want := []string{
		"question/requested q", "approval/requested a", "question/resolved q", "approval/resolved a",
		"question/requested w", "interaction/withdrawn w", "interaction/replayed w",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"w"}, s.state.PendingInOrder()); diff != "" {
		t.Error(diff)
	}
}

// A request went with the turn that asked, also where whoever observed it gets to write it down only after the turn's
// end. One of the next turn is another matter.
func TestRequestOfATurnThatHasEnded(t *testing.T) {
	s := tell(t, turnStart(1), turnEnd(1, ReasonInterrupted),
		observe(TypeQuestionRequested, Coordination{RequestID: "late", From: 1}),
		observe(TypeApprovalRequested, Coordination{RequestID: "later", ApprovalID: "app", From: 1}))
	if got := s.state.PendingInOrder(); len(got) > 0 {
		t.Errorf("pending are %v", got)
	}
	s.tell(turnStart(2), observe(TypeQuestionRequested, Coordination{RequestID: "q", From: 3}))
	if diff := cmp.Diff([]string{"q"}, s.state.PendingInOrder()); diff != "" {
		t.Error(diff)
	}
}

func TestPendingKeepsWhoAsked(t *testing.T) {
	s := tell(t, turnStart(1), in(child, wantsApproval("a", "app")), asks("q"))
	want := map[string]*Pending{
		"a": {Type: TypeApprovalRequested, SessionID: child, ApprovalID: "app", Since: 1001, Cursor: 2},
		"q": {Type: TypeQuestionRequested, SessionID: root, Since: 1002, Cursor: 3},
	}
	if diff := cmp.Diff(want, s.state.Pending); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "q"}, s.state.PendingInOrder()); diff != "" {
		t.Error(diff)
	}
	s.tell(resolvedApproval("app"), withdrawn("q"))
	for _, want := range []Closed{
		{RequestID: "a", ApprovalID: "app", Outcome: "allowed-once"},
		{RequestID: "q", Withdrawn: true},
	} {
		if got, known := s.state.ClosedRequest(want.RequestID); !known || got != want {
			t.Errorf("closed request is %+v, want %+v", got, want)
		}
	}
	if _, known := s.state.ClosedRequest("other"); known {
		t.Error("a request that was never seen counts as closed")
	}
}

func TestFinalMessage(t *testing.T) {
	const none = -1
	for _, tt := range []struct {
		name  string
		steps []step // the first event of the root has seq 0
		want  int64
	}{
		{"no turn", nil, none},
		{"the turn runs", []step{turnStart(1), says(1)}, none},
		{"the last one with text", []step{turnStart(1), says(1), says(1), turnEnd(1, ReasonCompleted)}, 2},
		{"tool calls after it", []step{turnStart(1), says(1), works(1), turnEnd(1, ReasonCompleted)}, 1},
		{"missing", []step{turnStart(1), works(1), turnEnd(1, ReasonCompleted)}, none},
		{"that of the turn before does not stand in", []step{turnStart(1), says(1), turnEnd(1, ReasonCompleted), turnStart(2), works(2), turnEnd(2, ReasonCompleted)}, none},
		{"nor does one from before a gap", []step{turnStart(1), says(1), lost(3), turnEnd(2, ReasonCompleted)}, none},
		{"a gap within the turn", []step{turnStart(1), lost(3), says(1), turnEnd(1, ReasonCompleted)}, 4},
		{"a failed turn has one too", []step{turnStart(1), says(1), turnEnd(1, ReasonError)}, 1},
		{"died with the host", []step{turnStart(1), says(1), observe(TypeTurnInterrupted, Coordination{})}, 1},
		{"died with the host, then read", []step{turnStart(1), says(1), observe(TypeTurnInterrupted, Coordination{}), turnEnd(1, ReasonInterrupted)}, 1},
		{"a subagent's is its own", []step{turnStart(1), in(child, turnStart(1), says(1), turnEnd(1, ReasonCompleted)), turnEnd(1, ReasonCompleted)}, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := int64(none)
			if session := tell(t, tt.steps...).state.Sessions[root]; session != nil {
				got = session.Final
			}
			if got != tt.want {
				t.Errorf("final message is %d, want %d", got, tt.want)
			}
		})
	}
}

func TestTurnTellsWhenAndWhere(t *testing.T) {
	s := tell(t, turnStart(1), says(1), turnEnd(1, ReasonError))
	want := Turn{Number: 1, StartedAt: 100, StartSeq: 0, Ended: true, EndedAt: 150, EndSeq: 2, EndCursor: 3, Reason: ReasonError}
	if diff := cmp.Diff(want, s.state.RootTurn()); diff != "" {
		t.Error(diff)
	}
	s.tell(turnStart(2), observe(TypeTurnInterrupted, Coordination{}))
	want = Turn{Number: 2, StartedAt: 200, StartSeq: 3, Ended: true, EndedAt: 1004, EndCursor: 5, Reason: ReasonInterrupted}
	if diff := cmp.Diff(want, s.state.RootTurn()); diff != "" {
		t.Error(diff)
	}
	s.tell(turnEnd(2, ReasonInterrupted))
	want.EndedAt, want.EndSeq, want.EndCursor = 250, 4, 6
	if diff := cmp.Diff(want, s.state.RootTurn()); diff != "" {
		t.Error(diff)
	}
}

func TestSessionsOfATask(t *testing.T) {
	s := tell(t, turnStart(1), in(child, event("subagent/descriptor", Coordination{Mode: "one-shot"}), turnStart(1), says(1)))
	got := s.state.Sessions[child]
	want := &Session{Parent: root, Origin: OriginSubagent, Mode: "one-shot", Watermark: 2, Final: -1, Candidate: 2, LastEvent: "assistant/message",
		Turn: Turn{Number: 1, StartedAt: 100, StartSeq: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s.state.Watermark(root) != 0 || s.state.Watermark("other") != -1 {
		t.Errorf("watermarks are %d and %d", s.state.Watermark(root), s.state.Watermark("other"))
	}
}

func TestSnapshotsAreRecordedWhenTheyChange(t *testing.T) {
	queue := func(items ...QueueItem) step { return observe(TypeQueue, Coordination{Queue: items}) }
	jobs := func(items ...JobState) step { return observe(TypeJobs, Coordination{Jobs: items}) }
	one := QueueItem{ID: "i1", Placement: "queued"}
	moved := QueueItem{ID: "i1", Placement: "steering"}
	job := JobState{ID: "j1", Status: "running"}
	done := JobState{ID: "j1", Status: "completed"}
	s := tell(t, turnStart(1))
	for _, tt := range []struct {
		name  string
		step  step
		added bool
	}{
		{"the first, though empty", queue(), true},
		{"empty again", queue(), false},
		{"an item", queue(one), true},
		{"the same item", queue(one), false},
		{"the item moved", queue(moved), true},
		{"a subagent's is another", in(child, queue(moved)), true},
		{"empty at last", queue(), true},
		{"the first jobs", jobs(), true},
		{"a job", jobs(job), true},
		{"the same job", jobs(job), false},
		{"the job ended", jobs(done), true},
	} {
		before := len(s.records)
		s.tell(tt.step)
		if added := len(s.records) > before; added != tt.added {
			t.Errorf("%s: recorded is %v", tt.name, added)
		}
	}
	if diff := cmp.Diff([]JobState{done}, s.state.Sessions[root].Jobs); diff != "" {
		t.Error(diff)
	}
	if q := s.state.Sessions[root].Queue; q == nil || len(q) != 0 {
		t.Errorf("an empty queue was seen, and it is %#v", q)
	}
	if s.state.Sessions[child].Jobs != nil {
		t.Error("jobs of the subagent were never seen")
	}
}

func TestGaps(t *testing.T) {
	s := tell(t, turnStart(1), queued("p"), lost(10), works(1))
	want := []Gap{{SessionID: root, From: 2, To: 11, Cursor: 3}}
	if diff := cmp.Diff(want, s.state.Gaps); diff != "" {
		t.Error(diff)
	}
	if got := s.state.Watermark(root); got != 12 {
		t.Errorf("watermark is %d, want 12", got)
	}
	if inbox := s.state.Sessions[root].Inbox; len(inbox) > 0 {
		t.Errorf("what became of the inbox is not known, and it holds %v", inbox)
	}
	s.tell(observe(TypeGap, Coordination{From: 2, To: 11})) // another process found the same gap
	s.tell(observe(TypeGap, Coordination{From: 5, To: 20})) // another had not seen what this one recorded
	want = append(want, Gap{SessionID: root, From: 13, To: 20, Cursor: 5})
	if diff := cmp.Diff(want, s.state.Gaps); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	s := tell(t, turnStart(1))
	for i := range 2 * maxRemembered {
		id := fmt.Sprint("id", i)
		s.tell(asks(id), answered(id), message(id),
			observe(TypePromptIssued, Coordination{RequestID: id, Outcome: PromptRefused, Fingerprint: "f"}))
		if n := max(len(s.state.Closed), len(s.state.Seen), len(s.state.Issued)); n > maxRemembered {
			t.Fatalf("%d of a kind are remembered", n)
		}
	}
	if c, seen, issued := len(s.state.Closed), len(s.state.Seen), len(s.state.Issued); c != maxRemembered || seen != maxRemembered || issued != maxRemembered {
		t.Errorf("remembered are %d closed requests, %d messages, %d prompts, want %d of each", c, seen, issued, maxRemembered)
	}
	last := fmt.Sprint("id", 2*maxRemembered-1)
	if _, known := s.state.ClosedRequest(last); !known {
		t.Error("the last request is forgotten")
	}
	if _, known := s.state.ClosedRequest("id0"); known {
		t.Error("the first request is remembered")
	}
}

// Processes compare what they fold, so the order in which a map is walked must not show.
func TestStateDependsOnTheRecordsAlone(t *testing.T) {
	var steps []step
	for i := range 8 {
		id := fmt.Sprint(i)
		steps = append(steps, asks("q"+id), wantsApproval("a"+id, "same"), prompted("p"+id), queued("p"+id), claimed())
	}
	steps = append(steps, turnStart(1), resolvedApproval("same"), turnEnd(1, ReasonAborted))
	want := toJSON(t, tell(t, steps...).state)
	for range 20 {
		if got := toJSON(t, tell(t, steps...).state); got != want {
			t.Fatal(cmp.Diff(want, got))
		}
	}
}

func TestFoldTakesAnyRecordThatCanBeRead(t *testing.T) {
	most := int64(1<<63 - 1)
	seq := func(n int64) *int64 { return &n }
	for name, r := range map[string]Record{
		"an unknown type":                {Type: "newer/thing", Coordination: Coordination{RequestID: "x"}},
		"an unknown event":               {Type: TypeEvent, SourceSeq: seq(5), Coordination: Coordination{Event: "newer/event"}},
		"the highest seq":                {Type: TypeEvent, SourceSeq: seq(most), Coordination: Coordination{Event: "turn/start", Turn: -1}},
		"a splice without its change":    {Type: TypeEvent, SourceSeq: seq(1), Coordination: Coordination{Event: "agent/inbox/spliced"}},
		"a splice before the beginning":  splice(-5, -5),
		"a splice behind the end":        splice(int(most), int(most)),
		"a splice of everything":         splice(1, int(most)),
		"a gap that goes backwards":      {Type: TypeGap, Coordination: Coordination{From: 9, To: -9}},
		"a gap without end":              {Type: TypeGap, Coordination: Coordination{To: most}},
		"a request without an id":        {Type: TypeQuestionRequested},
		"a replay without an id":         {Type: TypeReplayed},
		"an answer without an id":        {Type: TypeQuestionResolved},
		"a decision without an id":       {Type: TypeApprovalResolved},
		"a prompt without an id":         {Type: TypePromptIssued, Coordination: Coordination{Outcome: PromptAccepted}},
		"a turn that was never seen":     {Type: TypeTurnInterrupted, SourceSessionID: "other"},
		"a prompt that was never issued": {Type: TypeTurnInterrupted, Coordination: Coordination{RequestID: "p9"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := tell(t, turnStart(1), prompted("p1"), queued("p1"), queued("p2"), asks("q"), turnEnd(1, ReasonCompleted))
			if r.SourceSessionID == "" {
				r.SourceSessionID = root
			}
			r.Cursor = s.state.Cursor + 1
			s.state.apply(&r)
			if s.state.Cursor != r.Cursor {
				t.Errorf("cursor is %d, want %d", s.state.Cursor, r.Cursor)
			}
			if _, nameless := s.state.Pending[""]; nameless || s.state.Prompts[""] != nil {
				t.Error("something without an id is waited for, and nothing can end that")
			}
		})
	}
}

func splice(start, removed int) Record {
	seq := int64(100)
	return Record{Type: TypeEvent, SourceSeq: &seq, Coordination: Coordination{Event: "agent/inbox/spliced",
		Inbox: &InboxChange{Target: "next-turn", Start: start, Removed: removed, Inserted: []InboxItem{{ID: "i"}}}}}
}

func TestKindsOfExecution(t *testing.T) {
	type kind struct{ terminal, attention bool }
	for execution, want := range map[Execution]kind{
		Starting: {}, Running: {},
		AwaitingApproval: {attention: true}, AwaitingInput: {attention: true},
		TurnCompleted: {terminal: true}, Failed: {terminal: true}, Canceled: {terminal: true}, Interrupted: {terminal: true},
	} {
		if got := (kind{execution.Terminal(), execution.NeedsAttention()}); got != want {
			t.Errorf("%s is %+v, want %+v", execution, got, want)
		}
	}
}

// That a prompt died with its host may be found out too late: one that the history shows has not died.
func TestPromptThatArrivedIsNotLost(t *testing.T) {
	f := newFolder(t)
	now := time.UnixMilli(1_700_000_000_000)
	l := Open(Options{Dir: f.dir, TaskID: task, Root: root, Lock: f.lock, Disk: f.disk, Now: func() time.Time {
		now = now.Add(time.Second)
		return now
	}})
	issued := func(outcome string) Entry {
		return other(TypePromptIssued, Coordination{RequestID: "p1", Outcome: outcome})
	}
	appendAll(t, l, issued(PromptSending))
	sent := held(t, l).Prompts["p1"].Since
	appendAll(t, l, issued(PromptUnknown))
	since := held(t, l).Prompts["p1"].Since
	if since == sent {
		t.Error("a prompt of which nothing is known cannot have arrived later than it was sent")
	}
	appendAll(t, l, issued(PromptAccepted))
	if p := held(t, l).Prompts["p1"]; p.Since != since || p.Outcome != PromptAccepted {
		t.Errorf("the prompt is %+v, sent at %d", p, since)
	}
	appendAll(t, l, timed(root, 0, "agent/inbox/spliced", 10, Coordination{Inbox: &InboxChange{Target: "next-turn", Inserted: []InboxItem{{ID: "m1", RequestID: "p1"}}}}))
	done, err := l.Append(t.Context(), []Entry{other(TypeTurnInterrupted, Coordination{RequestID: "p1"})})
	if err != nil || done.Added != 0 {
		t.Errorf("%d records were added: %v", done.Added, err)
	}
	if held(t, l).Prompts["p1"] == nil {
		t.Error("the prompt is lost")
	}
}
