package mux

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// interrupted are the records of what died, as "turn" or the id of the prompt.
func interrupted(tb testing.TB, t *Task) []string {
	tb.Helper()
	var list []string
	for _, r := range records(tb, t) {
		if r.Type == ledger.TypeTurnInterrupted {
			list = append(list, fmt.Sprintf("%s%s%s turn %d", r.Coordination.RequestID, r.Coordination.Reason, r.Coordination.Outcome, r.Coordination.Turn))
		}
	}
	return list
}

// A turn is recorded as interrupted only when it is really dead: its history, read to the end, leaves it open, nothing
// has come of its session on this connection, and the host says that nothing runs.
func TestTurnIsInterrupted(t *testing.T) {
	for _, tt := range []struct {
		name string
		// back is what the host is like when it is back.
		back func(s *set)
		want []string
	}{
		{"it died with the host", func(s *set) {}, []string{" turn 1"}},
		{"the host ends it in its history", func(s *set) { s.write("root", "step/end", "turn/end") }, nil},
		{"it runs, and its first frame got lost", func(s *set) { s.change("root", func(row *dsh.Session) { row.Running = true }) }, nil},
		{"the host holds its session", func(s *set) { s.later(subscribedFrame("root", 1)) }, nil},
		{"it has just ended, and that is on its way", func(s *set) {
			s.hook("list", func(_ context.Context, n int) error {
				if n > 2 { // behind the reading of the history
					s.hook("list", nil)
					for _, ev := range s.write("root", "turn/end") {
						s.listed("root", ev)
					}
				}
				return nil
			})
		}, nil},
		{"the session is not on the list", func(s *set) {
			s.mu.Lock()
			s.order = nil
			s.mu.Unlock()
		}, nil},
		{"the history cannot be read", func(s *set) { s.hook("history", onCall(true)) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				task := s.start()
				s.send(subscribedFrame("root", -1))
				s.live("root", "turn/start", "step/start")
				synctest.Wait()
				current(t, task)
				s.change("root", func(row *dsh.Session) { row.Running, row.LastSeq = false, -1 })
				tt.back(s)
				s.reconnect()
				s.send(s.deferred...)
				second := s.another().Track(taskID, "root")
				second.m.Start()
				synctest.Wait()
				s.send(s.deferred...)
				time.Sleep(time.Minute)
				for range 3 {
					_ = task.Current(within(t))
					_ = second.Current(within(t))
				}
				if diff := cmp.Diff(tt.want, interrupted(t, task)); diff != "" {
					t.Error(diff)
				}
				if n := s.count("list"); n > 12 {
					t.Errorf("it took %d lists", n)
				}
				want := ledger.Running
				switch {
				case tt.want != nil:
					want = ledger.Interrupted
				case tt.name == "the host ends it in its history", tt.name == "it has just ended, and that is on its way":
					want = ledger.TurnCompleted
				}
				if snap := look(t, task); snap.Execution != want {
					t.Errorf("the execution is %s, want %s", snap.Execution, want)
				}
			})
		})
	}
}

// The host's own word on how the turn ended is the last one.
func TestHostsEndSupersedes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", "turn/start", "step/start")
		task := s.start()
		current(t, task)
		time.Sleep(time.Minute)
		if snap := current(t, task); snap.Execution != ledger.Interrupted || !snap.Turn.Ended || snap.Turn.EndSeq != 0 {
			t.Fatalf("the task is %s: %+v", snap.Execution, snap.Turn)
		}
		s.reconnect()
		s.send(subscribedFrame("root", 1))
		s.live("root", "step/end", "turn/end")
		await(t, task, "the host's end", func(snap Snapshot) bool { return snap.Execution == ledger.TurnCompleted && snap.Turn.EndSeq == 3 })
	})
}

// A prompt that the host accepted and never wrote down died with it, and is closed; one that lies in its inbox
// lives on, but nothing comes of it before another prompt does.
func TestPromptThatDied(t *testing.T) {
	for _, tt := range []struct {
		name    string
		outcome string
		history []string
		want    []string
	}{
		{"accepted, not in the history", ledger.PromptAccepted, nil, []string{"p-1 turn 0"}},
		{"unknown, not in the history", ledger.PromptUnknown, nil, []string{"p-1 turn 0"}},
		{"being sent, for a long time", ledger.PromptSending, nil, []string{"p-1 turn 0"}},
		{"refused", ledger.PromptRefused, nil, nil},
		{"in the inbox, from which nothing is taken", ledger.PromptAccepted, []string{"inbox"}, []string{"p-1parked turn 0"}},
		{"a message", ledger.PromptAccepted, []string{"inbox", "turn/start", "message", "turn/end"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				s.write("root", aTurn...)
				task := s.start()
				current(t, task)
				issued := record(ledger.TypePromptIssued, source{id: "root", origin: ledger.OriginRoot}, ledger.Coordination{RequestID: "p-1", Outcome: tt.outcome})
				if err := task.append(t.Context(), 0, []ledger.Entry{issued}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * maxSending)
				for _, kind := range tt.history {
					s.writePrompt("root", kind, "p-1")
				}
				s.reconnect()
				time.Sleep(time.Minute)
				current(t, task)
				if diff := cmp.Diff(tt.want, interrupted(t, task)); diff != "" {
					t.Error(diff)
				}
				if snap := look(t, task); snap.Execution != ledger.TurnCompleted {
					t.Errorf("the execution is %s, want %s", snap.Execution, ledger.TurnCompleted)
				}
			})
		})
	}
}

// A host was started anew that has lost a prompt, or has it in its inbox and takes it no more; and it holds the session,
// since a person opened it. The frames of the session say nothing of the prompt, but the list tells that nothing runs.
func TestPromptUnfinishedInALivingSession(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kept   bool // the prompt is in the inbox
		opened bool // the session is in the host's memory
		late   bool // that the host took it can be recorded only when it was started anew already
		happen func(s *set)
		want   []string
	}{
		{"nothing takes it", true, true, false, func(*set) {}, []string{"p-1parked turn 0"}},
		{"the host lost it", false, true, false, func(*set) {}, []string{"p-1 turn 0"}},
		{"nothing takes it, and it was hard to write down", true, true, true, func(*set) {}, []string{"p-1parked turn 0"}},
		{"the host lost it, and it was hard to write down", false, true, true, func(*set) {}, []string{"p-1 turn 0"}},
		{"nobody opened the session, and it was hard to write down", true, false, true, func(*set) {}, []string{"p-1parked turn 0"}},
		{"nobody opened the session, the host lost it, and it was hard to write down", false, false, true, func(*set) {}, []string{"p-1 turn 0"}},
		{"nobody opened the session", true, false, false, func(*set) {}, []string{"p-1parked turn 0"}},
		{"nobody opened the session, and the host lost it", false, false, false, func(*set) {}, []string{"p-1 turn 0"}},
		{"a turn takes it", true, true, false, func(s *set) { s.live("root", "turn/start") }, nil},
		{"a turn runs, and its first frame got lost", true, true, false, func(s *set) { s.change("root", func(row *dsh.Session) { row.Running = true }) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				s.write("root", aTurn...)
				task := s.start()
				current(t, task)
				restart := func() {
					time.Sleep(time.Second)
					if tt.kept {
						s.writePrompt("root", "inbox", "p-1")
					}
					last := s.last("root")
					s.change("root", func(row *dsh.Session) { row.LastSeq = last })
					s.reconnect()
					if tt.opened {
						s.send(subscribedFrame("root", last))
					}
					synctest.Wait()
					current(t, task)
				}
				if tt.late {
					s.hook("prompt", func(context.Context, int) error {
						restart()
						time.Sleep(time.Second)
						return nil
					})
				}
				if err := task.Prompt(t.Context(), dsh.PromptRequest{SessionID: "root", RPCID: "p-1", Mode: dsh.ModeQueue}, ""); err != nil {
					t.Fatal(err)
				}
				if !tt.late {
					restart()
				}
				tt.happen(s)
				time.Sleep(5 * time.Minute)
				if diff := cmp.Diff(tt.want, interrupted(t, task)); diff != "" {
					t.Error(diff)
				}
				if snap := look(t, task); (snap.Execution == ledger.TurnCompleted) != (tt.want != nil) {
					t.Errorf("the execution is %s", snap.Execution)
				}
				before := s.count("list")
				time.Sleep(time.Hour)
				if n := s.count("list") - before; n > 0 && tt.want != nil {
					t.Errorf("the host is asked %d times more", n)
				}
			})
		})
	}
}

// writePrompt appends an event that speaks of a prompt.
func (f *fake) writePrompt(id, kind, rpcID string) {
	types := map[string]string{"inbox": "agent/inbox/spliced", "message": "user/message"}
	data := map[string]string{
		"inbox":   `{"target":"next-turn","start":0,"inserted":[{"id":"i-1","source":{"kind":"user","rpcId":"` + rpcID + `"}}]}`,
		"message": `{"id":"i-1","source":{"kind":"user","rpcId":"` + rpcID + `"}}`,
	}
	if types[kind] == "" {
		f.write(id, kind)
		return
	}
	f.write(id, types[kind])
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.logs[id]
	log[len(log)-1].Data = []byte(data[kind])
}

// A prompt that is on its way while the connection is lost and found again is not given up.
func TestPromptOnItsWayIsNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", aTurn...)
		task := s.start()
		current(t, task)
		answer := make(chan struct{})
		s.hook("prompt", func(context.Context, int) error {
			<-answer
			s.write("root", "turn/start")
			last := s.last("root")
			s.change("root", func(row *dsh.Session) { row.Running, row.LastSeq = true, last })
			return nil
		})
		sent := make(chan error)
		go func() {
			sent <- task.Prompt(within(t), dsh.PromptRequest{RPCID: "p-1", SessionID: "root", Text: "go"}, "")
		}()
		time.Sleep(time.Second)
		s.reconnect()
		time.Sleep(10 * time.Second)
		current(t, task)
		if dead := interrupted(t, task); len(dead) > 0 {
			t.Errorf("while it is on its way, dead are %v", dead)
		}
		close(answer)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if snap := look(t, task); snap.Execution != ledger.Running || len(interrupted(t, task)) > 0 {
			t.Errorf("the task is %s, dead are %v", snap.Execution, interrupted(t, task))
		}
	})
}

// A turn that is cancelled before the model said anything ends in silence; the host's list tells.
func TestTurnThatEndsInSilence(t *testing.T) {
	for _, tt := range []struct {
		name   string
		happen func(s *set)
		want   []string
	}{
		{"nothing runs any more", func(s *set) { s.change("root", func(row *dsh.Session) { row.Running = false }) }, []string{"aborted turn 1"}},
		{"it was renamed since", func(s *set) {
			s.live("root", "session/title")
			s.change("root", func(row *dsh.Session) { row.Running = false })
		}, []string{"aborted turn 1"}},
		{"it only takes its time", func(s *set) {}, nil},
		{"its end got lost", func(s *set) {
			for _, ev := range s.write("root", "turn/end") {
				s.listed("root", ev)
			}
		}, nil},
		{"the next turn begins", func(s *set) { s.live("root", "turn/start") }, nil},
		{"the host does not say where the session stands", func(s *set) {
			s.change("root", func(row *dsh.Session) { row.Running, row.LastSeq = false, -1 })
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSet(t)
				task := s.start()
				s.send(subscribedFrame("root", -1))
				s.live("root", "turn/start", "step/start", "step/end")
				synctest.Wait()
				tt.happen(s)
				lists := s.count("list")
				time.Sleep(10 * time.Minute)
				if diff := cmp.Diff(tt.want, interrupted(t, task)); diff != "" {
					t.Error(diff)
				}
				want := ledger.Running
				switch {
				case tt.want != nil:
					want = ledger.Canceled
				case tt.name == "its end got lost":
					want = ledger.TurnCompleted // found out, without anybody asking
				}
				if snap := look(t, task); snap.Execution != want {
					t.Errorf("the execution is %s, want %s", snap.Execution, want)
				}
				if n := s.count("list") - lists; n > 60 {
					t.Errorf("it took %d lists", n)
				}
			})
		})
	}
}
