package sim

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// calm is a world of one task and two bridges in which nothing goes wrong.
func calm() profile {
	return profile{bridges: 2, tasks: 1, lasts: 40 * time.Second, pace: 2 * time.Second, quick: true, strokes: personStrokes}
}

// askAtLast makes sure that a request waits in the task's session when the world comes to rest.
func askAtLast(w *World) {
	h := w.host
	acts := []act{bash, say}
	h.script = func(*dice, int) []act { return acts }
	w.finally = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		acts = []act{bash, ask}
		if err := h.prompt(dsh.PromptRequest{SessionID: w.tasks[0].root, RPCID: w.sent.person(), Mode: dsh.ModeQueue}); err != nil {
			w.fail("the last prompt: %v", err)
		}
	}
}

// The model has to see through everything that a bridge could do wrong. Each case breaks a world that is in order, at
// the host's end, at the disk's, or in what the bridges have of it in the end.
func TestModelSees(t *testing.T) {
	cases := []struct {
		name string
		rig  func(*World)
		want string
	}{
		{"nothing", func(*World) {}, ""},
		{"a lost event", func(w *World) {
			w.host.twisted = func(e event) event {
				if e.kind == "tool/result" {
					e.kind = dsh.EventChunk // which nobody records
				}
				return e
			}
		}, "in place of seq"},
		{"a lost last event", func(w *World) {
			w.tamper = func(e *evidence) { e.records = e.records[:events(e.records)[len(events(e.records))-1]] }
		}, "is missing"},
		{"an event that is another", func(w *World) {
			w.host.twisted = func(e event) event {
				if e.kind == "step/end" {
					e.kind = "step/ended"
				}
				return e
			}
		}, "in place of seq"},
		{"a turn's end with another reason", func(w *World) {
			w.finally = nil // so that the last turn ends
			w.host.twisted = func(e event) event {
				if e.kind == "turn/end" {
					e.data = strings.Replace(e.data, "completed", "aborted", 1)
				}
				return e
			}
		}, "instead of ended at"},
		{"a repeated event", func(w *World) {
			w.tamper = func(e *evidence) {
				i := events(e.records)[3]
				e.records = renumbered(slices.Insert(e.records, i+1, e.records[i]))
			}
		}, "comes behind seq"},
		{"two events in the wrong order", func(w *World) {
			w.tamper = func(e *evidence) {
				at := events(e.records)
				i, j := at[3], at[4]
				e.records[i], e.records[j] = e.records[j], e.records[i]
				e.records = renumbered(e.records)
			}
		}, "comes behind seq"},
		{"a foreign session's event", func(w *World) {
			w.tamper = func(e *evidence) {
				i := events(e.records)[5]
				e.records[i].SourceSessionID = "fork-1-of-root-1"
			}
		}, "no session of the task"},
		{"a cursor given twice", func(w *World) {
			w.tamper = func(e *evidence) { e.records[7].Cursor = e.records[6].Cursor }
		}, "has cursor"},
		{"a cursor left out", func(w *World) {
			w.tamper = func(e *evidence) {
				for i := range e.records[7:] {
					e.records[7+i].Cursor++
				}
			}
		}, "has cursor"},
		{"a gap where the host has everything", func(w *World) {
			w.tamper = func(e *evidence) {
				e.records = append(e.records, ledger.Record{Cursor: int64(len(e.records)) + 1, SourceSessionID: "root-1", Origin: ledger.OriginRoot,
					Type: ledger.TypeGap, Coordination: ledger.Coordination{From: 1, To: 2}})
			}
		}, "a gap in root-1"},
		{"a cursor that is given to another record after a loss of power", func(w *World) {
			w.disk.lies = true
			w.profile.strokes = powerStrokes
		}, "which a caller was told of"},
		{"a caller that is told another record", func(w *World) {
			w.profile.strokes = []stroke{{"", func(w *World) {
				if records := w.decoded(w.tasks[0]); len(records) > 0 {
					records[0].ObservedAt++
					w.books.tell(w.tasks[0].events(), records[0])
				}
			}}}
		}, "which is not in the file"},
		{"a forgotten request", func(w *World) {
			w.host.deaf = func(_ *stream, f dsh.Frame) bool {
				return f.Kind == dsh.FrameQuestionRequested || f.Kind == dsh.FrameApprovalRequested
			}
		}, "pending instead of"},
		{"a request that is over", func(w *World) {
			w.tamper = func(e *evidence) {
				e.views[0].snap.Requests = append(e.views[0].snap.Requests, e.views[0].snap.Requests[0])
			}
		}, "pending instead of"},
		{"bridges that do not agree", func(w *World) {
			w.tamper = func(e *evidence) { e.views[1].snap.Cursor-- }
		}, "do not agree"},
		{"a task that runs for ever", func(w *World) {
			w.tamper = func(e *evidence) { e.views[0].snap.Execution = ledger.Running }
		}, "execution running instead of"},
		{"another final message", func(w *World) {
			w.tamper = func(e *evidence) { e.views[0].snap.Final++ }
		}, "as the final message"},
		{"a prompt that is sent twice", func(w *World) { w.host.echo = true }, "times in the inbox"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var report Report
			synctest.Test(t, func(*testing.T) {
				w := newWorld(1, calm(), Options{})
				askAtLast(w)
				c.rig(w)
				report = w.live()
			})
			if c.want == "" && len(report.Failures) > 0 {
				t.Fatalf("the model complains: %s", strings.Join(report.Failures, "\n"))
			}
			if c.want != "" && !slices.ContainsFunc(report.Failures, func(f string) bool { return strings.Contains(f, c.want) }) {
				t.Fatalf("no failure has %q in it: %q", c.want, report.Failures)
			}
		})
	}
}

// events are the places of the events of the root.
func events(records []ledger.Record) (at []int) {
	for i, r := range records {
		if r.Type == ledger.TypeEvent && r.Origin == ledger.OriginRoot {
			at = append(at, i)
		}
	}
	return at
}

// renumbered gives the records their cursors anew.
func renumbered(records []ledger.Record) []ledger.Record {
	for i := range records {
		records[i].Cursor = int64(i) + 1
	}
	return records
}
