package bridge

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/internal/outcome"
	"dsh-agentlink/mux"
)

// step is a step in which the model calls a tool.
func step(t *testing.T, tool string, arguments args) labmodel.Step {
	t.Helper()
	raw, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	return labmodel.Step{Tool: tool, Args: raw}
}

func shellStep(t *testing.T, command string) labmodel.Step {
	t.Helper()
	return step(t, "bash", args{"command": command, "description": "Run it"})
}

var unstableResult = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`"seqs":\[[0-9,]+\]`), `"seqs":[0]`},
	{regexp.MustCompile(`"(seq|finalSeq|fromSeq|toSeq)":\d+`), `"$1":0`},
	{regexp.MustCompile(`"ms":\d+,`), ""}, // absent in a turn that takes none
}

func (r *rig) stableResult(text json.RawMessage) []byte {
	s := string(r.stable(text))
	for _, u := range unstableResult {
		s = u.pattern.ReplaceAllString(s, u.name)
	}
	return []byte(strings.NewReplacer(`,"`+"commands"+`":`, ",\n\"commands\":", `},{`, "},\n{").Replace(s))
}

// The answers of dsh_result to turns of different shapes, whole.
func TestResultAnswers(t *testing.T) {
	r := newRig(t)
	child := dshtest.Script(step(t, "write", args{"file_path": "child.txt", "content": "x"}), shellStep(t, "echo child; exit 1"), labmodel.Step{Say: "The child is done."})
	for _, tt := range []struct {
		name  string
		steps []labmodel.Step
	}{
		{"one_step", []labmodel.Step{shellStep(t, "echo hello"), {Say: "I printed hello."}}},
		{"empty", []labmodel.Step{{Say: "There was nothing to do."}}},
		{"edits", []labmodel.Step{
			step(t, "write", args{"file_path": "a.txt", "content": "one\n"}),
			step(t, "edit", args{"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
			step(t, "edit", args{"file_path": "b.txt", "old_string": "one", "new_string": "two"}),
			step(t, "todo_write", args{"todos": []args{{"content": "edit", "status": "completed"}, {"content": "test", "status": "in_progress"}}}),
			{Say: "Edited."}}},
		{"tests", []labmodel.Step{shellStep(t, "cd sub && true; ./pytest -q"), shellStep(t, "git tag v1"), shellStep(t, "echo 3 passed in 0.01s; false"), {Say: "Tested."}}},
		{"subagent", []labmodel.Step{step(t, "subagent", args{"description": "kid", "prompt": child, "run_in_background": false}), {Say: "The root is done."}}},
		{"failed", []labmodel.Step{shellStep(t, "true"), {Status: 400}}},
	} {
		task := r.delegate("Do it. " + dshtest.Script(tt.steps...))
		text := r.call("dsh_result", args{"taskId": task.TaskID}, nil)
		golden(t, "answers/result_"+tt.name+".json", r.stableResult(text))
		if tt.name == "one_step" && len(text) >= 700 {
			t.Errorf("the result of a one-step turn takes %d bytes", len(text))
		}
	}
}

func TestResultOfATurnByNumber(t *testing.T) {
	r := newRig(t)
	task := r.delegate("First. " + dshtest.Script(shellStep(t, "echo first"), labmodel.Step{Say: "One."}))
	id := task.TaskID
	for n, say := range []string{"Two.", "Three."} {
		r.call("dsh_followup", args{"taskId": id, "prompt": "On. " + dshtest.Script(shellStep(t, fmt.Sprint("echo ", n)), labmodel.Step{Say: say}), "waitSeconds": 20}, nil)
	}
	for turn, want := range map[int]string{1: "One.", 2: "Two.", 3: "Three."} {
		var got resultAnswer
		r.call("dsh_result", args{"taskId": id, "turn": turn}, &got)
		if got.Turn != turn || got.State != "completed" || got.Final == nil || got.Final.Text != want || len(got.Commands) != 1 {
			t.Errorf("turn %d: %+v", turn, got)
		}
	}
	for _, turn := range []int{0, -1, 4} {
		r.fails(CodeInvalidArgument, "dsh_result", args{"taskId": id, "turn": turn})
	}
	for _, bytes := range []int{0, 1023, 100_001} {
		r.fails(CodeInvalidArgument, "dsh_result", args{"taskId": id, "maxBytes": bytes})
	}
}

// A long turn fits into any budget, says what it left out, and keeps what failed.
func TestResultFits(t *testing.T) {
	r := newRig(t)
	var steps []labmodel.Step
	for n := range 150 {
		line := fmt.Sprintf("echo %d %s", n, strings.Repeat("ö", 200))
		if n == 20 {
			line += "; exit 7"
		}
		steps = append(steps, shellStep(t, line))
	}
	task := r.delegate("Much. " + dshtest.Script(append(steps, labmodel.Step{Say: strings.Repeat("word ", 5000)})...))
	for _, budget := range []int{1024, 2000, 6000, 30_000, 100_000} {
		var got resultAnswer
		text := r.call("dsh_result", args{"taskId": task.TaskID, "maxBytes": budget}, &got)
		if len(text) > budget {
			t.Errorf("%d bytes are more than %d", len(text), budget)
		}
		if budget < 100_000 && got.Left["commands"].Count+len(got.Commands) != 150 {
			t.Errorf("%d commands shown, %d left out", len(got.Commands), got.Left["commands"].Count)
		}
		if len(got.Commands) > 0 && !slices.ContainsFunc(got.Commands, func(c resultCommand) bool { return c.Exit != nil && *c.Exit == 7 }) {
			t.Errorf("with %d bytes the command that failed is left out", budget)
		}
	}
}

// A turn deep in a long history takes a page or two of it, not all.
func TestResultReadsOnlyTheTurn(t *testing.T) {
	r := newRig(t)
	task := r.delegate("Go. " + dshtest.Script(labmodel.Step{Say: "begun"}))
	if err := r.host.SeedHistory(task.SessionID, 400); err != nil {
		t.Fatal(err)
	}
	r.call("dsh_followup", args{"taskId": task.TaskID, "prompt": "On. " + dshtest.Script(shellStep(t, "echo last"), labmodel.Step{Say: "Last."}), "waitSeconds": 20}, nil)
	for _, turn := range []int{402, 200, 1} {
		before := r.host.Calls("session.history")
		var got resultAnswer
		r.call("dsh_result", args{"taskId": task.TaskID, "turn": turn}, &got)
		if got.Turn != turn || got.State != "completed" || len(got.Warnings) > 0 || got.Final == nil {
			t.Errorf("turn %d: %+v", turn, got)
		}
		if n := r.host.Calls("session.history") - before; n > 2 {
			t.Errorf("turn %d took %d pages", turn, n)
		}
	}
}

func TestResultWithoutAHost(t *testing.T) {
	r := newRig(t)
	task := r.delegate("Go. " + dshtest.Script(labmodel.Step{Say: "begun"}))
	r.host.Kill()
	var got resultAnswer
	r.call("dsh_result", args{"taskId": task.TaskID}, &got)
	if got.ContentUnavailable == "" || got.Turn != 1 || got.State != "completed" || got.Final != nil {
		t.Errorf("without a host: %+v", got)
	}
}

func TestResultBeforeTheFirstTurn(t *testing.T) {
	r := newRig(t)
	r.host.FailNext("session.prompt", 500, 1)
	failed := r.fails(CodeDelegationIncomplete, "dsh_delegate", args{"prompt": "Go.", "cwd": r.workspace("project")})
	var got resultAnswer
	r.call("dsh_result", args{"taskId": failed.Details["taskId"]}, &got)
	if got.State != turnNone || !got.Starting || got.Turn != 0 {
		t.Errorf("before the first turn: %+v", got)
	}
	r.fails(CodeInvalidArgument, "dsh_result", args{"taskId": failed.Details["taskId"], "turn": 1})
}

// A turn whose records have left the ledger is looked for in the history.
func TestResultOfATurnThatTheLedgerHasForgotten(t *testing.T) {
	r := newRig(t)
	seen := r.delegate("Go. " + dshtest.Script(labmodel.Step{Say: "begun"}))
	if err := r.host.SeedHistory(seen.SessionID, 300); err != nil {
		t.Fatal(err)
	}
	_, task, err := r.b.open(seen.TaskID)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := task.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range []int{301, 120, 1} {
		events, err := r.b.reader(task, snap).turnEvents(t.Context(), seen.SessionID, span{number: turn})
		if err != nil {
			t.Fatal(err)
		}
		if got := outcome.Of(seen.SessionID, "", events); got.Number != turn || got.Reason != "completed" || got.Final == nil {
			t.Errorf("turn %d: %+v", turn, got)
		}
	}
}

// However much there is, and however long its texts are, an answer keeps to its budget.
func TestResultKeepsToItsBudget(t *testing.T) {
	long := strings.Repeat("\x01\"ö", 400)
	turn := outcome.Turn{Session: "child", Number: 1, Start: 20_000, End: 90_000, StartAt: 1, LastAt: 1e9, Reason: "error", HasUsage: true, Final: &outcome.Message{Text: long}}
	turn.Failure.ErrorMessage = long
	for n := range 100 {
		ref := outcome.Ref{Session: "session-00000000-0000-0000-0000-000000000000", Seq: int64(20_000 + n)}
		turn.Files = append(turn.Files, outcome.File{Ref: ref, Path: fmt.Sprint(n, long), Change: "created", Tool: "write"})
		turn.Commands = append(turn.Commands, outcome.Command{Ref: ref, Line: long, Dir: long, Output: long})
		turn.Tests = append(turn.Tests, outcome.Test{Ref: ref, Runner: long})
		turn.Git = append(turn.Git, outcome.GitRef{Ref: ref, Kind: "commit", Name: long, Title: long})
		turn.Warnings = append(turn.Warnings, outcome.Warning{Ref: ref, Kind: "tool_failed", Tool: fmt.Sprint(n, long), Detail: long})
	}
	turn.Todos = &outcome.Todos{}
	for range 100 {
		turn.Todos.Items = append(turn.Todos.Items, dsh.Todo{Content: long, Status: "pending"})
	}
	read := turnRead{root: turn, others: []job{{ID: "bash-1", Label: long}}}
	for range 5 {
		read.children = append(read.children, childTurn{turn: turn, agent: mux.Subagent{SessionID: "child"}, label: long, state: "completed"})
	}
	for _, root := range []string{"root", "session-00000000-0000-0000-0000-000000000000"} {
		for _, budget := range []int{minResultBytes, 1500, 3000, defaultResultBytes, 20_000, maxResultBytes} {
			answer, err := resultAnswer{TaskID: "dsh_000000000000", Turn: 1}.fit(root, read, budget)
			if err != nil {
				t.Fatal(err)
			}
			text, err := encode(answer)
			if err != nil {
				t.Fatal(err)
			}
			if len(text) > budget {
				t.Errorf("%d bytes are more than %d", len(text), budget)
			}
		}
	}
}
