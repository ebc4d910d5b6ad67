package mux

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// issued are the outcomes that are recorded of prompts, in order.
func issued(tb testing.TB, t *Task) []string {
	tb.Helper()
	var list []string
	for _, r := range records(tb, t) {
		if r.Type == ledger.TypePromptIssued {
			c := r.Coordination
			list = append(list, c.RequestID+" "+c.Outcome)
			if c.Mode != "queue" || c.Fingerprint != "f-1" {
				tb.Errorf("recorded with mode %q and fingerprint %q", c.Mode, c.Fingerprint)
			}
		}
	}
	return list
}

var aPrompt = dsh.PromptRequest{RPCID: "p-1", SessionID: "root", Mode: dsh.ModeQueue, Text: "go"}

// What became of a prompt is recorded, as far as it is known, for every way in which a call can end.
func TestPromptOutcomes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		failure error
		want    string
	}{
		{"accepted", nil, ledger.PromptAccepted},
		{"not sent", away(), ledger.PromptRefused},
		{"refused", refused("session.prompt", dsh.CodeAgentBusy), ledger.PromptRefused},
		{"another generation", &dsh.Error{Kind: dsh.Incompatible}, ledger.PromptRefused},
		{"unknown", &dsh.Error{Kind: dsh.OutcomeUnknown}, ledger.PromptUnknown},
		{"malformed", &dsh.Error{Kind: dsh.Malformed}, ledger.PromptUnknown},
		{"too large", &dsh.Error{Kind: dsh.TooLarge}, ledger.PromptUnknown},
		{"of no kind", errors.New("odd"), ledger.PromptUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				task := s.start()
				s.hook("prompt", func(context.Context, int) error {
					if diff := cmp.Diff([]string{"p-1 sending"}, issued(t, task)); diff != "" {
						t.Errorf("before the call: %s", diff)
					}
					return tt.failure
				})
				changed := task.Changed()
				if err := task.Prompt(within(t), aPrompt, "f-1"); err != tt.failure {
					t.Errorf("the failure is %v", err)
				}
				<-changed
				if diff := cmp.Diff([]string{"p-1 sending", "p-1 " + tt.want}, issued(t, task)); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff([]dsh.PromptRequest{aPrompt}, s.prompts); diff != "" {
					t.Errorf("sent were: %s", diff)
				}
				known, found, err := task.IssuedPrompt("p-1")
				if err != nil || !found || known.Outcome != tt.want || known.Fingerprint != "f-1" {
					t.Errorf("known is %+v %v %v", known, found, err)
				}
				if arrived, err := task.Arrived("p-1"); arrived || err != nil {
					t.Errorf("arrived: %v %v", arrived, err)
				}
			})
		})
	}
}

// A caller that goes away right behind its prompt leaves no doubt about what it did.
func TestPromptWhoseCallerGoesAway(t *testing.T) {
	for name, sent := range map[string]bool{"after sending": true, "before": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				task := s.start()
				ctx, cancel := context.WithCancel(t.Context())
				var failure error = &dsh.Error{Kind: dsh.OutcomeUnknown, Err: context.Canceled}
				s.hook("prompt", func(context.Context, int) error { cancel(); return failure })
				want := []string{"p-1 sending", "p-1 unknown"}
				if !sent {
					cancel()
					want = nil
				}
				if err := task.Prompt(ctx, aPrompt, "f-1"); !errors.Is(err, context.Canceled) {
					t.Errorf("the failure is %v", err)
				}
				if diff := cmp.Diff(want, issued(t, task)); diff != "" {
					t.Error(diff)
				}
				if n := s.count("prompt"); (n == 1) != sent {
					t.Errorf("%d prompts were sent", n)
				}
			})
		})
	}
}

// A disk that fails before the call keeps the prompt from being sent. One that fails behind it leaves the outcome to be
// recorded as soon as it can be, with the host away or not.
func TestPromptOnABrokenDisk(t *testing.T) {
	for name, present := range map[string]bool{"with the host": true, "without it": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				task := s.start()
				s.disk.set(failing(true), nil)
				if err := task.Prompt(within(t), aPrompt, "f-1"); !errors.Is(err, errDisk) {
					t.Errorf("the failure is %v", err)
				}
				if n := s.count("prompt"); n != 0 {
					t.Fatalf("%d prompts were sent", n)
				}
				s.disk.set(nil, nil)
				s.hook("prompt", func(context.Context, int) error {
					s.disk.set(nil, failing(true))
					if !present {
						s.hook("subscribe", func(context.Context, int) error { return away() })
						s.stream().cut()
					}
					return nil
				})
				if err := task.Prompt(within(t), aPrompt, "f-1"); err != nil {
					t.Errorf("the failure is %v", err)
				}
				time.Sleep(time.Minute)
				s.disk.set(nil, nil)
				if snap := look(t, task); snap.Fault == nil {
					t.Error("there is no fault")
				}
				time.Sleep(time.Minute) // the pause before the next try is up to chance
				await(t, task, "the record", func(snap Snapshot) bool { return snap.Cursor == 2 })
				if diff := cmp.Diff([]string{"p-1 sending", "p-1 accepted"}, issued(t, task)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// An answer is sent once, and its receipt is recorded.
func TestRespondOutcomes(t *testing.T) {
	unknown := &dsh.Error{Kind: dsh.OutcomeUnknown}
	for _, tt := range []struct {
		name    string
		receipt dsh.Receipt
		failure error
		want    []string
		pending []string
		unsure  bool
	}{
		{"accepted", dsh.Receipt{Accepted: true}, nil, []string{"question/requested q-1", "respond/accepted q-1"}, []string{"q-1"}, false},
		{"not pending", dsh.Receipt{Reason: dsh.ReasonNotPending}, nil, []string{"question/requested q-1", "respond/not-pending q-1"}, []string{"q-1"}, false},
		{"bad response", dsh.Receipt{Reason: dsh.ReasonBadResponse}, nil, []string{"question/requested q-1"}, []string{"q-1"}, false},
		{"not sent", dsh.Receipt{}, away(), []string{"question/requested q-1"}, []string{"q-1"}, false},
		{"unknown", dsh.Receipt{}, unknown, []string{"question/requested q-1"}, []string{"q-1"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				s.m.opts.Host = respondingHost{s.fake, tt.receipt, tt.failure}
				task := s.start()
				s.aRequest()
				await(t, task, "the question", func(snap Snapshot) bool { return len(snap.Requests) == 1 })
				got, err := task.Respond(within(t), dsh.Answer{RPCID: "q-1", SessionID: "root", Cancel: true})
				if got != tt.receipt || err != tt.failure {
					t.Errorf("got %+v, %v", got, err)
				}
				if diff := cmp.Diff(tt.want, kinds(t, task)); diff != "" {
					t.Error(diff)
				}
				snap := look(t, task)
				if diff := cmp.Diff(tt.pending, asked(snap)); diff != "" {
					t.Error(diff)
				}
				if len(snap.Requests) == 1 && snap.Requests[0].Unsure != tt.unsure {
					t.Errorf("unsure: %v", snap.Requests[0].Unsure)
				}
			})
		})
	}
}

type respondingHost struct {
	*fake
	receipt dsh.Receipt
	failure error
}

func (h respondingHost) Respond(ctx context.Context, _ dsh.Answer) (dsh.Receipt, error) {
	if err := h.enter(ctx, "respond"); err != nil {
		return dsh.Receipt{}, err
	}
	return h.receipt, h.failure
}

// An approval that nobody decides in time is rejected, once; one that is decided, or not known to be pending any more, is
// left alone.
func TestApprovalExpires(t *testing.T) {
	for _, tt := range []struct {
		name   string
		happen func(s *set)
		want   int
	}{
		{"nobody decides", func(*set) {}, 1},
		{"it is decided", func(s *set) { s.send(decidedFrame("root", "a-1")) }, 0},
		{"the host is gone", func(s *set) {
			s.hook("subscribe", func(context.Context, int) error { return away() })
			s.stream().cut()
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				s.m.opts.Host = respondingHost{s.fake, dsh.Receipt{Accepted: true}, nil}
				s.m.opts.ApprovalTimeout = time.Minute
				s.start()
				s.send(subscribedFrame("root", -1))
				s.live("root", "turn/start")
				s.send(approvalFrame("root", "q-1", "a-1"))
				time.Sleep(59 * time.Second)
				if n := s.count("respond"); n != 0 {
					t.Errorf("after less than a minute there were %d answers", n)
				}
				tt.happen(s)
				time.Sleep(10 * time.Minute)
				if n := s.count("respond"); n != tt.want {
					t.Errorf("there were %d answers", n)
				}
			})
		})
	}
}
