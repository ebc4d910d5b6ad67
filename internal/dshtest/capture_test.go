package dshtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// line is one line of a capture: a frame of the stream, a call with its answer, or the opening of a stream.
type line struct {
	K        string
	Frame    json.RawMessage
	Method   string
	Request  json.RawMessage
	Response json.RawMessage
}

// need is a number of frames or events to wait for before an operation of a capture is repeated.
type need struct {
	kind string
	n    int
}

// replay says how a capture of a real host is repeated.
type replay struct {
	name string
	// before holds what has to be seen before the i-th operation, an operation being a call or an opening.
	before map[int][]need
	// restart is the number of the opening before which the host dies and comes back; 0 for none.
	restart int
	// hold is the number of words behind which answers stop, and commands that sleep with them; 0 for none. Without it an
	// operation in the midst of them might come too late. They go on before the operation release, or after the last.
	hold, release int
	// loose leaves the values out of the comparison, because how far a stream got is a matter of time.
	loose bool
}

var replays = []replay{
	{name: "hello", before: map[int][]need{4: {{eventTitle, 2}}, 5: {{eventTitle, 3}}}},
	{name: "queue", loose: true, hold: 2, before: map[int][]need{3: {{"text-delta", 2}}}},
	{name: "cancel", loose: true, hold: 2, before: map[int][]need{3: {{"text-delta", 2}}, 6: {{eventTurnEnd, 1}}}},
	{name: "fail"},
	{name: "question", before: map[int][]need{3: {{kindQuestionRequested, 1}}, 4: {{kindQuestionRequested, 1}}}},
	{name: "approval", before: map[int][]need{3: {{kindApprovalRequested, 1}}}},
	{name: "reject", before: map[int][]need{3: {{kindApprovalRequested, 1}}}},
	{name: "subagent", before: map[int][]need{3: {{eventTurnEnd, 2}}}},
	{name: "background"},
	{name: "goal", before: map[int][]need{3: {{eventGoal, 2}}}},
	{name: "errors"},
	// Captured from the same release as the others, with the same scripted model.
	{name: "steer", hold: 1, release: 6, before: map[int][]need{3: {{eventToolCall, 1}, {eventTitle, 2}}, 6: {{eventTurnEnd, 2}}}},
	{name: "parked", loose: true, hold: 2, before: map[int][]need{3: {{"text-delta", 2}}, 6: {{eventTurnEnd, 1}}}},
	{name: "silent", before: map[int][]need{3: {{eventTitle, 2}}, 4: {{eventStepEnd, 1}}}},
	{name: "job"},
	{name: "spawn", before: map[int][]need{3: {{eventTurnEnd, 3}}}},
	{name: "stopchild", loose: true, hold: 3, before: map[int][]need{3: {{"text-delta", 3}}, 4: {{eventTurnEnd, 2}}}},
	{name: "dismiss", before: map[int][]need{3: {{kindQuestionRequested, 1}}, 4: {{kindQuestionRequested, 2}}, 5: {{kindApprovalRequested, 1}}}},
	{name: "restart", loose: true, hold: 3, restart: 6, before: map[int][]need{
		5: {{eventToolCall, 1}, {eventTitle, 4}, {"text-delta", 3}}, 6: {{eventSpliced, 5}}, 12: {{eventTurnEnd, 2}},
	}},
	{name: "retry"},
}

// A script played here makes the frames and the answers that it makes on a real host.
func TestCaptures(t *testing.T) {
	for _, r := range replays {
		t.Run(r.name, func(t *testing.T) { r.compare(t, 0) })
	}
}

// That the stream is behind the answers of the calls changes nothing.
func TestCapturesOverASlowStream(t *testing.T) {
	for _, r := range replays {
		t.Run(r.name, func(t *testing.T) { r.compare(t, 8*time.Millisecond) })
	}
}

// compare repeats a capture, with a stream on which every frame takes that long, and compares what comes of it.
func (r replay) compare(t *testing.T, lag time.Duration) {
	t.Parallel()
	lines := readCapture(t, r.name)
	got := r.play(t, lines, lag)
	if diff := cmp.Diff(bySession(lines), bySession(got)); diff != "" {
		t.Errorf("sequence of frames (-real +here):\n%s", diff)
	}
	if diff := cmp.Diff(shapes(t, lines), shapes(t, got)); diff != "" {
		t.Errorf("fields (-real +here):\n%s", diff)
	}
	if r.loose {
		return
	}
	if diff := cmp.Diff(values(t, lines), values(t, got)); diff != "" {
		t.Errorf("values (-real +here):\n%s", diff)
	}
}

func readCapture(t *testing.T, name string) []line {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var lines []line
	in := bufio.NewScanner(file)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// faster makes a captured script take less time here.
var faster = strings.NewReplacer(`delayMs\":50`, `delayMs\":20`, `delayMs\\\":50`, `delayMs\\\":20`,
	"sleep 1;", "sleep 0.2;", "sleep 2;", "sleep 0.4;")

// play repeats the operations of a capture and records what happens. Every frame of its stream takes lag longer.
func (r replay) play(t *testing.T, lines []line, lag time.Duration) []line {
	h := started(t, Options{})
	var w *watcher
	var got, seen []line
	collect := func() []line {
		if w == nil {
			return seen
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		all := slices.Clone(seen)
		for _, f := range w.frames {
			all = append(all, line{K: "mux", Frame: f.raw})
		}
		return all
	}
	h.HoldWork(r.hold)
	operation := 0
	for i, l := range lines {
		if l.K == "mux" {
			continue
		}
		if operation > 0 && operation == r.release {
			h.ReleaseWork()
		}
		for _, n := range r.before[operation] {
			waitFor(t, w, n)
		}
		if l.K == "open" {
			seen = collect()
			if operation > 0 && operation == r.restart {
				if err := h.Restart(); err != nil {
					t.Fatal(err)
				}
			}
			if w != nil {
				w.close()
			}
			w = watchSlowly(t, h, lag)
		} else {
			// What the call names may still be on its way: the stream and the answers of calls are not in step.
			if w != nil {
				w.until(t, "the ids in "+l.Method, func([]frame) bool {
					return known(string(l.Request), ids(lines[:i]), ids(slices.Concat(collect(), got)))
				})
			}
			l.Request = json.RawMessage(translate(string(l.Request), ids(lines), ids(slices.Concat(collect(), got))))
			l.Request = json.RawMessage(faster.Replace(string(l.Request)))
			_, answer, err := post(within(t), h.URL()+"/api/"+l.Method, "application/json", string(l.Request))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, line{K: "rpc", Method: l.Method, Request: l.Request, Response: answer})
		}
		operation++
	}
	h.ReleaseWork()
	if w != nil {
		// The stream is over when it has as many frames as the captured one had.
		want := len(tokens(lines))
		w.until(t, fmt.Sprintf("%d frames", want), func(frames []frame) bool {
			all := slices.Clone(seen)
			for _, f := range frames {
				all = append(all, line{K: "mux", Frame: f.raw})
			}
			return len(tokens(all)) >= want
		})
	}
	return append(collect(), got...)
}

func waitFor(t *testing.T, w *watcher, n need) {
	t.Helper()
	w.until(t, n.kind, func(frames []frame) bool {
		count := 0
		for _, f := range frames {
			if f.kind() == n.kind || f.kind() == eventChunk && bytes.Contains(f.raw, []byte(`"type":"`+n.kind+`"`)) {
				count++
			}
		}
		return count >= n.n
	})
}

// ids lists the ids that requests refer to, by kind, in the order in which they appeared.
func ids(lines []line) map[string][]string {
	found := map[string][]string{}
	note := func(kind, id string) {
		if id != "" && !slices.Contains(found[kind], id) {
			found[kind] = append(found[kind], id)
		}
	}
	for _, l := range lines {
		var call struct {
			Result struct {
				Value struct {
					SessionID string
					Ref       struct{ ID string }
				}
			}
		}
		if l.K == "rpc" && l.Method == "session.create" && json.Unmarshal(l.Response, &call) == nil {
			note("session", call.Result.Value.SessionID)
		}
		if l.K == "rpc" && l.Method == "goal.create" && json.Unmarshal(l.Response, &call) == nil {
			note("goal", call.Result.Value.Ref.ID)
		}
		var f struct {
			RPCID   string `json:"rpcId"`
			Payload struct {
				Type, SessionID, ApprovalID string
				Items                       []struct{ ID string }
			}
		}
		if l.K != "mux" || json.Unmarshal(l.Frame, &f) != nil {
			continue
		}
		note("session", f.Payload.SessionID)
		note("approval", f.Payload.ApprovalID)
		if strings.HasSuffix(f.Payload.Type, "/requested") {
			note("request", f.RPCID)
		}
		for _, item := range f.Payload.Items {
			note("item", item.ID)
		}
	}
	return found
}

// known reports whether every captured id in a text has its counterpart in this run.
func known(text string, from, to map[string][]string) bool {
	for kind, captured := range from {
		for i, id := range captured {
			if i >= len(to[kind]) && strings.Contains(text, id) {
				return false
			}
		}
	}
	return true
}

// translate puts the ids of this run in the place of the captured ones.
func translate(text string, from, to map[string][]string) string {
	var pairs []string
	for kind, captured := range from {
		for i, id := range captured {
			if i < len(to[kind]) {
				pairs = append(pairs, id, to[kind][i])
			}
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
