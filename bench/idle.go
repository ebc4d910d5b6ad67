package main

import (
	"errors"
	"fmt"
	"time"

	"dsh-agentlink/internal/dshtest"
)

// shortestRest is how long the idle bridge is watched at least.
const shortestRest = 2 * time.Minute

// calm is how long it is left alone before: the opening burst of its connection is over then, and the memory of its start
// has been given back.
const calm = 20 * time.Second

// resting is a bridge that is connected and has nothing to do while everything else is measured.
type resting struct {
	rig   *rig
	child *child
	since time.Time
	used  chan float64 // seconds of CPU, when it had become calm
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
	b.resting = &resting{rig: r, child: c, since: time.Now().Add(calm), used: make(chan float64, 1)}
	if _, err := c.tool("dsh_host_status", args{}); err != nil {
		return err
	}
	time.AfterFunc(time.Until(b.resting.since), func() {
		used, err := c.seconds()
		if err == nil {
			b.resting.used <- used
		}
		close(b.resting.used)
	})
	return nil
}

func (r *resting) close() {
	_, _ = r.child.end() // it has told already, or something else went wrong
	r.rig.close()
}

// idle scales what the resting bridge has used since it became calm to an hour.
func idle(b *bench) error {
	time.Sleep(time.Until(b.resting.since.Add(shortestRest)))
	before, ok := <-b.resting.used
	if !ok {
		return errors.New("the CPU time of the resting bridge could not be read")
	}
	after, err := b.resting.child.seconds()
	if err != nil {
		return err
	}
	rested := time.Since(b.resting.since)
	hour := (after - before) * time.Hour.Seconds() / rested.Seconds()
	b.table.atMost(fmt.Sprintf("CPU of an idle hour, scaled from %d s", int(rested.Seconds())), "%.2f s", hour, 1)
	return nil
}
