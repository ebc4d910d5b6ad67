package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// done is a first turn that came to its end.
func done(reason string) step {
	return func(s *story) {
		s.tb.Helper()
		s.tell(turnStart(1), turnEnd(1, reason))
	}
}

// takenUp is the next turn, which takes the first message of the inbox.
func takenUp(turn int, prompt string) step {
	return func(s *story) {
		s.tb.Helper()
		s.tell(turnStart(turn), claimed(), message(prompt))
	}
}

// From the moment a prompt is accepted until it is a message or out of the queue, the task must not show the end of the
// turn before: whoever waits for the new turn would take it for that.
func TestExecutionFollowsPrompts(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []step
		want  Execution
	}{
		{"the first, accepted", []step{prompted("p")}, Starting},
		{"the first, refused", []step{issue("p", PromptSending), issue("p", PromptRefused)}, Starting},

		{"being sent", []step{done(ReasonCompleted), issue("p", PromptSending)}, TurnCompleted},
		{"refused", []step{done(ReasonCompleted), issue("p", PromptSending), issue("p", PromptRefused)}, TurnCompleted},
		{"unknown", []step{done(ReasonCompleted), issue("p", PromptSending), issue("p", PromptUnknown)}, TurnCompleted},
		{"unknown, but it lies in the inbox", []step{done(ReasonCompleted), issue("p", PromptSending), issue("p", PromptUnknown), queued("p")}, Starting},
		{"in the inbox, before the call broke off", []step{done(ReasonCompleted), issue("p", PromptSending), queued("p"), issue("p", PromptUnknown)}, Starting},
		{"in the inbox, and the bridge that sent it died", []step{done(ReasonCompleted), issue("p", PromptSending), queued("p")}, Starting},
		{"accepted", []step{done(ReasonCompleted), prompted("p")}, Starting},
		{"accepted after a failure", []step{done(ReasonError), prompted("p")}, Starting},
		{"in the inbox", []step{done(ReasonCompleted), prompted("p"), queued("p")}, Starting},
		{"its turn begun", []step{done(ReasonCompleted), prompted("p"), queued("p"), turnStart(2)}, Running},
		{"its turn ended", []step{done(ReasonCompleted), prompted("p"), queued("p"), takenUp(2, "p"), turnEnd(2, ReasonCompleted)}, TurnCompleted},
		{"its turn aborted before it was a message", []step{done(ReasonCompleted), prompted("p"), queued("p"), turnStart(2), claimed(), turnEnd(2, ReasonAborted)}, Canceled},
		{"accepted is recorded behind all that", []step{done(ReasonCompleted), issue("p", PromptSending), queued("p"), turnStart(2), claimed(), turnEnd(2, ReasonAborted), issue("p", PromptAccepted)}, Canceled},
		{"accepted is recorded behind its message", []step{issue("p", PromptSending), queued("p"), takenUp(1, "p"), turnEnd(1, ReasonCompleted), issue("p", PromptAccepted)}, TurnCompleted},
		{"somebody else's message", []step{done(ReasonCompleted), queued("theirs"), takenUp(2, "theirs"), turnEnd(2, ReasonCompleted)}, TurnCompleted},

		{"queued, and the turn completed", []step{turnStart(1), prompted("p"), queued("p"), turnEnd(1, ReasonCompleted)}, Starting},
		{"parked by an abort", []step{turnStart(1), prompted("p"), queued("p"), turnEnd(1, ReasonAborted)}, Canceled},
		{"parked by a failure", []step{turnStart(1), prompted("p"), queued("p"), turnEnd(1, ReasonError)}, Failed},
		{"parked by the host's death", []step{turnStart(1), prompted("p"), queued("p"), turnEnd(1, ReasonInterrupted)}, Interrupted},
		{"parked by the host's death, inferred", []step{turnStart(1), prompted("p"), queued("p"), observe(TypeTurnInterrupted, Coordination{})}, Interrupted},
		{"steering that was too late is parked too", []step{turnStart(1), prompted("p"),
			spliced(InboxChange{Target: "next-step", Inserted: []InboxItem{{ID: "i", RequestID: "p"}}}, ""), turnEnd(1, ReasonAborted)}, Canceled},
		{"parked, and accepted is recorded behind that", []step{turnStart(1), issue("p", PromptSending), queued("p"), turnEnd(1, ReasonAborted), issue("p", PromptAccepted)}, Canceled},
		{"not in the inbox yet when the turn is aborted", []step{turnStart(1), prompted("p"), turnEnd(1, ReasonAborted)}, Starting},
		{"parked, and another prompt accepted", []step{turnStart(1), prompted("p"), queued("p"), turnEnd(1, ReasonAborted), prompted("p2")}, Starting},
		{"parked, and another prompt refused", []step{turnStart(1), prompted("p"), queued("p"), turnEnd(1, ReasonAborted), issue("p2", PromptSending), issue("p2", PromptRefused)}, Canceled},
		{"parked, and taken up before the other prompt", []step{turnStart(1), prompted("p"), queued("p"), turnEnd(1, ReasonAborted),
			prompted("p2"), spliced(InboxChange{Target: "next-turn", Start: 1, Inserted: []InboxItem{{ID: "i2", RequestID: "p2"}}}, ""),
			takenUp(2, "p"), turnEnd(2, ReasonCompleted)}, Starting},
		{"parked, and both done", []step{turnStart(1), prompted("p"), queued("p"), turnEnd(1, ReasonAborted),
			prompted("p2"), spliced(InboxChange{Target: "next-turn", Start: 1, Inserted: []InboxItem{{ID: "i2", RequestID: "p2"}}}, ""),
			takenUp(2, "p"), turnEnd(2, ReasonCompleted), takenUp(3, "p2"), turnEnd(3, ReasonCompleted)}, TurnCompleted},

		{"two parked, and something new begins a turn with the first", []step{turnStart(1), prompted("p2"), queued("p2"), prompted("p"), queued("p"), turnEnd(1, ReasonAborted),
			takenUp(2, "p"), turnEnd(2, ReasonCompleted)}, Starting},
		{"two parked, and that turn is aborted too", []step{turnStart(1), prompted("p2"), queued("p2"), prompted("p"), queued("p"), turnEnd(1, ReasonAborted),
			takenUp(2, "p"), turnEnd(2, ReasonAborted)}, Canceled},

		{"taken out of the queue", []step{turnStart(1), prompted("p"), queued("p"), unqueued(), turnEnd(1, ReasonCompleted)}, TurnCompleted},
		{"taken out while parked", []step{turnStart(1), prompted("p"), queued("p"), turnEnd(1, ReasonError), unqueued()}, Failed},
		{"taken out before accepted was recorded", []step{done(ReasonCompleted), issue("p", PromptSending), queued("p"), unqueued(), issue("p", PromptAccepted)}, TurnCompleted},
		{"changed in the queue", []step{turnStart(1), prompted("p"), queued("p"),
			spliced(InboxChange{Target: "next-turn", Removed: 1, Inserted: []InboxItem{{ID: "item-p", RequestID: "p"}}}, "canceled"), turnEnd(1, ReasonCompleted)}, Starting},
		{"moved in the queue", []step{turnStart(1), prompted("p"), queued("p"), unqueued(),
			spliced(InboxChange{Target: "next-step", Inserted: []InboxItem{{ID: "item-p", RequestID: "p"}}}, ""), turnEnd(1, ReasonCompleted)}, Starting},
		{"another one taken out", []step{turnStart(1), prompted("p"), queued("p"), queued("theirs"), unqueued(), turnEnd(1, ReasonCompleted)}, Starting},

		{"died with the host, before it was written down", []step{done(ReasonCompleted), prompted("p"), observe(TypeTurnInterrupted, Coordination{RequestID: "p"})}, TurnCompleted},
		{"in the inbox of a host that was started anew", []step{done(ReasonInterrupted), prompted("p"), queued("p"), observe(TypeTurnInterrupted, Coordination{RequestID: "p", Outcome: PromptParked})}, Interrupted},
		{"parked there, and another prompt accepted", []step{done(ReasonInterrupted), prompted("p"), queued("p"), observe(TypeTurnInterrupted, Coordination{RequestID: "p", Outcome: PromptParked}), prompted("p2")}, Starting},
		{"said to be parked, and its turn has begun", []step{done(ReasonInterrupted), prompted("p"), queued("p"), turnStart(2), observe(TypeTurnInterrupted, Coordination{RequestID: "p", Outcome: PromptParked})}, Running},
		{"its message in a gap", []step{done(ReasonCompleted), prompted("p"), queued("p"), lost(9), turnEnd(2, ReasonCompleted)}, TurnCompleted},
		{"queued behind a gap", []step{done(ReasonCompleted), prompted("p"), lost(9), queued("p")}, Starting},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tell(t, tt.steps...).state.Execution(); got != tt.want {
				t.Errorf("execution is %s, want %s", got, tt.want)
			}
		})
	}
}

func TestMessagesOfThisHomeAreMarked(t *testing.T) {
	s := tell(t, prompted("ours"), queued("ours"), takenUp(1, "ours"), queued("theirs"), unqueued(), message("theirs"), message(""))
	got := map[string]bool{}
	for _, r := range s.records {
		if r.Coordination.Event == "user/message" {
			got[r.Coordination.RequestID] = r.Coordination.Bridge
		}
	}
	if diff := cmp.Diff(map[string]bool{"ours": true, "theirs": false, "": false}, got); diff != "" {
		t.Error(diff)
	}
}

func TestArrivedIsWhatTheHistoryShows(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []step
		want  bool
	}{
		{"never heard of", nil, false},
		{"sent", []step{issue("p", PromptSending)}, false},
		{"accepted", []step{prompted("p")}, false},
		{"in the inbox", []step{queued("p")}, true},
		{"claimed", []step{prompted("p"), queued("p"), claimed()}, true},
		{"taken out by a person", []step{prompted("p"), queued("p"), unqueued()}, true},
		{"a message", []step{message("p")}, true},
		{"lost with its turn", []step{prompted("p"), queued("p"), turnStart(1), claimed(), turnEnd(1, ReasonAborted)}, true},
		{"unknown, with a gap behind it", []step{issue("p", PromptUnknown), lost(3)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tell(t, tt.steps...).state.Arrived("p"); got != tt.want {
				t.Errorf("arrived is %v", got)
			}
		})
	}
}

func TestIssuedPromptAnswersARepeatedCall(t *testing.T) {
	issue := func(outcome string) step {
		return observe(TypePromptIssued, Coordination{RequestID: "p", Outcome: outcome, Fingerprint: "f1"})
	}
	for _, tt := range []struct {
		name  string
		steps []step
		want  Issued
	}{
		{"being sent", []step{issue(PromptSending)}, Issued{Outcome: PromptSending, Cursor: 1}},
		{"accepted", []step{issue(PromptSending), issue(PromptAccepted)}, Issued{Outcome: PromptAccepted, Cursor: 2}},
		{"refused", []step{issue(PromptSending), issue(PromptRefused)}, Issued{Outcome: PromptRefused, Cursor: 2}},
		{"sent again after it was refused", []step{issue(PromptSending), issue(PromptRefused), issue(PromptSending), issue(PromptAccepted)}, Issued{Outcome: PromptAccepted, Cursor: 4}},
		{"unknown", []step{issue(PromptSending), issue(PromptUnknown)}, Issued{Outcome: PromptUnknown, Cursor: 2}},
		{"unknown, and it came", []step{issue(PromptSending), issue(PromptUnknown), message("p")}, Issued{Outcome: PromptAccepted, Cursor: 3}},
		{"unknown, and it lies in the inbox", []step{issue(PromptSending), issue(PromptUnknown), queued("p")}, Issued{Outcome: PromptAccepted, Cursor: 3}},
		{"it came before the call broke off", []step{issue(PromptSending), queued("p"), issue(PromptUnknown)}, Issued{Outcome: PromptAccepted, Cursor: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.RequestID, tt.want.Fingerprint = "p", "f1"
			got, known := tell(t, tt.steps...).state.IssuedPrompt("p")
			if !known || got != tt.want {
				t.Errorf("issued is %+v, want %+v", got, tt.want)
			}
		})
	}
	if _, known := tell(t, prompted("p")).state.IssuedPrompt("p"); known {
		t.Error("a prompt that its caller may not repeat is kept")
	}
}
