package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

// turn measures the CPU time of a bridge over its whole life, in which it watches a long turn.
func turn(b *bench) error {
	base, err := shortLife(b)
	if err != nil {
		return err
	}
	used, err := longTurn(b, nil)
	if err != nil {
		return err
	}
	var reader time.Duration
	if _, err := longTurn(b, &reader); err != nil {
		return err
	}
	b.table.add(figure{What: "CPU of a 600-step turn, watched to its end", Value: short(used), Floor: short(base) + " start and end alone", Bar: "500 ms",
		Verdict: verdict(used <= 500*time.Millisecond)})
	b.table.times("the same", used, reader, "a bare mcp-go server that reads the stream and throws it away", 0)
	return nil
}

// foreign measures the CPU time of a bridge that is connected to a host on which others work.
func foreign(b *bench) error {
	const frames, seconds = 10_000, 10
	base, err := shortLife(b)
	if err != nil {
		return err
	}
	noisy, err := foreignFrames(b, frames, seconds*time.Second)
	if err != nil {
		return err
	}
	percent := float64(noisy-base) / float64(seconds*time.Second) * 100
	b.table.atMost(fmt.Sprintf("CPU of %d foreign frames/s, of one core", frames), "%.1f%%", percent, 20)
	return nil
}

// shortLife is what a bridge uses that connects and ends: the median of several, since it is taken off other figures.
func shortLife(b *bench) (time.Duration, error) {
	r, err := b.rig(dshtest.Options{})
	if err != nil {
		return 0, err
	}
	defer r.close()
	var lives []time.Duration
	for range 7 {
		c, err := r.launch()
		if err != nil {
			return 0, err
		}
		_, err = c.tool("dsh_host_status", args{})
		used, ended := c.end()
		if err := errors.Join(err, ended); err != nil {
			return 0, err
		}
		lives = append(lives, used)
	}
	return median(lives), nil
}

// longTurn is what a bridge uses that watches a turn of 600 steps. What a process uses that only reads the stream of the
// same turn goes to reader, which may be nil.
func longTurn(b *bench, reader *time.Duration) (time.Duration, error) {
	r, err := b.rig(dshtest.Options{StatsFrames: true})
	if err != nil {
		return 0, err
	}
	defer r.close()
	c, err := r.launch()
	if err != nil {
		return 0, err
	}
	if reader != nil {
		bare, err := spawn(b.ctx, b.bare, "BARE_STREAM="+r.host.URL())
		if err != nil {
			return 0, err
		}
		defer func() { *reader, _ = bare.end() }()
		if err := bare.greet(); err != nil {
			return 0, err
		}
	}
	steps := make([]labmodel.Step, 600)
	for i := range steps {
		steps[i] = labmodel.Step{Tool: "bash", Args: json.RawMessage(`{"command":"true"}`), HangMs: 10}
	}
	task, err := r.delegate(c, dshtest.Script(append(steps, labmodel.Step{Say: "done"})...))
	if err == nil {
		_, err = c.watch(task, "attention")
	}
	used, ended := c.end()
	if err == nil {
		err = ended
	}
	return used, err
}

func foreignFrames(b *bench, perSecond int, d time.Duration) (time.Duration, error) {
	r, err := b.rig(dshtest.Options{})
	if err != nil {
		return 0, err
	}
	defer r.close()
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	c, err := r.launch()
	if err != nil {
		return 0, err
	}
	_, err = c.tool("dsh_host_status", args{})
	r.host.ForeignNoise(ctx, perSecond)
	time.Sleep(d)
	stop()
	used, ended := c.end()
	if err == nil {
		err = ended
	}
	return used, err
}

// watched is how a task was followed to its end.
type watched struct {
	waits, bytes int
	texts        []string
}

// watch waits until the task has ended.
func (c *child) watch(task delegated, until string) (watched, error) {
	var w watched
	cursor := task.Cursor
	for {
		text, err := c.tool("dsh_wait", args{"taskId": task.TaskID, "sinceCursor": cursor, "timeoutSec": 30, "until": until})
		if err != nil {
			return w, err
		}
		w.waits, w.bytes, w.texts = w.waits+1, w.bytes+len(text), append(w.texts, text)
		var answer struct {
			Reason     string `json:"reason"`
			NextCursor int64  `json:"nextCursor"`
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			return w, err
		}
		if answer.Reason == "terminal" {
			return w, nil
		}
		cursor = answer.NextCursor
	}
}
