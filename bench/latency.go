package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coder/websocket"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

// latency measures from an event on the host to the answer of a dsh_wait that waits for it, beside a program that does
// nothing but read the same stream.
func latency(b *bench) error {
	for _, foreign := range []int{0, 10_000} {
		if err := latencyBeside(b, foreign); err != nil {
			return err
		}
	}
	return nil
}

func latencyBeside(b *bench, foreign int) error {
	const events = 200
	r, err := b.rig(dshtest.Options{})
	if err != nil {
		return err
	}
	defer r.close()
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	c, err := r.launch()
	if err != nil {
		return err
	}
	defer func() { _, _ = c.end() }()
	task, err := r.delegate(c, dshtest.Script(labmodel.Step{Say: "never", HangMs: 600_000}))
	if err != nil {
		return err
	}
	arrivals, err := r.listen(ctx, task.SessionID)
	if err != nil {
		return err
	}
	if foreign > 0 {
		r.host.ForeignNoise(ctx, foreign)
	}
	// What the delegation left behind is not waited for.
	cursor, err := c.wait(task.TaskID, task.Cursor, 1)
	if err != nil {
		return err
	}
	var answers, reads, above []time.Duration
	for n := range events {
		answered := make(chan error, 1)
		go func() {
			var err error
			cursor, err = c.wait(task.TaskID, cursor, 30)
			answered <- err
		}()
		time.Sleep(5 * time.Millisecond) // the wait waits by then
		began := time.Now()
		if _, err := r.host.EmitEvent(task.SessionID, "tool/call", map[string]any{"turn": 1, "step": n, "callId": "call_bench", "name": "bash", "arguments": "{}"}); err != nil {
			return err
		}
		if err := <-answered; err != nil {
			return err
		}
		answer := time.Since(began)
		select {
		case at := <-arrivals:
			read := at.Sub(began)
			answers, reads, above = append(answers, answer), append(reads, read), append(above, answer-read)
		case <-time.After(10 * time.Second):
			return fmt.Errorf("the plain reader got no frame")
		}
	}
	beside := ""
	if foreign > 0 {
		beside = fmt.Sprintf(", beside %d foreign frames/s", foreign)
	}
	b.table.times("frame to dsh_wait's answer"+beside+": p50", median(answers), median(reads), "frame to a plain reader", 0)
	b.table.times("the same: p99", quantile(answers, 0.99), quantile(reads, 0.99), "frame to a plain reader", 0)
	b.table.add(figure{What: "the same: p50 above the plain reader", Value: short(median(above)), Bar: "2 ms", Verdict: verdict(median(above) < 2*time.Millisecond)})
	return nil
}

// listen reads the host's stream and notes when a tool/call of the session arrives.
func (r *rig) listen(ctx context.Context, session string) (<-chan time.Time, error) {
	conn, _, err := websocket.Dial(ctx, r.host.URL()+"/api/events.mux", &websocket.DialOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(1 << 20)
	arrivals := make(chan time.Time, 1024)
	go func() {
		defer func() { _ = conn.CloseNow() }()
		for {
			_, data, err := conn.Read(ctx)
			if err != nil {
				return
			}
			if bytes.Contains(data, []byte(`"tool/call"`)) && bytes.Contains(data, []byte(session)) {
				arrivals <- time.Now()
			}
		}
	}()
	return arrivals, nil
}

// delegated is what a delegation gives.
type delegated struct {
	TaskID    string `json:"taskId"`
	SessionID string `json:"sessionId"`
	Cursor    int64  `json:"cursor"`
}

// delegate hands a prompt over.
func (r *rig) delegate(c *child, prompt string) (delegated, error) {
	var task delegated
	text, err := c.tool("dsh_delegate", args{"prompt": prompt, "cwd": r.cwd, "title": "Bench"})
	if err == nil {
		err = json.Unmarshal([]byte(text), &task)
	}
	return task, err
}

// wait waits for a change behind a cursor, and returns the next one.
func (c *child) wait(task string, cursor int64, seconds int) (int64, error) {
	text, err := c.tool("dsh_wait", args{"taskId": task, "sinceCursor": cursor, "timeoutSec": seconds})
	if err != nil {
		return 0, err
	}
	var answer struct {
		NextCursor int64 `json:"nextCursor"`
	}
	err = json.Unmarshal([]byte(text), &answer)
	return answer.NextCursor, err
}
