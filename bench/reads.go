package main

import (
	"time"

	"dsh-agentlink/bench/internal/plain"
	"dsh-agentlink/internal/dshtest"
)

// long makes a rig with one finished task of 10,000 records, and a bridge that has read it.
func (b *bench) long() (*rig, *child, string, error) {
	r, err := b.rig(dshtest.Options{})
	if err != nil {
		return nil, nil, "", err
	}
	id, err := r.host.AddSession(dshtest.SessionSpec{Cwd: r.cwd, Title: "Long", Turns: 10_000/turnRecords + 1, Attached: true})
	var task string
	if err == nil {
		task, err = r.task(1, id)
	}
	var c *child
	if err == nil {
		c, err = r.launch()
	}
	if err == nil {
		_, err = c.tool("dsh_wait", args{"taskId": task, "timeoutSec": 0})
	}
	if err != nil {
		_, _ = c.end()
		r.close()
		return nil, nil, "", err
	}
	return r, c, task, nil
}

// reads measures the tools that look, against the calls they make of the host: those are recorded and made again by a
// bare server, whose tool gives the same answer and does nothing else.
func reads(b *bench) error {
	r, c, task, err := b.long()
	if err != nil {
		return err
	}
	defer r.close()
	defer func() { _, _ = c.end() }()
	text, err := c.tool("dsh_status", args{"taskId": task})
	if err != nil {
		return err
	}
	cursor := number(text, "cursor")
	for _, m := range []struct {
		what, tool string
		args       args
	}{
		{"dsh_status, 10,000 records", "dsh_status", args{"taskId": task}},
		{"dsh_tail, the last 20", "dsh_tail", args{"taskId": task, "sinceCursor": cursor - 20, "maxEvents": 20}},
		{"dsh_tail, the first 50", "dsh_tail", args{"taskId": task, "sinceCursor": 0, "maxEvents": 50}},
	} {
		if err := r.read(c, m.what, m.tool, m.args); err != nil {
			return err
		}
	}
	if err := b.bareCall(); err != nil {
		return err
	}
	t, err := b.thousand()
	if err != nil {
		return err
	}
	defer t.close()
	time.Sleep(settle)
	lister, err := t.launch()
	if err != nil {
		return err
	}
	defer func() { _, _ = lister.end() }()
	if err := t.read(lister, "dsh_list, 1,000 tasks", "dsh_list", args{}); err != nil {
		return err
	}
	return t.read(lister, "dsh_list of all, the first 200 of 1,000", "dsh_list", args{"state": "all", "limit": 200})
}

// bareCall measures the least that any tool call takes: the way to another process and back.
func (b *bench) bareCall() error {
	c, err := spawn(b.ctx, b.bare)
	if err != nil {
		return err
	}
	defer func() { _, _ = c.end() }()
	if err := c.greet(); err != nil {
		return err
	}
	call := clock(func() error {
		_, err := c.tool("nothing", args{})
		return err
	})
	calls, _, err := alternate(40, call, call)
	b.table.add(figure{What: "for comparison, a tool call of the bare mcp-go server", Value: short(median(calls))})
	return err
}

// read measures one tool.
func (r *rig) read(c *child, what, tool string, a args) error {
	if _, err := c.tool(tool, a); err != nil {
		return err
	}
	before := len(r.host.Requests())
	if _, err := c.tool(tool, a); err != nil {
		return err
	}
	var calls []plain.Call
	for _, made := range r.host.Requests()[before:] {
		calls = append(calls, plain.Call{Method: made.Method, Body: made.Body})
	}
	return r.b.look(c, r.host.URL(), what, tool, a, calls)
}

// settle is how long files have to be left alone for a bridge to rely on their times, and somewhat more.
const settle = 1200 * time.Millisecond

// look measures a tool that looks beside the calls of the host that it makes.
func (b *bench) look(c *child, host, what, tool string, a args, calls []plain.Call) error {
	bare, err := spawn(b.ctx, b.bare, "BARE_HOST="+host)
	if err != nil {
		return err
	}
	defer func() { _, _ = bare.end() }()
	if err := bare.greet(); err != nil {
		return err
	}
	began := time.Now()
	answer, err := c.tool(tool, a)
	if err != nil {
		return err
	}
	// What takes a millisecond or two is at the mercy of who wakes whom, and takes many rounds to tell.
	rounds := min(max(40, int(time.Second/time.Since(began))), 400)
	if _, err := bare.tool("prepare", args{"calls": calls, "text": answer}); err != nil {
		return err
	}
	direct := plain.New(host)
	defer direct.Close()
	var alone []time.Duration
	ours, floor, err := alternate(rounds, clock(func() error {
		_, err := c.tool(tool, a)
		return err
	}), func() (time.Duration, error) {
		took, err := clock(func() error { return direct.PostAll(b.ctx, calls) })()
		if err != nil {
			return 0, err
		}
		alone = append(alone, took)
		return clock(func() error {
			_, err := bare.tool("calls", args{})
			return err
		})()
	})
	if err != nil {
		return err
	}
	b.table.times(what, median(ours), median(floor), "a bare mcp-go server that makes its "+names(calls)+" and gives the same answer", 1.3)
	b.table.times("the same", median(ours), median(alone), "the calls alone, no server between", 0)
	return nil
}

// names tells which calls these are.
func names(calls []plain.Call) string {
	if len(calls) == 0 {
		return "no calls"
	}
	text := ""
	for i, c := range calls {
		if i > 0 {
			text += ", "
		}
		text += c.Method
	}
	return text
}
