package bridge

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/outcome"
)

// resultLimits bound the texts of a result, in bytes, and the length of its lists.
type resultLimits struct {
	final, failed, output, line, name, items int
}

// tighter halves everything.
func (l resultLimits) tighter() resultLimits {
	return resultLimits{final: max(l.final/2, 100), failed: max(l.failed/2, 60), output: max(l.output/2, 30),
		line: max(l.line/2, 60), name: max(l.name/2, 40), items: l.items * 2 / 3}
}

// fit shows what was read within maxBytes.
func (a resultAnswer) fit(root string, read turnRead, maxBytes int) (any, error) {
	a.root = root
	v := resultView{root: root, read: read, all: []outcome.Turn{read.root}}
	for _, c := range read.children {
		v.all = append(v.all, c.turn)
	}
	lim := resultLimits{final: maxBytes * 2 / 3, failed: maxBytes / 6, output: maxBytes / 16, line: 400, name: 200, items: 40}
	lim.items = max(lim.items, maxBytes/100)
	for {
		shown := v.show(a, lim)
		text, err := encode(shown)
		if err != nil {
			return nil, err
		}
		if len(text) <= maxBytes || lim.items == 0 {
			return shown, nil
		}
		lim = lim.tighter()
	}
}

// resultView shows what was read of a turn.
type resultView struct {
	root string
	read turnRead
	all  []outcome.Turn // the root's and those of its subagents
}

func (v *resultView) show(a resultAnswer, lim resultLimits) resultAnswer {
	t := &v.read.root
	a.Left = nil
	if t.Reason != "" {
		a.State = t.Reason
	}
	a.Steps, a.Tokens = t.Steps, tokensOf(*t)
	if t.Start >= 0 {
		a.Millis, a.StartedAt = t.LastAt-t.StartAt, stamp(t.StartAt)
		a.Seqs = []int64{t.Start}
		if t.End >= 0 {
			a.Seqs = append(a.Seqs, t.End)
		}
	}
	if t.Final != nil {
		a.Final = &message{Seq: t.Final.Seq}
		a.Final.Text, a.Final.Chars = shorten(t.Final.Text, lim.final)
	}
	v.subagents(&a, lim)
	v.files(&a, lim)
	v.commands(&a, lim)
	v.refs(&a, lim)
	v.todos(&a, lim)
	v.jobs(&a, lim)
	for i := range v.all {
		v.warn(&a, &v.all[i], lim)
	}
	a.Warnings = trim(&a, "warnings", a.Warnings, nil, lim.items, func(resultWarning) outcome.Ref { return outcome.Ref{} })
	return a
}

// gather is what all turns have of a kind.
func gather[T any](turns []outcome.Turn, of func(*outcome.Turn) []T) (list []T) {
	for i := range turns {
		list = append(list, of(&turns[i])...)
	}
	return list
}

func (v *resultView) subagents(a *resultAnswer, lim resultLimits) {
	for _, c := range trim(a, "subagents", v.read.children, nil, lim.items, func(childTurn) outcome.Ref { return outcome.Ref{} }) {
		a.Subagents = append(a.Subagents, v.child(c, lim))
	}
}

func (v *resultView) files(a *resultAnswer, lim resultLimits) {
	all := gather(v.all, func(t *outcome.Turn) []outcome.File { return t.Files })
	for _, f := range trim(a, "files", all, nil, lim.items, func(f outcome.File) outcome.Ref { return f.Ref }) {
		a.Files = append(a.Files, v.file(f, lim))
	}
}

// commands keeps those that failed and those that ran tests before the others.
func (v *resultView) commands(a *resultAnswer, lim resultLimits) {
	all := gather(v.all, func(t *outcome.Turn) []outcome.Command { return t.Commands })
	tests := gather(v.all, func(t *outcome.Turn) []outcome.Test { return t.Tests })
	tested := map[outcome.Ref]bool{}
	for _, t := range tests {
		tested[t.Ref] = true
	}
	important := func(c outcome.Command) bool { return tested[c.Ref] || c.Exit == nil || *c.Exit != 0 }
	for _, c := range trim(a, "commands", all, important, lim.items, func(c outcome.Command) outcome.Ref { return c.Ref }) {
		a.Commands = append(a.Commands, v.command(c, lim))
	}
	for _, t := range trim(a, "tests", tests, nil, lim.items, func(t outcome.Test) outcome.Ref { return t.Ref }) {
		a.Tests = append(a.Tests, v.test(t, lim))
	}
}

func (v *resultView) refs(a *resultAnswer, lim resultLimits) {
	all := gather(v.all, func(t *outcome.Turn) []outcome.GitRef { return t.Git })
	for _, g := range trim(a, "git", all, nil, lim.items, func(g outcome.GitRef) outcome.Ref { return g.Ref }) {
		title, _ := shorten(g.Title, lim.name)
		name, _ := shorten(g.Name, lim.name)
		a.Git = append(a.Git, resultGit{Kind: g.Kind, Action: g.Action, Name: name, Hash: g.Hash, Title: title, pointer: v.pointer(g.Ref)})
	}
}

func (v *resultView) pointer(r outcome.Ref) pointer {
	return pointer{Seq: r.Seq, SessionID: v.session(r)}
}

// session is left out where it is the task's own.
func (v *resultView) session(r outcome.Ref) string {
	if r.Session == v.root {
		return ""
	}
	return r.Session
}

func tokensOf(t outcome.Turn) *tokens {
	if !t.HasUsage {
		return nil
	}
	return &tokens{In: t.Usage.Input, Out: t.Usage.Output, CacheRead: t.Usage.CacheRead, CacheWrite: t.Usage.CacheWrite}
}

func (v *resultView) child(c childTurn, lim resultLimits) resultChild {
	child := resultChild{SessionID: c.agent.SessionID, Mode: c.agent.Mode, Turn: c.turn.Number, State: c.state,
		Millis: c.turn.LastAt - c.turn.StartAt, Tokens: tokensOf(c.turn), Seq: c.turn.Start}
	child.Label, _ = shorten(c.label, lim.name)
	if c.agent.Parent != v.root {
		child.Parent = c.agent.Parent
	}
	if c.turn.Final != nil {
		child.FinalSeq = &c.turn.Final.Seq
	}
	return child
}

func (v *resultView) file(f outcome.File, lim resultLimits) resultFile {
	file := resultFile{Change: f.Change, Tool: f.Tool, pointer: v.pointer(f.Ref)}
	file.Path, _ = shorten(f.Path, lim.name)
	if f.Times > 1 {
		file.Times = f.Times
	}
	return file
}

func (v *resultView) command(c outcome.Command, lim resultLimits) resultCommand {
	shown := resultCommand{Exit: c.Exit, Signal: c.Signal, TimedOut: c.TimedOut, Job: c.Job, State: c.State, pointer: v.pointer(c.Ref)}
	shown.Command, _ = shorten(c.Line, lim.line)
	shown.Dir, _ = shorten(c.Dir, lim.name)
	limit := lim.output
	if c.Exit == nil || *c.Exit != 0 {
		limit = lim.failed
	}
	shown.Output, shown.Chars = keepTail(strings.TrimRight(c.Output, "\n"), limit)
	return shown
}

// keepTail is shorten for an output, whose end says most.
func keepTail(text string, limit int) (short string, chars int) {
	if len(text) <= limit {
		return text, 0
	}
	head, from := limit/5, len(text)-limit*4/5
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return text[:head] + fmt.Sprintf(" …[%d characters cut]… ", utf8.RuneCountInString(text[head:from])) + text[from:], utf8.RuneCountInString(text)
}

func (v *resultView) test(t outcome.Test, lim resultLimits) resultTest {
	c := t.Counts
	runner, _ := shorten(t.Runner, lim.name)
	return resultTest{Runner: runner, Passed: c.Passed, Failed: c.Failed, Skipped: c.Skipped, Errors: c.Errors,
		PkgsOK: c.PackagesOK, PkgsFail: c.PackagesFailed, Unsure: t.Unsure, pointer: v.pointer(t.Ref)}
}

func (v *resultView) todos(a *resultAnswer, lim resultLimits) {
	t := v.read.root.Todos
	if t == nil {
		return
	}
	a.Todos = &resultTodos{pointer: v.pointer(t.Ref)}
	for _, todo := range t.Items {
		if todo.Status == "completed" {
			a.Todos.Completed++
			continue
		}
		text, _ := shorten(todo.Content, lim.name)
		a.Todos.Open = append(a.Todos.Open, resultTodo{Text: text, Status: todo.Status})
	}
	if n := len(a.Todos.Open); n > lim.items {
		a.Todos.Open = a.Todos.Open[:lim.items]
		a.leave("todos", left{Count: n - lim.items, From: t.Seq, To: t.Seq})
	}
}

func (v *resultView) jobs(a *resultAnswer, lim resultLimits) {
	for _, j := range trim(a, "jobs", v.read.jobs, nil, lim.items, func(j outcome.Job) outcome.Ref { return j.Ref }) {
		a.Jobs = append(a.Jobs, resultJob{ID: j.ID, Seq: &j.Seq, SessionID: v.session(j.Ref)})
	}
	for _, j := range trim(a, "olderJobs", v.read.others, nil, lim.items, func(job) outcome.Ref { return outcome.Ref{} }) {
		label, _ := shorten(j.Label, lim.name)
		a.Jobs = append(a.Jobs, resultJob{ID: j.ID, Label: label})
	}
}

// Warnings that the outcome of a turn itself gives.
const (
	warnTurn       = "turn_failed"        // it ended otherwise than completed
	warnIncomplete = "history_incomplete" // the host's history does not hold the whole turn
)

// warn shows the warnings of a turn; those that say the same of several events are one.
func (v *resultView) warn(a *resultAnswer, t *outcome.Turn, lim resultLimits) {
	own := v.session(outcome.Ref{Session: t.Session})
	if t.Start < 0 {
		a.Warnings = append(a.Warnings, resultWarning{Kind: warnIncomplete})
	}
	if t.End >= 0 && t.Reason != dsh.TurnCompleted {
		w := resultWarning{Kind: warnTurn, Code: t.Failure.ErrorCode, Status: t.Failure.ErrorStatus, Seqs: []int64{t.End}, SessionID: own}
		w.Failure, _ = shorten(t.Failure.ErrorMessage, min(maxFailure, lim.failed))
		a.Warnings = append(a.Warnings, w)
	}
	first := len(a.Warnings)
	for _, w := range t.Warnings {
		tool, _ := shorten(w.Tool, lim.name)
		detail, _ := shorten(w.Detail, lim.name)
		i := slices.IndexFunc(a.Warnings[first:], func(old resultWarning) bool {
			return old.Kind == w.Kind && old.Tool == tool && old.Detail == detail
		})
		if i >= 0 {
			if same := &a.Warnings[first+i]; len(same.Seqs) < max(1, lim.items) {
				same.Seqs = append(same.Seqs, w.Seq)
			}
			continue
		}
		a.Warnings = append(a.Warnings, resultWarning{Kind: w.Kind, Tool: tool, Detail: detail, Seqs: []int64{w.Seq}, SessionID: v.session(w.Ref)})
	}
}

func (a *resultAnswer) leave(list string, l left) {
	if a.Left == nil {
		a.Left = map[string]left{}
	}
	a.Left[list] = l
}

// trim keeps at most limit items: the important ones before the others, and of both the last ones. It notes what it
// leaves out; at is where an item was read from, if that is one event.
func trim[T any](a *resultAnswer, name string, list []T, important func(T) bool, limit int, at func(T) outcome.Ref) []T {
	if len(list) <= limit {
		return list
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = len(list) - 1 - i
	}
	if important != nil {
		slices.SortStableFunc(order, func(x, y int) int {
			switch ix, iy := important(list[x]), important(list[y]); {
			case ix && !iy:
				return -1
			case iy && !ix:
				return 1
			}
			return 0
		})
	}
	l := left{Count: len(list) - limit}
	for _, i := range order[limit:] {
		ref := at(list[i])
		if ref.Session != a.root {
			continue
		}
		if l.From == 0 || ref.Seq < l.From {
			l.From = ref.Seq
		}
		l.To = max(l.To, ref.Seq)
	}
	a.leave(name, l)
	short := make([]T, 0, limit)
	for _, i := range slices.Sorted(slices.Values(order[:limit])) {
		short = append(short, list[i])
	}
	return short
}
