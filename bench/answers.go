package main

import (
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"
	"github.com/tiktoken-go/tokenizer"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

// What the TypeScript bridge answers with, in bytes: the least that was seen of a status, and of a tail of 18 events.
const (
	theirStatus = 2800
	theirTail   = 8800
	theirWaits  = 45 // for a turn of 200 steps
)

// number reads a number of an answer.
func number(text, path string) int64 { return gjson.Get(text, path).Int() }

// answers measures what a supervisor's model has to read: bytes, and tokens by the o200k_base encoding of
// github.com/tiktoken-go/tokenizer.
func answers(b *bench) error {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		return err
	}
	p := &pricer{b: b, codec: codec}
	if err := p.oneTurn(); err != nil {
		return err
	}
	return p.longTurn()
}

// pricer counts what answers cost.
type pricer struct {
	b     *bench
	codec tokenizer.Codec
	bytes int
	total int // tokens
}

// add adds a figure for the answers, with a bar in bytes; 0 for none.
func (p *pricer) add(what string, bar int, beside string, texts ...string) error {
	bytes, tokens := 0, 0
	for _, text := range texts {
		n, err := p.codec.Count(text)
		if err != nil {
			return err
		}
		bytes, tokens = bytes+len(text), tokens+n
	}
	p.bytes, p.total = p.bytes+bytes, p.total+tokens
	f := figure{What: what, Value: fmt.Sprintf("%d bytes, %d tokens", bytes, tokens), Floor: beside}
	if bar > 0 {
		f.Ratio = fmt.Sprintf("%.2f", float64(bytes)/float64(bar*4))
		f.Bar, f.Verdict = fmt.Sprintf("a quarter, %d bytes", bar), verdict(bytes <= bar)
	}
	p.b.table.add(f)
	return nil
}

// oneTurn supervises a task of one turn with a tool call: delegate, wait, tail, status.
func (p *pricer) oneTurn() error {
	r, err := p.b.rig(dshtest.Options{})
	if err != nil {
		return err
	}
	defer r.close()
	c, err := r.launch()
	if err != nil {
		return err
	}
	defer func() { _, _ = c.end() }()
	prompt := dshtest.Script(labmodel.Step{Tool: "bash", Args: json.RawMessage(`{"command":"go vet ./..."}`)},
		labmodel.Step{Say: "I ran go vet over the whole module. It found nothing, so nothing had to be changed."})
	delegation, err := c.tool("dsh_delegate", args{"prompt": prompt, "cwd": r.cwd, "title": "Vet"})
	if err != nil {
		return err
	}
	var task delegated
	if err := json.Unmarshal([]byte(delegation), &task); err != nil {
		return err
	}
	waits, err := c.watch(task, "attention")
	if err != nil {
		return err
	}
	tail, err := c.tool("dsh_tail", args{"taskId": task.TaskID, "sinceCursor": 0})
	if err != nil {
		return err
	}
	status, err := c.tool("dsh_status", args{"taskId": task.TaskID})
	if err != nil {
		return err
	}
	records := number(status, "cursor")
	for _, m := range []struct {
		what   string
		bar    int
		beside string
		texts  []string
	}{
		{"one-turn task: dsh_delegate", 0, "", []string{delegation}},
		{fmt.Sprintf("one-turn task: dsh_wait until attention, %d of them", waits.waits), 0, "", waits.texts},
		{fmt.Sprintf("one-turn task: dsh_tail of all %d records", records), theirTail / 4, fmt.Sprintf("TypeScript bridge: %d bytes for 18", theirTail), []string{tail}},
		{"one-turn task: dsh_status", theirStatus / 4, fmt.Sprintf("TypeScript bridge: %d bytes", theirStatus), []string{status}},
	} {
		if err := p.add(m.what, m.bar, m.beside, m.texts...); err != nil {
			return err
		}
	}
	p.b.table.add(figure{What: "one-turn task: all answers", Value: fmt.Sprintf("%d bytes, %d tokens", p.bytes, p.total)})
	return nil
}

// longTurn watches a turn of 200 steps, at a pace at which a wait for any change wakes up often.
func (p *pricer) longTurn() error {
	for _, until := range []string{"attention", "change"} {
		r, err := p.b.rig(dshtest.Options{})
		if err != nil {
			return err
		}
		defer r.close()
		c, err := r.launch()
		if err != nil {
			return err
		}
		defer func() { _, _ = c.end() }()
		steps := make([]labmodel.Step, 200)
		for i := range steps {
			steps[i] = labmodel.Step{Tool: "bash", Args: json.RawMessage(`{"command":"true"}`), HangMs: 20}
		}
		task, err := r.delegate(c, dshtest.Script(append(steps, labmodel.Step{Say: "All two hundred steps are done."})...))
		if err != nil {
			return err
		}
		w, err := c.watch(task, until)
		if err != nil {
			return err
		}
		if err := p.add("200-step task, waits until "+until+": answers", 0, "", w.texts...); err != nil {
			return err
		}
		f := figure{What: "200-step task, waits until " + until + ": how many", Value: fmt.Sprint(w.waits), Floor: fmt.Sprintf("TypeScript bridge: %d", theirWaits)}
		if until == "attention" {
			f.Bar, f.Verdict = "5", verdict(w.waits <= 5)
		}
		p.b.table.add(f)
	}
	return nil
}
