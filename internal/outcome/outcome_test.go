package outcome

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dsh-agentlink/internal/dsh"
)

// history writes the events of a turn down as the host does.
type history struct {
	events []dsh.Event
	calls  int
}

func (h *history) add(kind string, data any) int64 {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	seq := int64(len(h.events)) + 4
	h.events = append(h.events, dsh.Event{Type: kind, Seq: seq, Time: 1000 + seq, Data: raw})
	return seq
}

type object = map[string]any

func (h *history) start(turn int) { h.add("turn/start", object{"turn": turn}) }
func (h *history) end(kind string) {
	h.add("turn/end", object{"turn": 1, "reason": object{"kind": kind}})
}

func (h *history) say(text string) int64 {
	return h.add("assistant/message", object{"message": object{"content": []object{{"type": "text", "text": text}}}, "usage": object{"inputTokens": 10, "outputTokens": 5}})
}

// call adds a tool call and its result; the seqs are those of the two.
func (h *history) call(tool string, args object, text string, more ...object) (call, result int64) {
	h.calls++
	id := fmt.Sprint("call-", h.calls)
	arguments, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	call = h.add("tool/call", object{"callId": id, "name": tool, "arguments": string(arguments)})
	block := object{"type": "tool-result", "toolCallId": id, "content": []object{{"type": "text", "text": text}}, "isError": len(more) > 0}
	body := object{"message": object{"source": object{"kind": "tool", "callId": id}, "content": []object{block}}}
	for _, m := range more {
		body["error"] = m
	}
	return call, h.add("tool/result", body)
}

func (h *history) bash(command, text string) (call, result int64) {
	return h.call("bash", object{"command": command, "description": "x"}, text)
}

func ref(seq int64) Ref { return Ref{Session: "s", Seq: seq} }

var unexported = cmp.AllowUnexported(Command{})

func TestFailingTestsThenFixed(t *testing.T) {
	var h history
	h.start(1)
	first, _ := h.bash("go test ./...", "--- FAIL: TestAdd (0.00s)\nFAIL\nFAIL\texample.com/a\t0.004s\nFAIL\n[exit code: 1]")
	_, edited := h.call("edit", object{"file_path": "a.go", "old_string": "-", "new_string": "+"}, "The file /w/a.go has been updated successfully.")
	second, _ := h.bash("go test ./...", "ok  \texample.com/a\t0.004s\n")
	commit, committed := h.bash("git commit -qam 'Add adds' && git tag v1", "(no output)")
	final := h.say("fixed")
	h.end("completed")
	got := Of("s", "", h.events)
	want := Turn{Session: "s", Number: 1, Start: 4, End: h.events[len(h.events)-1].Seq, StartAt: 1004, LastAt: h.events[len(h.events)-1].Time,
		Reason: "completed", Failure: dsh.TurnEnd{Turn: 1, Kind: "completed"}, Usage: dsh.Usage{Input: 10, Output: 5}, HasUsage: true,
		Final: &Message{Ref: ref(final), Text: "fixed"},
		Files: []File{{Ref: ref(edited), Path: "a.go", Change: FileChanged, Tool: "edit", Times: 1}},
		Commands: []Command{
			{Ref: ref(first), Line: "go test ./...", Exit: new(1), Output: "--- FAIL: TestAdd (0.00s)\nFAIL\nFAIL\texample.com/a\t0.004s\nFAIL", Result: first + 1, failed: true},
			{Ref: ref(second), Line: "go test ./...", Exit: new(0), Output: "ok  \texample.com/a\t0.004s\n", Result: second + 1},
			{Ref: ref(commit), Line: "git commit -qam 'Add adds' && git tag v1", Exit: new(0), Result: committed},
		},
		Tests: []Test{
			{Ref: ref(first), Runner: goTest, Counts: Counts{Failed: new(1), PackagesOK: new(0), PackagesFailed: new(1)}},
			{Ref: ref(second), Runner: goTest, Counts: Counts{Failed: new(0), PackagesOK: new(1), PackagesFailed: new(0)}},
		},
		Git: []GitRef{{Ref: ref(committed), Kind: "tag", Action: "created", Name: "v1"}, {Ref: ref(committed), Kind: "commit", Action: "created"}},
	}
	if diff := cmp.Diff(want, got, unexported); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFilesOfATurn(t *testing.T) {
	var h history
	h.start(1)
	written := func(name, verb string) int64 {
		_, seq := h.call("write", object{"file_path": name, "content": "x"}, "<path>/w/"+name+"</path>\n<type>file</type>\n<content>\n"+verb+" file\n</content>")
		return seq
	}
	edit := func(name string) int64 {
		_, seq := h.call("edit", object{"file_path": name, "old_string": "a", "new_string": "b"}, "The file /w/"+name+" has been updated successfully.")
		return seq
	}
	written("new.go", "Created")
	madeAndChanged := edit("new.go")
	changed := written("old.go", "Updated")
	written("brief.go", "Created")
	_, gone := h.bash("rm brief.go", "(no output)")
	h.call("edit", object{"file_path": "no.go", "old_string": "a", "new_string": "b"}, "Error: old_string was not found", object{"code": "FS_EDIT_NOT_FOUND"})
	_, out := h.bash("cd sub && ls > list.txt", "(no output)")
	h.bash("rm a; false", "(no output)\n[exit code: 1]")
	h.bash("echo 'rm x'", "rm x\n")
	want := []File{
		{Ref: ref(madeAndChanged), Path: "new.go", Change: FileCreated, Tool: "edit", Times: 2},
		{Ref: ref(changed), Path: "old.go", Change: FileChanged, Tool: "write", Times: 1},
		{Ref: ref(gone), Path: "brief.go", Change: FileDeleted, Tool: "bash", Times: 2},
		{Ref: ref(out), Path: "sub/list.txt", Change: FileWritten, Tool: "bash", Times: 1},
	}
	if diff := cmp.Diff(want, Of("s", "", h.events).Files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// With the session's directory known, a file has one name, however the calls name it.
func TestFilesOfAKnownDirectory(t *testing.T) {
	var h history
	h.call("write", object{"file_path": "/w/a.go", "content": "x"}, "<path>/w/a.go</path>\n<type>file</type>\n<content>\nCreated file\n</content>")
	_, gone := h.bash("rm a.go", "(no output)")
	want := []File{{Ref: ref(gone), Path: "a.go", Change: FileDeleted, Tool: "bash", Times: 2}}
	if diff := cmp.Diff(want, Of("s", "/w", h.events).Files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBackgroundJobs(t *testing.T) {
	var h history
	h.start(1)
	background := func(command, id string) int64 {
		call, _ := h.call("bash", object{"command": command, "run_in_background": true}, "started background job "+id)
		return call
	}
	tests := background("pytest", "bash-1")
	server := background("npm start", "bash-2")
	h.call("job_output", object{"job_id": "bash-1"}, "collecting\n[status: running]")
	h.call("job_output", object{"job_id": "bash-2"}, "(no new output)\n[status: running]")
	_, told := h.call("job_output", object{"job_id": "bash-1", "wait": true}, "==== 2 passed in 9.01s ====\n[status: completed, exit code: 0]")
	quick := background("exit 4", "bash-3")
	notice := h.add("user/message", object{"content": []object{{"type": "text", "text": "background job bash-3 (bash: exit 4) finished [status: completed, exit code: 4]. Read its output with job_output."}},
		"source": object{"kind": "plugin", "plugin": "tool-jobs"}})
	// A command that prints the words starts nothing.
	h.bash("echo started background job bash-9", "started background job bash-9")
	got := Of("s", "", h.events)
	want := []Command{
		{Ref: ref(tests), Line: "pytest", Exit: new(0), Job: "bash-1", Output: "collecting\n==== 2 passed in 9.01s ====", Result: told},
		{Ref: ref(server), Line: "npm start", Job: "bash-2", State: StateRunning, Result: server + 1},
		{Ref: ref(quick), Line: "exit 4", Exit: new(4), Job: "bash-3", Result: notice, failed: true},
	}
	if diff := cmp.Diff(want, got.Commands[:3], unexported); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Job{{Ref: ref(server), ID: "bash-2", Line: "npm start"}}, got.Jobs); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Test{{Ref: ref(tests), Runner: pytest, Counts: counts(2, 0, 0)}}, got.Tests); diff != "" {
		t.Errorf("tests (-want +got):\n%s", diff)
	}
}

func TestWarnings(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(h *history)
		want []Warning
	}{
		{"nothing", func(h *history) { h.bash("ls", "a\n"); h.say("done"); h.end("completed") }, nil},
		{"a failure and a success after it", func(h *history) { h.bash("a", "x\n[exit code: 1]"); h.bash("b", "y\n"); h.say("done") }, nil},
		{"failures at the end", func(h *history) {
			h.bash("a", "y\n")
			h.bash("b", "x\n[exit code: 1]")
			h.bash("c", "x\n[exit code: 2]")
		},
			[]Warning{{Ref: ref(7), Kind: WarnFailedCommand}, {Ref: ref(9), Kind: WarnFailedCommand}}},
		{"no message", func(h *history) { h.end("completed") }, []Warning{{Ref: ref(5), Kind: WarnNoFinal}}},
		{"a message that was cut off", func(h *history) {
			h.add("assistant/message", object{"interrupted": true, "message": object{"content": []object{{"type": "text", "text": "I w"}}}})
			h.end("aborted")
		}, []Warning{{Ref: ref(5), Kind: WarnInterrupted}}},
		{"a rejected approval", func(h *history) {
			h.add("approval/asked", object{"id": "a1", "toolName": "bash", "callId": "c"})
			h.add("approval/decided", object{"id": "a1", "outcome": "rejected"})
			h.add("approval/asked", object{"id": "a2", "toolName": "bash", "callId": "c"})
			h.add("approval/decided", object{"id": "a2", "outcome": "allowed-once"})
		}, []Warning{{Ref: ref(6), Kind: WarnApproval, Tool: "bash", Detail: "rejected"}}},
		{"a question without answer", func(h *history) {
			h.call("ask_user_question", object{}, "Error: the user cancelled ask_user_question", object{"code": "ASK_CANCELLED"})
		}, []Warning{{Ref: ref(6), Kind: WarnQuestion}}},
		{"a tool that failed and then did not", func(h *history) {
			h.call("edit", object{}, "Error: x", object{"code": "FS_NOT_FOUND"})
			h.call("read", object{}, "Error: x", object{"code": "FS_NOT_FOUND"})
			h.call("edit", object{}, "fine")
		}, []Warning{{Ref: ref(8), Kind: WarnToolFailed, Tool: "read", Detail: "FS_NOT_FOUND"}}},
		{"an output of which a part is missing", func(h *history) { h.bash("a", "x"+spill) }, []Warning{{Ref: ref(6), Kind: WarnTruncated, Tool: "bash"}}},
		{"an aborted command", func(h *history) {
			h.call("bash", object{"command": "sleep 9"}, "Error: tool call aborted", object{"code": "ABORTED"})
		}, []Warning{{Ref: ref(5), Kind: WarnFailedCommand}}},
	} {
		var h history
		h.start(1)
		tt.make(&h)
		if diff := cmp.Diff(tt.want, Of("s", "", h.events).Warnings); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// A test that can have been passed over is unsure, unless its figures prove that it ran.
func TestUnsureTests(t *testing.T) {
	for _, tt := range []struct {
		command, text string
		unsure        bool
	}{
		{"npm ci && npm test", "npm error\n[exit code: 1]", true},
		{"npm ci && npm test", "Tests:       1 failed, 1 total\n[exit code: 1]", false},
		{"npm ci && npm test", "fine\n", false},
		{"npm test", "boom\n[exit code: 1]", false},
		{"npm ci || npm test", "fine\n", true},
	} {
		var h history
		h.bash(tt.command, tt.text)
		tests := Of("s", "", h.events).Tests
		if len(tests) != 1 || tests[0].Unsure != tt.unsure {
			t.Errorf("%q with %q: %+v, want unsure %v", tt.command, tt.text, tests, tt.unsure)
		}
	}
}

func TestTodosAreTheLast(t *testing.T) {
	var h history
	h.add("todo/write", object{"todos": []object{{"content": "one", "status": "pending"}}})
	last := h.add("todo/write", object{"todos": []object{{"content": "one", "status": "completed"}, {"content": "two", "status": "in_progress"}}})
	want := &Todos{Ref: ref(last), Items: []dsh.Todo{{Content: "one", Status: "completed"}, {Content: "two", Status: "in_progress"}}}
	if diff := cmp.Diff(want, Of("s", "", h.events).Todos); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSplit(t *testing.T) {
	var h history
	h.add("session/title", object{})
	h.start(1)
	h.say("a")
	h.start(2)
	turns := Split(h.events)
	if len(turns) != 2 || len(turns[0]) != 2 || turns[1][0].Seq != 7 {
		t.Errorf("the turns are %v", turns)
	}
	if len(Split(nil)) != 0 {
		t.Error("nothing has turns")
	}
}

// refs are all pointers of a turn.
func (t *Turn) refs() (list []int64) {
	if t.Final != nil {
		list = append(list, t.Final.Seq)
	}
	if t.Todos != nil {
		list = append(list, t.Todos.Seq)
	}
	for _, seq := range []int64{t.Start, t.End} {
		if seq >= 0 {
			list = append(list, seq)
		}
	}
	for _, x := range t.Files {
		list = append(list, x.Seq)
	}
	for _, x := range t.Commands {
		list = append(list, x.Seq)
	}
	for _, x := range t.Tests {
		list = append(list, x.Seq)
	}
	for _, x := range t.Git {
		list = append(list, x.Seq)
	}
	for _, x := range t.Jobs {
		list = append(list, x.Seq)
	}
	for _, x := range t.Warnings {
		list = append(list, x.Seq)
	}
	return list
}

// Whatever comes in whatever order, every pointer is to an event of the history.
func TestPointersExist(t *testing.T) {
	kinds := []string{"turn/start", "turn/end", "step/start", "tool/call", "tool/result", "assistant/message", "user/message", "todo/write", "approval/asked", "approval/decided", "who/knows"}
	texts := []string{"", "ok\n", "x\n[exit code: 1]", "started background job bash-1", "(no new output)\n[status: completed, exit code: 1]", "[main 1a2b3c4] x", "==== 1 passed in 0.01s ===="}
	lines := []string{"ls", "pytest", "git commit -m x", "rm a > b", "git tag v1", "a && b", "$("}
	tools := []string{"bash", "write", "edit", "job_output", "read", ""}
	rapid.Check(t, func(t *rapid.T) {
		var h history
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			id := fmt.Sprint("call-", rapid.IntRange(0, 4).Draw(t, "call"))
			args, err := json.Marshal(object{"command": rapid.SampledFrom(lines).Draw(t, "line"), "job_id": "bash-1", "file_path": "a", "run_in_background": rapid.Bool().Draw(t, "background")})
			if err != nil {
				t.Fatal(err)
			}
			text := []object{{"type": "text", "text": rapid.SampledFrom(texts).Draw(t, "text")}}
			data := object{
				"turn": rapid.IntRange(-1, 3).Draw(t, "turn"), "reason": object{"kind": rapid.SampledFrom([]string{"", "error", "completed"}).Draw(t, "reason")},
				"callId": id, "name": rapid.SampledFrom(tools).Draw(t, "tool"), "arguments": string(args), "content": text,
				"message": object{"source": object{"callId": id}, "content": []object{{"type": "tool-result", "content": text, "isError": rapid.Bool().Draw(t, "error")}, text[0]}},
				"todos":   []object{{"content": "x"}}, "id": "a1", "outcome": rapid.SampledFrom([]string{"", "rejected"}).Draw(t, "outcome"),
				"source": object{"kind": "plugin", "plugin": "tool-jobs"}, "usage": 3,
			}
			if rapid.IntRange(0, 9).Draw(t, "broken") == 0 {
				h.add(rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.SampledFrom([]any{nil, 3, "x", []int{1}}).Draw(t, "body"))
				continue
			}
			h.add(rapid.SampledFrom(kinds).Draw(t, "kind"), data)
		}
		turn := Of("s", "", h.events)
		for _, seq := range turn.refs() {
			if !slices.ContainsFunc(h.events, func(ev dsh.Event) bool { return ev.Seq == seq }) {
				t.Fatalf("nothing has the seq %d", seq)
			}
		}
		for _, events := range Split(h.events) {
			Of("s", "", events)
		}
	})
}
