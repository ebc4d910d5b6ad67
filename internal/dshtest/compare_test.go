package dshtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// deliberate lists the differences between this host and the captures that are meant to be: members that are left out
// of the comparison, by the kind of the frame, event or call and their path.
var deliberate = []struct{ kind, path, reason string }{
	{"llm/retry", ".payload.event.data.delayMs", "the pauses are Options.RetryDelay; none by default"},
	{"host.describe", ".result.value.home", "this host has no home beside its cwd"},
	{"host.describe", ".result.value.attachedSessions", "the real host had other sessions attached"},
	{"agentPreset.list", ".result.value.presets.name", "the texts that describe the presets are the host's"},
	{"agentPreset.list", ".result.value.presets.description", "the texts that describe the presets are the host's"},
	{"session.history", ".result.value.projections.values.sessionListMetadata", "cut out of some of the captures"},
	{"subagent.history", ".result.value.projections.values.sessionListMetadata", "cut out of the captures"},
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
		if d.kind == kind {
			remove(v, strings.Split(d.path, ".")[1:])
		}
	}
}

// remove takes the member at a path out of a value, and out of every item of a list on the way.
func remove(v any, path []string) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			remove(item, path)
		}
	case map[string]any:
		if len(path) == 1 {
			delete(v, path[0])
			return
		}
		remove(v[path[0]], path[1:])
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
		if name == "system" || v == "(omitted)" || hostText(v) {
			return "a text"
		}
		v = anyUUID.ReplaceAllString(v, "an id")
		v = anyCall.ReplaceAllString(v, "a call")
		return anySleep.ReplaceAllString(v, "a pause")
	case float64:
		switch name {
		case "time", "updatedAt", "createdAt", "clearedAt", "startedAt", "finishedAt", "lastPromptAt":
			return "a number"
		}
	}
	return v
}

// hostText says whether a text is the host's own, which captures leave out.
func hostText(text string) bool {
	for _, start := range []string{
		"Current runtime context.", "The file policy", "Operations that need approval", "You work for another agent.",
		"background job bash-", "<goal_round>", "The tool call was interrupted", "```console\nThe tool call was interrupted",
	} {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	return false
}
