package sim

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// Report is what came of a world.
type Report struct {
	Failures []string
	Counts   map[string]int // injected faults by kind
	Events   int            // durable events of all sessions of the tasks
	Records  int
	Told     int // cursors that callers were given
}

// Run lets a world live and judges it. It has to be called in a bubble of testing/synctest.
func Run(seed uint64, opts Options) Report {
	return newWorld(seed, newProfile(seed), opts).live()
}

// live is the whole life of a world.
func (w *World) live() Report {
	w.run()
	w.judge()
	w.end()
	report := Report{Counts: w.counted(), Told: w.books.told(), Failures: w.failures}
	for _, t := range w.tasks {
		report.Records += len(w.books.records(t.events()))
	}
	for _, s := range w.host.order {
		report.Events += len(s.log)
	}
	return report
}

// judge compares what all bridges have with the truth: as it is, and once more when all of them have connected anew, for
// what a stream did not bring of requests the next one does.
func (w *World) judge() {
	w.compare("", w.requestsShown())
	w.wakeUps()
	w.prompts()
	if len(w.failures) > 0 {
		return
	}
	for _, s := range w.streams() {
		s.cut(true)
	}
	time.Sleep(settled)
	w.compare("connected anew, ", true)
}

// compare asks every bridge for every task, and the model for its opinion.
func (w *World) compare(when string, strict bool) {
	all := make([]evidence, len(w.tasks))
	for range 2 { // what one of them finds out and writes down, the others learn the second time
		for i, task := range w.tasks {
			all[i].views = nil
			for _, s := range w.slots {
				if v, ok := w.view(when, s.running(), task); ok {
					all[i].views = append(all[i].views, v)
				}
			}
		}
		time.Sleep(time.Second)
	}
	for i, task := range w.tasks {
		all[i].records = w.decoded(task)
		if w.tamper != nil {
			w.tamper(&all[i])
		}
		m := &model{task: task, truth: w.host.tell(task.root), strict: strict}
		for _, wrong := range m.check(all[i]) {
			w.fail("%s%s", when, wrong)
		}
	}
}

// view brings a bridge's view of a task up to date.
func (w *World) view(when string, b *bridge, task taskID) (view, bool) {
	if b == nil {
		w.fail("%sa bridge is missing", when)
		return view{}, false
	}
	t := b.track(task)
	ctx, cancel := context.WithTimeout(b.p.ctx, callFor)
	defer cancel()
	if _, _, err := t.Fresh(ctx); err != nil && !dsh.IsCode(err, dsh.CodeSessionNotFound) {
		w.fail("%s%s cannot bring %s up to date: %v", when, b.p.name, task.id, err)
	}
	snap, err := t.Snapshot()
	if err != nil {
		w.fail("%s%s cannot show %s: %v", when, b.p.name, task.id, err)
	}
	return view{bridge: b.p.name, snap: snap}, true
}

// decoded are all records of a task.
func (w *World) decoded(task taskID) []ledger.Record {
	var records []ledger.Record
	for _, line := range w.books.records(task.events()) {
		var r ledger.Record
		if err := json.Unmarshal(line, &r); err != nil {
			w.fail("%s: %v", task.id, err)
		}
		records = append(records, r)
	}
	return records
}

// wakeUps checks that whoever waits for a change has seen the last one.
func (w *World) wakeUps() {
	for _, s := range w.slots {
		b := s.running()
		for _, task := range w.tasks {
			now, err := b.track(task).Snapshot()
			seen := b.lastSeen(task)
			if err != nil || seen.err != nil {
				w.fail("%s cannot show %s: %v, %v", b.p.name, task.id, err, seen.err)
				continue
			}
			if a, z := summary(seen.seen), summary(now); a != z {
				w.fail("%s did not wake those who wait for %s: they saw %s, and it is %s", b.p.name, task.id, a, z)
			}
		}
	}
}

// prompts checks that no prompt is in the history twice, that those are in it which the host accepted, and none that
// was not sent.
func (w *World) prompts() {
	h := w.host
	h.mu.Lock()
	defer h.mu.Unlock()
	forgetful := slices.ContainsFunc(w.profile.strokes, func(s stroke) bool { return s.name == forgetStrokes[0].name })
	for _, p := range w.sent.all() {
		entered, said := 0, 0
		if s := h.sessions[p.task.root]; s != nil {
			for _, e := range s.log {
				switch {
				case !strings.Contains(e.data, `"rpcId":"`+p.id+`"`):
				case e.kind == "user/message":
					said++
				case e.kind == "agent/inbox/spliced":
					entered++
				}
			}
		}
		switch {
		case entered > 1 || said > 1:
			w.fail("%s was sent %d times and is %d times in the inbox and %d times in the conversation", p.id, p.attempts, entered, said)
		case p.accepted && entered == 0 && !forgetful:
			w.fail("%s was accepted and is not in the history", p.id)
		case !p.possible && entered > 0:
			w.fail("%s was said not to be sent and is in the history", p.id)
		}
	}
}
