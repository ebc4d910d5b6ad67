package main

import (
	"time"

	"dsh-agentlink/internal/dshtest"
)

// start measures from the start of the process to the answer of tools/list.
func start(b *bench) error {
	r, err := b.rig(dshtest.Options{})
	if err != nil {
		return err
	}
	defer r.close()
	var memory, bareMemory float64
	life := func(binary string, rss *float64) timed {
		return func() (time.Duration, error) {
			began := time.Now()
			c, err := spawn(b.ctx, binary, r.env()...)
			if err != nil {
				return 0, err
			}
			err = c.greet()
			took := time.Since(began)
			if err == nil {
				*rss, err = c.resident()
			}
			if _, ended := c.end(); err == nil {
				err = ended
			}
			return took, err
		}
	}
	ours, bare, err := alternate(25, life(b.bridge, &memory), life(b.bare, &bareMemory))
	if err != nil {
		return err
	}
	b.table.times("process start to `initialize` and `tools/list`", median(ours), median(bare), "bare mcp-go server", 1.5)
	b.table.add(figure{What: "memory right then", Value: megabytes(memory), Floor: megabytes(bareMemory) + " bare mcp-go server"})
	return nil
}
