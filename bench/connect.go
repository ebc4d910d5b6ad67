package main

import (
	"bytes"
	"fmt"
	"time"

	"dsh-agentlink/bench/internal/plain"
	"dsh-agentlink/internal/dshtest"
)

// finished is how many finished tasks a long-lived home holds.
const finished = 1000

// thousand makes a rig whose home holds finished tasks and whose host their sessions, all of them cold.
func (b *bench) thousand() (*rig, error) {
	r, err := b.rig(dshtest.Options{})
	if err != nil {
		return nil, err
	}
	for n := range finished {
		if err := r.finishedTask(n); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

// connect measures the first connection of a bridge whose tasks are all finished. The host comes up when the bridge runs
// already, and a tool is called that needs the connection: what it takes, less what it takes once the connection stands.
// With dsh_host_status nothing else is in that; with the tail of one task, the reading of its history is.
func connect(b *bench) error {
	r, err := b.thousand()
	if err != nil {
		return err
	}
	defer r.close()
	histories := 0
	for _, m := range []struct {
		what, tool string
		args       args
		read       string // the session whose history may be read
		bar        float64
	}{
		{fmt.Sprintf("first connect to reconciled, %d finished tasks", finished), "dsh_host_status", args{}, "none", 1.5},
		{"the same, and one of them read", "dsh_tail", args{"taskId": taskID(0), "maxEvents": 1}, r.host.Sessions()[0].ID, 0},
	} {
		patient := 3
		ours, lists, err := alternate(31, func() (time.Duration, error) {
			patient--
			took, read, err := r.firstConnect(m.tool, m.args, m.read, patient >= 0)
			histories += read
			return took, err
		}, r.firstList)
		if err != nil {
			return err
		}
		b.table.times(m.what, median(ours), median(lists), "one session.list of a bare mcp-go server", m.bar)
	}
	b.table.add(figure{What: "history calls in them, but for the task asked for", Value: fmt.Sprint(histories), Bar: "0", Verdict: verdict(histories == 0)})
	return nil
}

// firstConnect makes one first connection, and counts the histories that were read because of it, except one's: with
// patience also those that are read once the opening burst is over.
func (r *rig) firstConnect(tool string, a args, except string, patience bool) (took time.Duration, histories int, err error) {
	r.host.Kill()
	c, err := r.launch()
	if err != nil {
		return 0, 0, err
	}
	defer func() { _, _ = c.end() }()
	if _, err := c.tool("dsh_host_status", args{}); err == nil {
		return 0, 0, fmt.Errorf("a host that is down was reached")
	}
	before := len(r.host.Requests())
	if err := r.host.Start(); err != nil {
		return 0, 0, err
	}
	ask := clock(func() error {
		_, err := c.tool(tool, a)
		return err
	})
	first, err := ask()
	if err != nil {
		return 0, 0, err
	}
	again, err := ask()
	if err != nil {
		return 0, 0, err
	}
	if patience {
		time.Sleep(time.Second) // by then the opening burst is over, and what it left to be read would be asked for
	}
	for _, call := range r.host.Requests()[before:] {
		if call.Method == "session.history" && !bytes.Contains(call.Body, []byte(except)) {
			histories++
		}
	}
	return max(first-again, 0), histories, nil
}

// firstList is how long a bare server's first session.list takes on a host that has just come up.
func (r *rig) firstList() (time.Duration, error) {
	call, err := plain.NewCall("session.list", struct{}{})
	if err != nil {
		return 0, err
	}
	r.host.Kill()
	c, err := spawn(r.b.ctx, r.b.bare, "BARE_HOST="+r.host.URL())
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = c.end() }()
	if err := c.greet(); err != nil {
		return 0, err
	}
	if _, err := c.tool("prepare", args{"calls": []plain.Call{call}}); err != nil {
		return 0, err
	}
	if _, err := c.tool("calls", args{}); err == nil {
		return 0, fmt.Errorf("a host that is down was reached")
	}
	if err := r.host.Start(); err != nil {
		return 0, err
	}
	took, err := c.tool("calls", args{})
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(took)
}
