package outcome

import (
	"strings"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/dsh"
)

// call is a tool call with what came of it.
type call struct {
	dsh.ToolCall
	seq       int64
	result    int64 // seq of the tool/result, -1 for none
	text      string
	isError   bool
	code      string
	job       string
	report    jobReport // of its background job, output added up
	reportSeq int64
}

type fold struct {
	session string
	turn    Turn
	order   []*call
	calls   map[string]*call // by call id
	jobs    map[string]*call // by job id
	asked   map[string]string
	dir     string
	ended   bool
	final   *Message
}

func (f *fold) ref(seq int64) Ref { return Ref{Session: f.session, Seq: seq} }

func (f *fold) event(ev dsh.Event) {
	if !f.ended {
		f.turn.LastAt = max(f.turn.LastAt, ev.Time)
	}
	switch ev.Type {
	case "turn/start":
		if f.turn.Start < 0 {
			f.turn.Start, f.turn.StartAt, f.turn.Number = ev.Seq, ev.Time, dsh.TurnOf(ev).Turn
		}
	case "turn/end":
		end := dsh.TurnEndOf(ev)
		f.turn.End, f.turn.Reason, f.turn.Failure, f.ended = ev.Seq, end.Kind, end, true
	case "step/start":
		f.turn.Steps++
	case "assistant/message":
		f.message(ev)
	case "user/message":
		f.heard(ev)
	case "tool/call":
		c := &call{ToolCall: dsh.ToolCallOf(ev), seq: ev.Seq, result: -1}
		f.order = append(f.order, c)
		f.calls[c.ID] = c
	case "tool/result":
		f.result(ev)
	case "todo/write":
		f.turn.Todos = &Todos{Ref: f.ref(ev.Seq), Items: dsh.TodosOf(ev)}
	case "approval/asked":
		asked := dsh.ApprovalAskedOf(ev)
		f.asked[asked.ApprovalID] = asked.ToolName
	case "approval/decided":
		if d := dsh.ApprovalDecidedOf(ev); d.Outcome != "" && !strings.HasPrefix(d.Outcome, "allowed") {
			f.warn(Warning{Ref: f.ref(ev.Seq), Kind: WarnApproval, Tool: f.asked[d.ApprovalID], Detail: d.Outcome})
		}
	}
}

func (f *fold) warn(w Warning) { f.turn.Warnings = append(f.turn.Warnings, w) }

func (f *fold) message(ev dsh.Event) {
	if u, ok := dsh.UsageOf(ev); ok {
		f.turn.HasUsage = true
		f.turn.Usage.Input += u.Input
		f.turn.Usage.Output += u.Output
		f.turn.Usage.CacheRead += u.CacheRead
		f.turn.Usage.CacheWrite += u.CacheWrite
	}
	m := dsh.AssistantMessageOf(ev)
	if m.Text != "" {
		f.final = &Message{Ref: f.ref(ev.Seq), Text: m.Text, Interrupted: m.Interrupted}
	}
}

// heard reads the host's notice that a background job has ended.
func (f *fold) heard(ev dsh.Event) {
	m := dsh.UserMessageOf(ev)
	if m.SourceKind != dsh.SourcePlugin || m.Plugin != "tool-jobs" {
		return
	}
	if id, report, ok := readNotice(m.Text); ok {
		f.report(id, report, ev.Seq)
	}
}

// report adds what is told of a background job to the call that started it.
func (f *fold) report(id string, r jobReport, seq int64) {
	c := f.jobs[id]
	if c == nil {
		return // of another turn
	}
	text := c.report.text
	if r.text != "" && text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	cut := c.report.cut || r.cut
	c.report, c.reportSeq = r, seq
	c.report.text, c.report.cut = text+r.text, cut
}

func (f *fold) result(ev dsh.Event) {
	r := dsh.ToolResultOf(ev)
	c := f.calls[r.CallID]
	if c == nil || c.result >= 0 {
		return
	}
	c.result, c.text, c.isError, c.code = ev.Seq, r.Text, r.IsError, dsh.ToolErrorOf(ev)
	if c.isError {
		return
	}
	switch c.Name {
	case "bash":
		if m := jobStarted.FindStringSubmatch(c.text); m != nil && gjson.Get(c.Arguments, "run_in_background").Bool() {
			c.job = m[1]
			f.jobs[c.job] = c
		}
	case "job_output":
		if report, ok := readJob(c.text); ok {
			f.report(gjson.Get(c.Arguments, "job_id").Str, report, ev.Seq)
		}
	case "write", "edit":
		if ch, ok := toolChange(c.Name, c.Arguments, c.text); ok && f.dir == "" {
			f.dir = directory(ch)
		}
	}
}

func (f *fold) finish() Turn {
	t := &f.turn
	t.Final = f.final
	var files []File
	failedTools := map[string]int{}
	for _, c := range f.order {
		if c.Name == "bash" {
			files = append(files, f.shell(c)...)
			continue
		}
		f.tool(c, failedTools)
		if c.isError || c.result < 0 {
			continue
		}
		if ch, ok := toolChange(c.Name, c.Arguments, c.text); ok {
			files = append(files, File{Ref: f.ref(c.result), Path: ch.path, Change: ch.kind, Tool: c.Name})
		}
	}
	t.Files = merge(f.dir, files)
	f.lastFailures()
	switch {
	case t.Final != nil && t.Final.Interrupted:
		f.warn(Warning{Ref: t.Final.Ref, Kind: WarnInterrupted})
	case t.Final == nil && t.End >= 0:
		f.warn(Warning{Ref: f.ref(t.End), Kind: WarnNoFinal})
	}
	byOrder(t.Warnings)
	return *t
}

// shell turns a call of the shell tool into a command, and reads from it what else it did.
func (f *fold) shell(c *call) []File {
	line := gjson.Get(c.Arguments, "command")
	if line.Type != gjson.String {
		f.tool(c, map[string]int{})
		return nil
	}
	cmd := Command{Ref: f.ref(c.seq), Line: line.Str, Dir: gjson.Get(c.Arguments, "workdir").Str, Result: c.result}
	switch {
	case c.result < 0:
		cmd.State = StateNone
	case c.isError:
		cmd.State, cmd.Output, cmd.failed = StateError, c.text, true
		if c.code == "ABORTED" {
			cmd.State = StateAborted
		}
	case c.job != "":
		f.background(c, &cmd)
	default:
		out := readConsole(c.text)
		cmd.Exit, cmd.Signal, cmd.TimedOut, cmd.Output, cmd.Truncated = out.exit, out.signal, out.timedOut, out.text, out.truncated
	}
	cmd.Output = ansi.ReplaceAllString(cmd.Output, "")
	cmd.failed = cmd.failed || cmd.Signal != "" || cmd.Exit != nil && *cmd.Exit != 0
	if cmd.Truncated {
		f.warn(Warning{Ref: f.ref(cmd.Result), Kind: WarnTruncated, Tool: c.Name})
	}
	f.turn.Commands = append(f.turn.Commands, cmd)
	if cmd.State == StateError {
		return nil
	}
	return f.understand(cmd)
}

// background fills in what is known of a command that became a job.
func (f *fold) background(c *call, cmd *Command) {
	cmd.Job, cmd.Output, cmd.Truncated = c.job, c.report.text, c.report.cut
	switch c.report.status {
	case "", "running":
		cmd.State = StateRunning
		f.turn.Jobs = append(f.turn.Jobs, Job{Ref: cmd.Ref, ID: c.job, Line: cmd.Line})
	default:
		cmd.Exit, cmd.Signal, cmd.Result = c.report.exit, c.report.signal, c.reportSeq
		if cmd.Exit == nil && cmd.Signal == "" {
			cmd.State = c.report.status
		}
	}
}

// understand takes the line apart and reads tests, commits and files from it.
func (f *fold) understand(cmd Command) (files []File) {
	all := parseLine(cmd.Line, dirOf(cmd.Dir, f.dir), cmd.Exit)
	out := output{text: cmd.Output, partial: cmd.Truncated || cmd.State != "" || cmd.TimedOut || cmd.Signal != ""}
	var runners []string
	var runs []simple
	for _, c := range all {
		if r := runnerOf(c); r != "" {
			runners, runs = append(runners, r), append(runs, c)
			out.partial = out.partial || c.filtered
		}
	}
	for i, c := range countRuns(runners, out) {
		test := Test{Ref: cmd.Ref, Runner: runners[i]}
		if c != nil {
			test.Counts = *c
		} else {
			test.Unsure = !runs[i].ran
		}
		f.turn.Tests = append(f.turn.Tests, test)
	}
	result := f.ref(cmd.Result)
	if cmd.Result < 0 {
		result = cmd.Ref
	}
	for _, g := range gitRefs(all, out) {
		g.Ref = result
		f.turn.Git = append(f.turn.Git, g)
	}
	for _, ch := range shellChanges(all) {
		files = append(files, File{Ref: result, Path: ch.path, Change: ch.kind, Tool: "bash"})
	}
	return files
}

// dirOf is the directory of a call: the one it names, or that of the session.
func dirOf(dir, session string) string {
	if dir == "" {
		return session
	}
	return join(session, dir)
}

// tool notes what another tool failed at. A later success of the same tool takes a failure back: agents try again.
func (f *fold) tool(c *call, failed map[string]int) {
	switch {
	case c.result < 0:
		return
	case !c.isError:
		if i, ok := failed[c.Name]; ok {
			f.turn.Warnings = append(f.turn.Warnings[:i], f.turn.Warnings[i+1:]...)
			delete(failed, c.Name)
			for name, at := range failed {
				if at > i {
					failed[name] = at - 1
				}
			}
		}
	case c.code == "ASK_CANCELLED":
		f.warn(Warning{Ref: f.ref(c.result), Kind: WarnQuestion})
	default:
		if i, ok := failed[c.Name]; ok {
			f.turn.Warnings[i].Seq, f.turn.Warnings[i].Detail = c.result, c.code
			return
		}
		failed[c.Name] = len(f.turn.Warnings)
		f.warn(Warning{Ref: f.ref(c.result), Kind: WarnToolFailed, Tool: c.Name, Detail: c.code})
	}
}

// lastFailures warns of the commands that failed after the last one that succeeded.
func (f *fold) lastFailures() {
	list := f.turn.Commands
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i].failed:
			f.warn(Warning{Ref: list[i].Ref, Kind: WarnFailedCommand})
		case list[i].Exit != nil:
			return
		}
	}
}
