//go:build reliability

package scenario

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"dsh-agentlink/ledger"
)

// damageScenarios are about files of the home that are not what a bridge writes. Only the task they belong to stops,
// nothing is changed, and what is said of it leads out. A host has little part in it, so most are not played on a real
// one, which takes its time.
var damageScenarios = []scenario{
	{name: "a ledger is damaged while no bridge runs", run: damagedAtRest, scriptedOnly: true},
	{name: "a ledger is damaged under a running bridge", run: damagedUnderBridge, scriptedOnly: true},
	{name: "a damaged ledger and its workspace", run: damagedRelease},
	{name: "a task file of a newer bridge", run: newerTask},
	{name: "a claim file that is garbage", run: garbageClaim, scriptedOnly: true},
}

// damage is one way in which a ledger can be broken.
type damage struct {
	name      string
	compacted bool                        // it is about a ledger with a checkpoint
	newer     bool                        // a newer bridge could go on with it
	does      func(e *env, t, other task) // breaks the ledger of t; other is a task beside it
	says      []string                    // words of the message
}

// lines are those of a ledger's file, each with its end.
func (e *env) lines(t task) [][]byte {
	e.t.Helper()
	lines := bytes.SplitAfter(e.read(e.ledgerPath(t)), []byte("\n"))
	if len(lines) < 8 {
		e.t.Fatalf("the ledger has %d lines, too few to be damaged in the middle", len(lines))
	}
	return lines
}

func (e *env) writeLines(t task, lines ...[]byte) {
	e.t.Helper()
	e.put(e.ledgerPath(t), bytes.Join(lines, nil))
}

// checkpointed makes sure that a task's ledger has a checkpoint.
func (e *env) checkpointed(t task) {
	e.t.Helper()
	b := e.bridge(smallLedger)
	e.compact(b, t)
	b.stop()
}

// atRest are the ways to break a ledger that nobody has open.
var atRest = []damage{
	{name: "a bad line in the middle", says: []string{"line 5"}, does: func(e *env, t, _ task) {
		lines := e.lines(t)
		lines[4] = []byte("{\"cursor\":4,\"obser\n")
		e.writeLines(t, lines...)
	}},
	{name: "a line of zeros in the middle", says: []string{"line 5"}, does: func(e *env, t, _ task) {
		lines := e.lines(t)
		lines[4] = append(bytes.Repeat([]byte{0}, len(lines[4])-1), '\n')
		e.writeLines(t, lines...)
	}},
	{name: "a cursor jump", says: []string{"line 5", "the cursor is", "has to be"}, does: func(e *env, t, _ task) {
		lines := e.lines(t)
		e.writeLines(t, append(lines[:4:4], lines[5:]...)...)
	}},
	{name: "a record twice", says: []string{"line 6", "the cursor is", "has to be"}, does: func(e *env, t, _ task) {
		lines := e.lines(t)
		e.writeLines(t, append(lines[:5:5], lines[4:]...)...)
	}},
	{name: "nothing in it", says: []string{"line 1"}, does: func(e *env, t, _ task) { e.writeLines(t) }},
	{name: "the ledger of another task", says: []string{"line 1", "belongs to task"}, does: func(e *env, t, other task) {
		e.put(e.ledgerPath(t), e.read(e.ledgerPath(other)))
	}},
	{name: "a newer format", newer: true, says: []string{"format 2 is newer than 1"}, does: func(e *env, t, _ task) {
		e.newer(e.ledgerPath(t))
	}},
	{name: "a truncated checkpoint", compacted: true, says: []string{ledger.CheckpointFile}, does: func(e *env, t, _ task) {
		whole := e.read(e.checkpointPath(t))
		e.put(e.checkpointPath(t), whole[:len(whole)/2])
	}},
	{name: "a checkpoint of a newer format", compacted: true, newer: true, says: []string{ledger.CheckpointFile, "format 2 is newer than 1"}, does: func(e *env, t, _ task) {
		e.newer(e.checkpointPath(t))
	}},
	{name: "no checkpoint any more", compacted: true, says: []string{"checkpoint"}, does: func(e *env, t, _ task) {
		e.aside(e.checkpointPath(t))
	}},
	{name: "a checkpoint and no file", compacted: true, says: []string{"the file is gone"}, does: func(e *env, t, _ task) {
		e.aside(e.ledgerPath(t))
	}},
}

// underBridge are the ways to break a ledger that a bridge has open.
var underBridge = []damage{
	{name: "it is deleted", says: []string{"the file is gone"}, does: func(e *env, t, _ task) { e.aside(e.ledgerPath(t)) }},
	{name: "it is replaced by an older copy", says: []string{"an older file stands in its place"}, does: func(e *env, t, _ task) {
		lines := e.lines(t)
		e.writeLines(t, lines[:6]...)
	}},
	{name: "it is replaced by another task's", says: []string{"belongs to task"}, does: func(e *env, t, other task) {
		e.put(e.ledgerPath(t), e.read(e.ledgerPath(other)))
	}},
	{name: "it is cut short", says: []string{"the file shrank"}, does: func(e *env, t, _ task) {
		if err := os.Truncate(e.ledgerPath(t), int64(len(e.lines(t)[0]))); err != nil {
			e.t.Fatal(err)
		}
	}},
}

func (e *env) checkpointPath(t task) string {
	return filepath.Join(e.ledgerDir(t), ledger.CheckpointFile)
}

// newer makes a file one of a newer bridge.
func (e *env) newer(path string) {
	e.t.Helper()
	e.put(path, bytes.Replace(e.read(path), []byte(`"format":1`), []byte(`"format":2`), 1))
}

// contents are the files of a ledger's folder.
func (e *env) contents(t task) map[string]string {
	e.t.Helper()
	all := map[string]string{}
	for _, name := range []string{ledger.EventsFile, ledger.CheckpointFile} {
		data, err := os.ReadFile(filepath.Join(e.ledgerDir(t), name))
		if err != nil && !os.IsNotExist(err) {
			e.t.Fatal(err)
		}
		if err == nil {
			all[name] = string(data)
		}
	}
	return all
}

// refuses checks what a bridge does with a task whose ledger is damaged, and with the one beside it. It returns the hint.
func (d damage) refuses(e *env, b *bridge, t, other task) (hint string) {
	e.t.Helper()
	broken := e.contents(t)
	for tool, arguments := range map[string]args{
		"dsh_status": {}, "dsh_wait": {"timeoutSec": 0}, "dsh_tail": {}, "dsh_cancel": {}, "dsh_followup": {"prompt": e.prompt(e.say("never sent"))},
	} {
		arguments["taskId"] = t.id
		a := b.mustFail("ledger_damaged", tool, arguments).says(append(d.says, e.ledgerDir(t))...)
		if path := a.str("error.details.path"); !strings.HasPrefix(path, e.ledgerDir(t)) {
			e.t.Errorf("%s: %s: the failure names %s", d.name, tool, path)
		}
		hint = a.str("error.hint")
	}
	list := b.call("dsh_list", args{"state": "all"})
	if !strings.Contains(list.get("unreadable").Raw, t.id) || !strings.Contains(list.must("tasks").Raw, other.id) {
		e.t.Errorf("%s: the list does not tell the damaged task from the whole one: %s", d.name, list.text)
	}
	e.works(b, other, "beside: "+d.name)
	for name, data := range e.contents(t) {
		if data != broken[name] {
			e.t.Errorf("%s: %s was changed after it was found damaged", d.name, name)
		}
	}
	return hint
}

// follow does what a hint says, and checks that it leads out. whole is what the files were before. It returns the
// processes that run then.
func (d damage) follow(e *env, hint string, whole map[string]string, t task, bridges ...*bridge) []*bridge {
	e.t.Helper()
	if d.newer && strings.Contains(hint, "newer bridge") {
		// That one can read it.
		for name, data := range whole {
			e.put(filepath.Join(e.ledgerDir(t), name), []byte(data))
		}
	} else {
		e.obey(hint)
	}
	for i := range bridges {
		b := bridges[i]
		a := b.try("dsh_status", args{"taskId": t.id})
		if a.isError || a.str("recovery") != "live" {
			e.t.Errorf("%s: the hint was followed and leads nowhere: %s", d.name, a.text)
			b.stop()
			b = e.bridge()
			bridges[i], a = b, b.status(t)
		}
		a.want(args{"recovery": "live", "gaps": nil, "fault": nil, "execution": "turn_completed"})
		e.works(b, t, "mended: "+d.name)
		e.eventually(func() string {
			b.status(t)
			if after, _ := e.compacted(t); !fromStart(after) {
				return ""
			}
			return e.differs(t.id)
		})
	}
	return bridges
}

func damagedAtRest(e *env) {
	b := e.bridge()
	t, other := e.finished(b, "first"), e.finished(b, "other")
	for _, d := range atRest {
		b.stop()
		if d.compacted {
			e.checkpointed(t)
		}
		whole := e.contents(t)
		d.does(e, t, other)
		b = e.bridge()
		hint := d.refuses(e, b, t, other)
		b = d.follow(e, hint, whole, t, b)[0]
	}
	b.stop()
	e.aside(e.ledgerDir(t))
}

func damagedUnderBridge(e *env) {
	bridges := []*bridge{e.bridge(), e.bridge()}
	t, other := e.finished(bridges[0], "first"), e.finished(bridges[0], "other")
	for _, d := range underBridge {
		e.works(bridges[0], t, "before: "+d.name)
		for _, b := range bridges {
			b.status(t)
			b.status(other)
		}
		whole := e.contents(t)
		d.does(e, t, other)
		// Two processes that had it open.
		d.refuses(e, bridges[0], t, other)
		hint := d.refuses(e, bridges[1], t, other)
		bridges = d.follow(e, hint, whole, t, bridges...)
	}
}

// damagedRelease ends a task of which the ledger is not needed any more.
func damagedRelease(e *env) {
	b := e.bridge()
	t := e.finished(b, "first")
	b.stop()
	lines := e.lines(t)
	e.writeLines(t, append(lines[:4:4], lines[5:]...)...)
	b = e.bridge()
	b.call("dsh_release_workspace", args{"taskId": t.id}).want(args{"released": true, "workspace.cwd": t.cwd})
	second := e.delegate(b, e.prompt(e.say("instead")), args{"cwd": t.cwd})
	b.ended(second, second.cursor).want(args{"finalMessage.text": e.text("instead")})
	b.mustFail("ledger_damaged", "dsh_status", args{"taskId": t.id})
	b.stop()
	e.aside(e.ledgerDir(t))
}

func newerTask(e *env) {
	b := e.bridge()
	delegation := args{"prompt": e.prompt(e.say("first")), "cwd": e.workspace(), "requestId": "the first", "waitSeconds": 30}
	a := b.call("dsh_delegate", delegation).want(args{"finalMessage.text": e.text("first")})
	t := task{id: a.str("taskId"), session: a.str("sessionId")}
	other := e.finished(b, "other")
	path := e.taskPath(t)
	ours := e.read(path)
	e.newer(path)
	newer := e.read(path)
	for tool, arguments := range map[string]args{
		"dsh_status": {}, "dsh_wait": {"timeoutSec": 0}, "dsh_tail": {}, "dsh_cancel": {}, "dsh_release_workspace": {},
		"dsh_followup": {"prompt": e.prompt(e.say("never sent"))},
	} {
		arguments["taskId"] = t.id
		a := b.mustFail("internal", tool, arguments).says(path, "newer bridge")
		if hint := a.get("error.hint").String(); hint == "" {
			e.t.Errorf("%s: the failure does not say what to do: %s", tool, a.text)
		}
	}
	if list := b.call("dsh_list", args{"state": "all"}); !strings.Contains(list.get("unreadable").Raw, t.id) || list.num("tasks.#") != 1 {
		e.t.Errorf("the list does not tell the unreadable task from the other: %s", list.text)
	}
	// The same delegation does not become a second task because the first cannot be read.
	if a := b.try("dsh_delegate", delegation); !a.isError {
		e.t.Errorf("a delegation was done again whose task cannot be read: %s", a.text)
	}
	e.works(b, other, "besides")
	fresh := e.finished(b, "a new one")
	b.stop()
	b = e.bridge()
	e.works(b, fresh, "in a new process")
	if !bytes.Equal(e.read(path), newer) {
		e.t.Errorf("the newer file was changed")
	}
	// What the newer bridge would do with it.
	e.put(path, ours)
	b.call("dsh_delegate", delegation).want(args{"repeated": true, "taskId": t.id, "finalMessage.text": e.text("first")})
	e.works(b, t, "as before")
}

func garbageClaim(e *env) {
	b := e.bridge()
	t, other := e.finished(b, "first"), e.finished(b, "other")
	path := e.claimPath(t)
	for _, garbage := range []string{"garbage", "", `{"format":2}`, "\x00\x00\x00"} {
		ours := e.read(path)
		e.put(path, []byte(garbage))
		// It is not known any more what the task holds, so nobody gets a claim, and it gets no message itself.
		for tool, arguments := range map[string]args{
			"dsh_followup": {"taskId": t.id, "prompt": e.prompt(e.say("never sent"))}, "dsh_release_workspace": {"taskId": t.id},
			"dsh_delegate": {"cwd": e.workspace(), "prompt": e.prompt(e.say("never sent"))},
		} {
			b.mustFail("internal", tool, arguments).says(path, t.id)
		}
		e.works(b, other, "beside "+garbage)
		b.call("dsh_wait", args{"taskId": t.id, "timeoutSec": 0}).want(args{"execution": "turn_completed"})
		if string(e.read(path)) != garbage {
			e.t.Errorf("the claim file that held %q was changed", garbage)
		}
		e.aside(path)
		// As the message says: the task has no claim any more, and others get theirs.
		b.mustFail("workspace_claim_missing", "dsh_followup", args{"taskId": t.id, "prompt": e.prompt()})
		b.status(t).want(args{"workspace": nil, "execution": "turn_completed"})
		fresh := e.delegate(b, e.prompt(e.say("instead")), args{"cwd": t.cwd})
		b.ended(fresh, fresh.cursor).want(args{"finalMessage.text": e.text("instead")})
		b.call("dsh_release_workspace", args{"taskId": fresh.id}).want(args{"released": true})
		e.put(path, ours)
	}
	e.works(b, t, "as before")
}
