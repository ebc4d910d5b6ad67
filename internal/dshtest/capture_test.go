package dshtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
	// loose leaves the values out of the comparison, because how far a stream got is a matter of time.
	loose bool
}

var replays = []replay{
	{name: "hello", before: map[int][]need{4: {{eventTitle, 2}}, 5: {{eventTitle, 3}}}},
	{name: "queue", loose: true, before: map[int][]need{3: {{"text-delta", 2}}}},
	{name: "cancel", loose: true, before: map[int][]need{3: {{"text-delta", 2}}, 6: {{eventTurnEnd, 1}}}},
	{name: "fail"},
	{name: "question", before: map[int][]need{3: {{kindQuestionRequested, 1}}, 4: {{kindQuestionRequested, 1}}}},
	{name: "approval", before: map[int][]need{3: {{kindApprovalRequested, 1}}}},
	{name: "reject", before: map[int][]need{3: {{kindApprovalRequested, 1}}}},
	{name: "subagent", before: map[int][]need{3: {{eventTurnEnd, 2}}}},
	{name: "background"},
	{name: "goal"},
	{name: "errors"},
	// Captured from the same release as the others, with the same scripted model.
	{name: "steer", before: map[int][]need{3: {{eventToolCall, 1}, {eventTitle, 2}}, 6: {{eventTurnEnd, 2}}}},
	{name: "parked", loose: true, before: map[int][]need{3: {{"text-delta", 2}}, 6: {{eventTurnEnd, 1}}}},
	{name: "silent", before: map[int][]need{3: {{eventTitle, 2}}, 4: {{eventStepEnd, 1}}}},
	{name: "job"},
	{name: "spawn", before: map[int][]need{3: {{eventTurnEnd, 3}}}},
	{name: "stopchild", loose: true, before: map[int][]need{3: {{"text-delta", 3}}, 4: {{eventTurnEnd, 2}}}},
	{name: "dismiss", before: map[int][]need{3: {{kindQuestionRequested, 1}}, 4: {{kindQuestionRequested, 2}}, 5: {{kindApprovalRequested, 1}}}},
	{name: "restart", loose: true, restart: 6, before: map[int][]need{
		5: {{eventToolCall, 1}, {eventTitle, 4}, {"text-delta", 3}}, 6: {{eventSpliced, 5}}, 12: {{eventTurnEnd, 2}},
	}},
	{name: "retry"},
}

// deliberate lists the differences between this host and the captures that are meant to be: members that are left out
// of the comparison, by the kind of the frame, event or call and their path.
var deliberate = []struct{ kind, path, reason string }{
	{"llm/retry", ".payload.event.data.delayMs", "the pauses are Options.RetryDelay; none by default"},
	{"host.describe", ".result.value.home", "this host has no home beside its cwd"},
	{"host.describe", ".result.value.attachedSessions", "the real host had other sessions attached"},
	{"session.history", ".result.value.projections.values.sessionListMetadata", "cut out of some of the captures"},
	{"subagent.history", ".result.value.projections.values.sessionListMetadata", "cut out of the captures"},
}

// A script played here makes the frames and the answers that it makes on a real host.
func TestCaptures(t *testing.T) {
	for _, r := range replays {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			lines := readCapture(t, r.name)
			got := r.play(t, lines)
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
		})
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

// play repeats the operations of a capture and records what happens.
func (r replay) play(t *testing.T, lines []line) []line {
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
	operation := 0
	for _, l := range lines {
		if l.K == "mux" {
			continue
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
			w = watch(t, h)
		} else {
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
				Value struct{ SessionID string }
			}
		}
		if l.K == "rpc" && l.Method == "session.create" && json.Unmarshal(l.Response, &call) == nil {
			note("session", call.Result.Value.SessionID)
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

// token names one frame: its session by number, its kind, and of a chunk what it is. Deltas are left out: how a text
// is cut into them and what comes between them is a matter of time.
type token struct {
	session int
	name    string
}

func tokens(lines []line) []token {
	var all []token
	var sessions []string
	for _, l := range lines {
		var f struct {
			Payload struct {
				Type, SessionID string
				Key             string
				Event           struct {
					Type string
					Data struct {
						Chunk struct{ Type string }
					}
				}
			}
		}
		if l.K != "mux" || json.Unmarshal(l.Frame, &f) != nil {
			continue
		}
		p := f.Payload
		if p.Event.Data.Chunk.Type == "text-delta" {
			continue
		}
		if !slices.Contains(sessions, p.SessionID) {
			sessions = append(sessions, p.SessionID)
		}
		name := strings.Trim(strings.Join([]string{p.Type, p.Key, p.Event.Type, p.Event.Data.Chunk.Type}, " "), " ")
		all = append(all, token{slices.Index(sessions, p.SessionID), strings.TrimPrefix(name, kindEvent+"  ")})
	}
	return all
}

// bySession is the order of the frames of each session.
func bySession(lines []line) map[int][]string {
	order := map[int][]string{}
	for _, t := range tokens(lines) {
		order[t.session] = append(order[t.session], t.name)
	}
	return order
}

// shapes lists the JSON paths, with the types at their ends, of every kind of frame, event, call and answer.
func shapes(t *testing.T, lines []line) map[string][]string {
	t.Helper()
	found := map[string]map[string]bool{}
	note := func(name string, raw json.RawMessage) {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		leaveOut(name, v)
		if found[name] == nil {
			found[name] = map[string]bool{}
		}
		shape(v, "", found[name])
	}
	for _, l := range lines {
		if l.K == "rpc" {
			note(l.Method+outcomeOf(l.Response), l.Response)
			continue
		}
		var f frame
		if l.K == "mux" && json.Unmarshal(l.Frame, &f) == nil {
			note(f.kind(), l.Frame)
		}
	}
	all := map[string][]string{}
	for name, paths := range found {
		for path := range paths {
			all[name] = append(all[name], path)
		}
		slices.Sort(all[name])
	}
	return all
}

func outcomeOf(response json.RawMessage) string {
	if bytes.Contains(response, []byte(`"ok":false`)) {
		return " refused"
	}
	return ""
}

func shape(v any, path string, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			shape(member, path+"."+name, into)
		}
	case []any:
		for _, item := range v {
			shape(item, path+"[]", into)
		}
	default:
		into[fmt.Sprintf("%s %T", path, v)] = true
	}
}

// values lists every frame and answer with what differs from run to run made equal.
func values(t *testing.T, lines []line) []string {
	t.Helper()
	bySession := map[string][]string{}
	var calls, order []string
	for _, l := range lines {
		switch l.K {
		case "mux":
			var f frame
			if err := json.Unmarshal(l.Frame, &f); err != nil {
				t.Fatal(err)
			}
			id := f.Payload.SessionID
			if bySession[id] == nil {
				order = append(order, id)
			}
			bySession[id] = append(bySession[id], normal(t, f.kind(), l.Frame))
		case "rpc":
			calls = append(calls, l.Method+" "+normal(t, l.Method, l.Response))
		}
	}
	var all []string
	for _, id := range order {
		all = append(all, bySession[id]...)
	}
	return append(all, calls...)
}

var (
	anyUUID  = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	anyCall  = regexp.MustCompile(`call_lab-\d+_\d+`)
	anySleep = regexp.MustCompile(`sleep [0-9.]+;|delayMs\\+":\d+`)
)

// leaveOut takes the deliberate differences out of a value.
func leaveOut(kind string, v any) {
	for _, d := range deliberate {
		if d.kind != kind {
			continue
		}
		at := v
		names := strings.Split(d.path, ".")[1:]
		for _, name := range names[:len(names)-1] {
			members, _ := at.(map[string]any)
			at = members[name]
		}
		if members, ok := at.(map[string]any); ok {
			delete(members, names[len(names)-1])
		}
	}
}

// normal is a frame or an answer with what differs from run to run made equal.
func normal(t *testing.T, kind string, raw json.RawMessage) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	leaveOut(kind, v)
	return string(encode(normalValue("", v)))
}

func normalValue(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for member, value := range v {
			v[member] = normalValue(member, value)
		}
	case []any:
		for i, item := range v {
			v[i] = normalValue(name, item)
		}
	case string:
		switch name {
		case "system", "text", "name", "description", "summary":
			if name != "text" || v == "(omitted)" || hostText(v) {
				return "a text"
			}
		}
		v = anyUUID.ReplaceAllString(v, "an id")
		v = anyCall.ReplaceAllString(v, "a call")
		return anySleep.ReplaceAllString(v, "a pause")
	case float64:
		switch name {
		case "time", "updatedAt", "createdAt", "startedAt", "finishedAt", "lastPromptAt":
			return "a number"
		}
	}
	return v
}

// hostText says whether a text is the host's own, which captures leave out.
func hostText(text string) bool {
	for _, start := range []string{
		"Current runtime context.", "The file policy", "Operations that need approval", "You work for another agent.",
		"background job bash-", "The tool call was interrupted", "```console\nThe tool call was interrupted",
	} {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	return false
}
