package main

import (
	"fmt"
	"time"

	"dsh-agentlink/internal/dshtest"
)

// memory measures what a bridge has in RAM.
func memory(b *bench) error {
	if err := idleMemory(b); err != nil {
		return err
	}
	r, c, task, err := b.long()
	if err != nil {
		return err
	}
	defer r.close()
	defer func() { _, _ = c.end() }()
	for _, tool := range []string{"dsh_status", "dsh_tail"} {
		if _, err := c.tool(tool, args{"taskId": task}); err != nil {
			return err
		}
	}
	if err := b.resident(c, "memory with a task of 10,000 records, just read", 48); err != nil {
		return err
	}
	if err := thousandMemory(b); err != nil {
		return err
	}
	return bigFrame(b)
}

func megabytes(mb float64) string { return fmt.Sprintf("%.1f MB", mb) }

// resident adds a figure of memory.
func (b *bench) resident(c *child, what string, bar float64) error {
	mb, err := c.resident()
	b.table.atMost(what, "%.1f MB", mb, bar)
	return err
}

func idleMemory(b *bench) error {
	r, err := b.rig(dshtest.Options{})
	if err != nil {
		return err
	}
	defer r.close()
	c, err := r.launch()
	if err != nil {
		return err
	}
	defer func() { _, _ = c.end() }()
	if _, err := c.tool("dsh_host_status", args{}); err != nil {
		return err
	}
	return b.resident(c, "memory when idle", 32)
}

func thousandMemory(b *bench) error {
	r, err := b.thousand()
	if err != nil {
		return err
	}
	defer r.close()
	c, err := r.launch()
	if err != nil {
		return err
	}
	defer func() { _, _ = c.end() }()
	if _, err := c.tool("dsh_list", args{"state": "all", "limit": 200}); err != nil {
		return err
	}
	return b.resident(c, "memory with 1,000 tasks, 200 of them listed", 64)
}

// bigFrame sends one frame of 64 MB past a bridge, of a session of somebody else and then of a task, and looks how its
// memory grows and comes down again.
func bigFrame(b *bench) error {
	const frame, patience = 64_000_000, 30 * time.Second
	r, err := b.rig(dshtest.Options{})
	if err != nil {
		return err
	}
	defer r.close()
	foreign, err := r.host.AddSession(dshtest.SessionSpec{Cwd: r.cwd, Title: "Foreign", Turns: 1, Attached: true})
	if err != nil {
		return err
	}
	own, err := r.host.AddSession(dshtest.SessionSpec{Cwd: r.cwd, Title: "Own", Turns: 1, Attached: true})
	if err != nil {
		return err
	}
	task, err := r.task(1, own)
	if err != nil {
		return err
	}
	c, err := r.launch()
	if err != nil {
		return err
	}
	defer func() { _, _ = c.end() }()
	if _, err := c.tool("dsh_status", args{"taskId": task}); err != nil {
		return err
	}
	for _, m := range []struct{ whose, session string }{{"a foreign", foreign}, {"a task's", own}} {
		before, err := c.resident()
		if err != nil {
			return err
		}
		if _, err := r.host.BigFrame(m.session, frame); err != nil {
			return err
		}
		peak, after, took, err := c.settles(before+16, patience)
		if err != nil {
			return err
		}
		b.table.add(figure{What: "memory after " + m.whose + " frame of 64 MB", Value: fmt.Sprintf("%s, %v later", megabytes(after), took.Round(100*time.Millisecond)),
			Floor: fmt.Sprintf("%s before, %s at most", megabytes(before), megabytes(peak)), Bar: fmt.Sprintf("%s within %v", megabytes(before+16), patience), Verdict: verdict(after <= before+16)})
	}
	return nil
}

// settles watches the memory of a process for as long as it takes to grow and come down to the bar again.
func (c *child) settles(bar float64, patience time.Duration) (peak, last float64, took time.Duration, err error) {
	began := time.Now()
	for time.Since(began) < patience {
		if last, err = c.resident(); err != nil {
			return 0, 0, 0, err
		}
		peak = max(peak, last)
		took = time.Since(began)
		if peak > bar && last <= bar {
			break
		}
		if peak <= bar && took > 5*time.Second {
			break // it never grew
		}
		time.Sleep(20 * time.Millisecond)
	}
	return peak, last, took, nil
}
