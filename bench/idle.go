package main

import (
	"fmt"
	"time"

	"dsh-agentlink/internal/dshtest"
)

// shortestRest is how long the idle bridge is watched at least.
const shortestRest = 2 * time.Minute

// resting is a bridge that is connected and has nothing to do while everything else is measured.
type resting struct {
	rig   *rig
	child *child
	since time.Time
}

// rest starts the bridge that idles: twenty finished tasks, connected, nobody calls.
func (b *bench) rest() error {
	r, err := b.rig(dshtest.Options{})
	if err != nil {
		return err
	}
	for n := range 20 {
		if err := r.finishedTask(n); err != nil {
			r.close()
			return err
		}
	}
	c, err := r.launch()
	if err != nil {
		r.close()
		return err
	}
	b.resting = &resting{rig: r, child: c, since: time.Now()}
	_, err = c.tool("dsh_host_status", args{})
	return err
}

func (r *resting) close() {
	_, _ = r.child.end() // it has told already, or something else went wrong
	r.rig.close()
}

// idle ends the resting bridge and scales what it used to an hour. What a bridge uses to start on the same home, and to
// end, is taken off.
func idle(b *bench) error {
	time.Sleep(time.Until(b.resting.since.Add(shortestRest)))
	rested := time.Since(b.resting.since)
	used, err := b.resting.child.end()
	if err != nil {
		return err
	}
	base, err := shortLifeOn(b.resting.rig)
	if err != nil {
		return err
	}
	hour := max(used-base, 0).Seconds() * time.Hour.Seconds() / rested.Seconds()
	b.table.atMost(fmt.Sprintf("CPU of an idle hour, scaled from %d s", int(rested.Seconds())), "%.2f s", hour, 1)
	return nil
}
