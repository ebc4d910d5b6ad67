package outcome

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxLine bounds what is parsed of one command line, in bytes; a longer one is shown, not understood.
const maxLine = 64 << 10

// maxNesting bounds shells within shells.
const maxNesting = 4

// simple is one simple command of a line.
type simple struct {
	args []string // the words; "" with known[i] false for one that the shell has to work out
	// literal tells for every word whether it is what stands in args.
	literal []bool
	// ran: it is certain that it ran, whatever came before. ok: it is certain that it succeeded.
	ran, ok bool
	// filtered: its output went through another command or into a file, so that a part of it can be missing.
	filtered bool
	dir      string // where it ran: absolute, relative to where the line ran, or unknownDir
	writes   []string
}

// unknownDir stands for a directory that the line does not tell.
const unknownDir = "\x00"

// parseLine takes a command line apart. exit is the line's status, nil when it is not known. A line that is no shell
// has no commands.
func parseLine(line, dir string, exit *int) []simple {
	if len(line) > maxLine {
		return nil
	}
	w := walker{dir: dir, failed: exit == nil || *exit != 0}
	w.line(line, scope{ran: true, ok: exit != nil && *exit == 0})
	return w.all
}

type walker struct {
	all    []simple
	dir    string
	failed bool // the line did not succeed, or it is not known
	depth  int
	strict bool // set -e
	pipes  bool // set -o pipefail
}

// scope is what is certain of a statement.
type scope struct {
	ran, ok  bool
	filtered bool
}

func (w *walker) line(text string, s scope) {
	if w.depth >= maxNesting {
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return
	}
	w.depth++
	w.stmts(file.Stmts, s)
	w.depth--
}

// stmts walks a list. All of it ran, until something can have ended it; only its last statement succeeded for certain.
func (w *walker) stmts(list []*syntax.Stmt, s scope) {
	for i, stmt := range list {
		inner := s
		inner.ok = s.ok && (i == len(list)-1 || w.strict)
		before := len(w.all)
		w.stmt(stmt, inner)
		for _, c := range w.all[before:] {
			if len(c.args) > 0 && (c.args[0] == "exit" || c.args[0] == "return" || c.args[0] == "exec") {
				s.ran, s.ok = false, false
			}
		}
		if w.strict && w.failed {
			s.ran = false
		}
	}
}

func (w *walker) stmt(stmt *syntax.Stmt, s scope) {
	if stmt.Negated || stmt.Background || stmt.Coprocess {
		s.ok = false
	}
	if stmt.Background {
		s.filtered = true // its output can come late or never
	}
	var writes []string
	for _, r := range stmt.Redirs {
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll, syntax.RdrClob, syntax.RdrAllClob, syntax.AppClob, syntax.AppAllClob:
			if r.N != nil && r.N.Value == "2" {
				continue
			}
			s.filtered = true
			if target, literal := word(r.Word); literal {
				writes = append(writes, target)
			}
		}
	}
	switch cmd := stmt.Cmd.(type) {
	case nil:
		w.call(&syntax.CallExpr{}, s, writes)
	case *syntax.CallExpr:
		w.call(cmd, s, writes)
	case *syntax.BinaryCmd:
		w.binary(cmd, s)
	case *syntax.Block:
		w.stmts(cmd.Stmts, s)
	case *syntax.Subshell:
		dir := w.dir
		w.stmts(cmd.Stmts, s)
		w.dir = dir
	case *syntax.TimeClause:
		if cmd.Stmt != nil {
			w.stmt(cmd.Stmt, s)
		}
	default:
		w.inside(cmd, s)
	}
}

func (w *walker) binary(cmd *syntax.BinaryCmd, s scope) {
	x, y := s, s
	switch cmd.Op {
	case syntax.AndStmt:
		y.ran = s.ran && s.ok // the right side ran when the whole succeeded
	case syntax.OrStmt:
		x.ok, y.ran, y.ok = false, false, false
	default: // pipes
		x.ok = s.ok && w.pipes
		if !passesAll(cmd.Y) {
			x.filtered = true
		}
		dir := w.dir
		w.stmt(cmd.X, x)
		w.dir = dir
		w.stmt(cmd.Y, y)
		w.dir = dir
		return
	}
	w.stmt(cmd.X, x)
	dir := w.dir
	w.stmt(cmd.Y, y)
	if cmd.Op == syntax.OrStmt && dir != w.dir {
		w.dir = unknownDir
	}
}

// passesAll reports whether a stage of a pipeline hands on all that it reads.
func passesAll(stmt *syntax.Stmt) bool {
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || len(stmt.Redirs) > 0 {
		return false
	}
	name, _ := word(call.Args[0])
	return name == "tee" || name == "cat" && len(call.Args) == 1
}

// inside walks the statements of a conditional, a loop or another compound command. Nothing is certain of them.
func (w *walker) inside(cmd syntax.Command, s scope) {
	s.ran, s.ok = false, false
	dir := w.dir
	switch c := cmd.(type) {
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			w.stmts(c.Cond, s)
			w.stmts(c.Then, s)
		}
	case *syntax.WhileClause:
		w.stmts(c.Cond, s)
		w.stmts(c.Do, s)
	case *syntax.ForClause:
		w.stmts(c.Do, s)
	case *syntax.CaseClause:
		for _, item := range c.Items {
			w.stmts(item.Stmts, s)
		}
	}
	if dir != w.dir {
		w.dir = unknownDir
	}
}

func (w *walker) call(call *syntax.CallExpr, s scope, writes []string) {
	c := simple{ran: s.ran, ok: s.ok, filtered: s.filtered, dir: w.dir, writes: writes}
	for _, arg := range call.Args {
		text, literal := word(arg)
		c.args, c.literal = append(c.args, text), append(c.literal, literal)
	}
	c.unwrap()
	if len(c.args) == 0 {
		if len(writes) > 0 {
			w.all = append(w.all, c)
		}
		return
	}
	if script, ok := c.script(); ok {
		strict, pipes, dir := w.strict, w.pipes, w.dir
		w.strict = w.strict && c.args[0] == "eval" || setsStrict(c.args)
		w.pipes = w.pipes && c.args[0] == "eval" || c.args[0] != "eval" && slices.Contains(c.args, "pipefail")
		w.line(script, scope{ran: c.ran, ok: c.ok, filtered: c.filtered})
		if c.args[0] != "eval" {
			w.strict, w.pipes, w.dir = strict, pipes, dir
		}
		if len(writes) > 0 {
			w.all = append(w.all, simple{ran: c.ran, ok: c.ok, dir: c.dir, writes: writes})
		}
		return
	}
	switch c.args[0] {
	case "cd", "pushd", "popd":
		w.dir = c.cd()
	case "set":
		w.set(c.args[1:])
	}
	w.all = append(w.all, c)
}

func (w *walker) set(args []string) {
	for i, a := range args {
		switch {
		case strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "e"):
			w.strict = true
		case a == "+e":
			w.strict = false
		case a == "errexit":
			w.strict = i > 0 && strings.HasPrefix(args[i-1], "-")
		}
		if a == "pipefail" {
			w.pipes = i > 0 && strings.HasPrefix(args[i-1], "-")
		}
	}
}

// setsStrict reports whether a shell was started with -e.
func setsStrict(args []string) bool {
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "-") {
			return false
		}
		if !strings.HasPrefix(a, "--") && strings.Contains(a, "e") {
			return true
		}
	}
	return false
}

// cd is the directory in which the shell is after a cd.
func (c *simple) cd() string {
	if c.args[0] != "cd" || len(c.args) != 2 || !c.literal[1] || strings.HasPrefix(c.args[1], "-") {
		return unknownDir
	}
	return join(c.dir, c.args[1])
}

// join resolves a path of a command against its directory; unknownDir when that is not known.
func join(dir, p string) string {
	switch {
	case path.IsAbs(p):
		return path.Clean(p)
	case dir == unknownDir || strings.HasPrefix(p, "~"):
		return unknownDir
	}
	return path.Join(dir, p)
}

// word is the text of a word, and whether the shell takes it as it stands.
func word(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", false
	}
	var s strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, "*?[") || strings.Contains(p.Value, "{") && strings.ContainsAny(p.Value, ",.") {
				return p.Value, false // a pattern
			}
			s.WriteString(unescape(p.Value))
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			s.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return "", false
				}
				s.WriteString(unescapeQuoted(lit.Value))
			}
		default:
			return "", false
		}
	}
	return s.String(), true
}

// unescape takes away the backslashes of a bare word.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var s strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			if i++; text[i] == '\n' {
				continue
			}
		}
		s.WriteByte(text[i])
	}
	return s.String()
}

// unescapeQuoted takes away the backslashes that count between double quotes.
func unescapeQuoted(text string) string {
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, `$`, "\\`", "`", "\\\n", "").Replace(text)
}
