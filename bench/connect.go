package main

import (
	"bytes"
	"fmt"
	"time"

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

// connect measures the first connection of a bridge whose tasks are all finished. The host comes up when the bridge
// runs already, and the tail of one task is asked for, which needs the connection: what it takes, less what the same
// tail takes once the connection stands. So the reading of that one task's history is in it; histories of other tasks
// are counted.
func connect(b *bench) error {
	r, err := b.thousand()
	if err != nil {
		return err
	}
	defer r.close()
	floor := newPlain(r.host.URL())
	defer floor.close()
	histories := 0
	ours, lists, err := alternate(9, func() (time.Duration, error) { return r.firstConnect(&histories) }, clock(func() error {
		floor.close() // the bridge has no connection either
		_, err := floor.call(b.ctx, "session.list", map[string]any{})
		return err
	}))
	if err != nil {
		return err
	}
	b.table.times(fmt.Sprintf("first connect to reconciled, %d finished tasks", finished), median(ours), median(lists), "one session.list", 1.5)
	b.table.add(figure{What: "history calls in it, but for the task asked for", Value: fmt.Sprint(histories), Bar: "0", Verdict: verdict(histories == 0)})
	return nil
}

// firstConnect makes one first connection, and adds up the histories of other tasks that were read because of it.
func (r *rig) firstConnect(histories *int) (time.Duration, error) {
	r.host.Kill()
	c, err := r.launch()
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = c.end() }()
	if _, err := c.tool("dsh_host_status", args{}); err == nil {
		return 0, fmt.Errorf("a host that is down was reached")
	}
	before := len(r.host.Requests())
	if err := r.host.Start(); err != nil {
		return 0, err
	}
	ask := clock(func() error {
		_, err := c.tool("dsh_tail", args{"taskId": taskID(0), "maxEvents": 1})
		return err
	})
	first, err := ask()
	if err != nil {
		return 0, err
	}
	again, err := ask()
	if err != nil {
		return 0, err
	}
	time.Sleep(time.Second) // by then the opening burst is over, and what it left to be read would be asked for
	asked := []byte(r.host.Sessions()[0].ID)
	for _, call := range r.host.Requests()[before:] {
		if call.Method == "session.history" && !bytes.Contains(call.Body, asked) {
			*histories++
		}
	}
	return max(first-again, 0), nil
}
