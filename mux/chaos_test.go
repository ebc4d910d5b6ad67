package mux

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

// chaos is a host and processes on one home, in which chance breaks things.
type chaos struct {
	*rig
	chance *rand.Rand
	root   string
}

// disturb does something bad.
func (c *chaos) disturb() {
	methods := []string{"session.list", "session.history", "subagent.history", "subagent.list"}
	method := methods[c.chance.IntN(len(methods))]
	switch c.chance.IntN(9) {
	case 0, 1:
		c.host.DropConnections()
	case 2:
		c.host.CloseConnections(1011, "restarting")
	case 3, 4:
		skip := c.chance.IntN(30)
		c.host.LoseNextFrame(func(string, string) bool { skip--; return skip < 0 })
	case 5:
		c.host.FailNext(method, http.StatusInternalServerError, 1+c.chance.IntN(3))
	case 6:
		c.host.BreakAfter(method)
	case 7:
		c.host.DelayMethod(method, time.Duration(c.chance.IntN(20))*time.Millisecond)
	case 8:
		if err := c.host.Restart(); err != nil {
			c.tb.Fatal(err)
		}
	}
}

// script is a random turn.
func (c *chaos) script() []labmodel.Step {
	var steps []labmodel.Step
	for range 1 + c.chance.IntN(6) {
		switch c.chance.IntN(6) {
		case 0, 1:
			steps = append(steps, shell)
		case 2:
			steps = append(steps, asks)
		case 3:
			steps = append(steps, risky)
		case 4:
			steps = append(steps, delegates(true, shell, slowly(10, time.Millisecond)))
		case 5:
			steps = append(steps, delegates(false, shell, ends))
		}
	}
	return append(steps, slowly(20, time.Millisecond))
}

// Whatever breaks, and however often, in the end the ledger of every process is the history.
func TestLedgerIsTheHistoryAfterChaos(t *testing.T) {
	for seed := range *seeds {
		for processes := 1; processes <= 3; processes++ {
			t.Run(fmt.Sprintf("seed %d, %d processes", seed, processes), func(t *testing.T) {
				t.Parallel()
				c := &chaos{rig: newRig(t, dshtest.Options{StatsFrames: true, HeaderBytes: 1000}), chance: rand.New(rand.NewPCG(uint64(seed), uint64(processes)))}
				c.root = c.session()
				c.answer()
				var tasks []*Task
				for range processes {
					m := c.open()
					m.Start()
					tasks = append(tasks, m.Track(taskID, c.root))
				}
				for range 4 {
					// The host may refuse, or never answer: both are part of it.
					_ = tasks[c.chance.IntN(processes)].Prompt(within(t), promptOf(tasks[0], dsh.ModeQueue, c.script()...), "")
					for range 3 {
						c.disturb()
						pause := time.NewTimer(time.Duration(c.chance.IntN(15)) * time.Millisecond)
						<-pause.C // chance decides how far the turn gets; nothing is expected of it
					}
				}
				c.host.ClearFaults()
				c.check(tasks...)
			})
		}
	}
}
