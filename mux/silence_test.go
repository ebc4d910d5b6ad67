package mux

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// The end of a silent turn may be recorded by another process. Who watches the silence sees it, and asks no more.
func TestSilenceThatAnotherProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		task := s.start()
		s.live("root", "turn/start", "step/start", "step/end")
		current(t, task)
		s.change("root", func(row *dsh.Session) { row.Running = true }) // as the host says for a moment longer
		before := s.count("list")
		time.Sleep(5 * time.Minute)
		if s.count("list") == before {
			t.Fatal("nobody asks for the silent turn")
		}
		end := scrub(s.write("root", "turn/end")[0], 3, source{id: "root", origin: ledger.OriginRoot})
		if _, err := s.m.opts.Ledger(task.ID, task.Root).Append(t.Context(), []ledger.Entry{end}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * maxSilence)
		before = s.count("list")
		time.Sleep(time.Hour)
		if n := s.count("list") - before; n > 0 {
			t.Errorf("the host is asked %d times more", n)
		}
	})
}

// The list was ahead of what is recorded when the task was looked at, since frames got lost, and no frame of the session
// has come: that its turn runs no more is found out all the same, with nobody asking.
func TestSilenceOfASessionThatWasNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t)
		s.write("root", "turn/start", "step/start")
		s.change("root", func(row *dsh.Session) { row.Running, row.LastSeq = true, 1 })
		lists := 0
		s.hook("list", func(context.Context, int) error {
			if lists++; lists == 2 { // behind the one that opens the connection
				s.write("root", "step/end")
				s.change("root", func(row *dsh.Session) { row.Running, row.LastSeq = false, 2 })
			}
			return nil
		})
		task := s.start()
		task.wake()
		time.Sleep(10 * time.Minute)
		if snap := look(t, task); !snap.Turn.Ended {
			t.Errorf("the turn is %+v", snap.Turn)
		}
	})
}
