package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/outcome"
)

// resultAnswer is what a turn did. Every item names the event it was read from: seq, and sessionId where that is not
// the task's own session.
type resultAnswer struct {
	TaskID    string `json:"taskId"`
	Turn      int    `json:"turn,omitempty"`
	State     string `json:"state"`
	Starting  bool   `json:"starting,omitempty"` // a prompt was accepted that is no turn yet
	StartedAt string `json:"startedAt,omitempty"`
	// Millis is from the turn's start to its last event.
	Millis int64    `json:"ms,omitempty"`
	Steps  int      `json:"steps,omitempty"`
	Tokens *tokens  `json:"tokens,omitempty"`
	Seqs   []int64  `json:"seqs,omitempty"` // first and last event
	Final  *message `json:"finalMessage,omitempty"`

	Files     []resultFile    `json:"files,omitempty"`
	Commands  []resultCommand `json:"commands,omitempty"`
	Tests     []resultTest    `json:"tests,omitempty"`
	Git       []resultGit     `json:"git,omitempty"`
	Todos     *resultTodos    `json:"todos,omitempty"`
	Subagents []resultChild   `json:"subagents,omitempty"`
	Jobs      []resultJob     `json:"jobs,omitempty"`
	Warnings  []resultWarning `json:"warnings,omitempty"`

	Left               map[string]left `json:"left,omitempty"`
	ContentUnavailable string          `json:"contentUnavailable,omitempty"`
}

// pointer is the event an item was read from.
type pointer struct {
	Seq       int64  `json:"seq"`
	SessionID string `json:"sessionId,omitempty"`
}

type tokens struct {
	In         int64 `json:"in"`
	Out        int64 `json:"out"`
	CacheRead  int64 `json:"cacheRead,omitempty"`
	CacheWrite int64 `json:"cacheWrite,omitempty"`
}

type resultFile struct {
	Path   string `json:"path"`
	Change string `json:"change"`
	Tool   string `json:"tool"`
	Times  int    `json:"times,omitempty"` // when more than once
	pointer
}

type resultCommand struct {
	Command  string `json:"command"`
	Dir      string `json:"dir,omitempty"`
	Exit     *int   `json:"exit,omitempty"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timedOut,omitempty"`
	Job      string `json:"job,omitempty"`
	State    string `json:"state,omitempty"`
	Output   string `json:"output,omitempty"`
	Chars    int    `json:"chars,omitempty"` // full length of an output that was cut
	pointer
}

type resultTest struct {
	Runner   string `json:"runner"`
	Passed   *int   `json:"passed,omitempty"`
	Failed   *int   `json:"failed,omitempty"`
	Skipped  *int   `json:"skipped,omitempty"`
	Errors   *int   `json:"errors,omitempty"`
	PkgsOK   *int   `json:"packagesOk,omitempty"`
	PkgsFail *int   `json:"packagesFailed,omitempty"`
	Unsure   bool   `json:"unsure,omitempty"` // whether it ran is not told
	pointer
}

type resultGit struct {
	Kind   string `json:"kind"`
	Action string `json:"action"`
	Name   string `json:"name,omitempty"`
	Hash   string `json:"hash,omitempty"`
	Title  string `json:"title,omitempty"`
	pointer
}

type resultTodos struct {
	Completed int          `json:"completed"`
	Open      []resultTodo `json:"open,omitempty"`
	pointer
}

type resultTodo struct {
	Text   string `json:"text"`
	Status string `json:"status"`
}

// resultChild is a turn of a subagent; seq is its start in the subagent's own session.
type resultChild struct {
	SessionID string  `json:"sessionId"`
	Parent    string  `json:"parentSessionId,omitempty"`
	Label     string  `json:"label,omitempty"`
	Mode      string  `json:"mode,omitempty"`
	Turn      int     `json:"turn"`
	State     string  `json:"state"`
	Millis    int64   `json:"ms,omitempty"`
	Tokens    *tokens `json:"tokens,omitempty"`
	Seq       int64   `json:"seq"`
	FinalSeq  *int64  `json:"finalSeq,omitempty"`
}

type resultJob struct {
	ID    string `json:"id"`
	Label string `json:"label,omitempty"` // of a job that began before the turn
	// Seq is the call that started it, which is among the commands; absent for a job that began before the turn.
	Seq       *int64 `json:"seq,omitempty"`
	SessionID string `json:"sessionId,omitempty"`
}

type resultWarning struct {
	Kind    string  `json:"kind"`
	Tool    string  `json:"tool,omitempty"`
	Detail  string  `json:"detail,omitempty"`
	Failure string  `json:"message,omitempty"`
	Code    string  `json:"code,omitempty"`
	Status  int     `json:"status,omitempty"`
	Seqs    []int64 `json:"seqs,omitempty"`
	// SessionID is that of the seqs when it is not the task's own.
	SessionID string `json:"sessionId,omitempty"`
}

// left is what a list leaves out for want of room, with the range of its seqs in the task's own session.
type left struct {
	Count int   `json:"count"`
	From  int64 `json:"fromSeq,omitempty"`
	To    int64 `json:"toSeq,omitempty"`
}

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
	v := resultView{root: root, read: read}
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
	all := []outcome.Turn{*t}
	for _, c := range v.read.children {
		all = append(all, c.turn)
		a.Subagents = append(a.Subagents, v.child(c, lim))
	}
	var important []bool
	for _, turn := range all {
		for _, f := range turn.Files {
			a.Files = append(a.Files, v.file(f, lim))
		}
		for _, c := range turn.Commands {
			tested := slices.ContainsFunc(turn.Tests, func(test outcome.Test) bool { return test.Ref == c.Ref })
			a.Commands = append(a.Commands, v.command(c, lim))
			important = append(important, tested || c.Exit == nil || *c.Exit != 0)
		}
		for _, test := range turn.Tests {
			a.Tests = append(a.Tests, v.test(test))
		}
		for _, g := range turn.Git {
			title, _ := shorten(g.Title, lim.name)
			name, _ := shorten(g.Name, lim.name)
			a.Git = append(a.Git, resultGit{Kind: g.Kind, Action: g.Action, Name: name, Hash: g.Hash, Title: title, pointer: v.pointer(g.Ref)})
		}
		v.warn(&a, turn, lim)
	}
	v.todos(&a, lim)
	v.jobs(&a, lim)
	a.Files = trim(&a, "files", a.Files, nil, lim.items, func(f resultFile) pointer { return f.pointer })
	a.Commands = trim(&a, "commands", a.Commands, important, lim.items, func(c resultCommand) pointer { return c.pointer })
	a.Tests = trim(&a, "tests", a.Tests, nil, lim.items, func(t resultTest) pointer { return t.pointer })
	a.Git = trim(&a, "git", a.Git, nil, lim.items, func(g resultGit) pointer { return g.pointer })
	a.Subagents = trim(&a, "subagents", a.Subagents, nil, lim.items, func(c resultChild) pointer { return pointer{SessionID: c.SessionID} })
	a.Jobs = trim(&a, "jobs", a.Jobs, nil, lim.items, func(resultJob) pointer { return pointer{SessionID: "-"} })
	a.Warnings = trim(&a, "warnings", a.Warnings, nil, lim.items, func(resultWarning) pointer { return pointer{SessionID: "-"} })
	return a
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

func (v *resultView) test(t outcome.Test) resultTest {
	c := t.Counts
	return resultTest{Runner: t.Runner, Passed: c.Passed, Failed: c.Failed, Skipped: c.Skipped, Errors: c.Errors,
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
	for _, j := range v.read.jobs {
		a.Jobs = append(a.Jobs, resultJob{ID: j.ID, Seq: &j.Seq, SessionID: v.session(j.Ref)})
	}
	for _, j := range v.read.others {
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
func (v *resultView) warn(a *resultAnswer, t outcome.Turn, lim resultLimits) {
	own := v.session(outcome.Ref{Session: t.Session})
	if t.Start < 0 {
		a.Warnings = append(a.Warnings, resultWarning{Kind: warnIncomplete})
	}
	if t.End >= 0 && t.Reason != dsh.TurnCompleted {
		w := resultWarning{Kind: warnTurn, Detail: t.Reason, Code: t.Failure.ErrorCode, Status: t.Failure.ErrorStatus, Seqs: []int64{t.End}, SessionID: own}
		w.Failure, _ = shorten(t.Failure.ErrorMessage, min(maxFailure, lim.failed))
		a.Warnings = append(a.Warnings, w)
	}
	first := len(a.Warnings)
	for _, w := range t.Warnings {
		i := slices.IndexFunc(a.Warnings[first:], func(old resultWarning) bool {
			return old.Kind == w.Kind && old.Tool == w.Tool && old.Detail == w.Detail
		})
		if i >= 0 {
			if same := &a.Warnings[first+i]; len(same.Seqs) < max(1, lim.items) {
				same.Seqs = append(same.Seqs, w.Seq)
			}
			continue
		}
		a.Warnings = append(a.Warnings, resultWarning{Kind: w.Kind, Tool: w.Tool, Detail: w.Detail, Seqs: []int64{w.Seq}, SessionID: v.session(w.Ref)})
	}
}

func (a *resultAnswer) leave(list string, l left) {
	if a.Left == nil {
		a.Left = map[string]left{}
	}
	a.Left[list] = l
}

// trim keeps at most limit items: the important ones before the others, and of both the last ones.
func trim[T any](a *resultAnswer, name string, list []T, important []bool, limit int, at func(T) pointer) []T {
	if len(list) <= limit {
		return list
	}
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		if important != nil && important[x] != important[y] {
			if important[x] {
				return -1
			}
			return 1
		}
		return cmp.Compare(y, x)
	})
	kept := slices.Sorted(slices.Values(order[:limit]))
	l := left{Count: len(list) - limit}
	for _, i := range order[limit:] {
		p := at(list[i])
		if p.SessionID != "" {
			continue
		}
		if l.From == 0 || p.Seq < l.From {
			l.From = p.Seq
		}
		l.To = max(l.To, p.Seq)
	}
	a.leave(name, l)
	short := make([]T, 0, limit)
	for _, i := range kept {
		short = append(short, list[i])
	}
	return short
}
