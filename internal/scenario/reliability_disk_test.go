//go:build reliability

package scenario

import (
	"os"
	"path/filepath"
	"strings"
)

// diskScenarios are about a home that cannot be written to: the tool says which path and why, the host is asked for
// nothing that could not be noted, and work goes on by itself when the fault ends.
var diskScenarios = []scenario{
	{name: "a file in place of a folder of the home", run: fileForFolder},
	{name: "a folder of the home that cannot be written to", run: readOnlyFolder},
}

// diskFault checks that a failure tells of a fault of the disk, names the path, and leads out.
func (a answer) diskFault(path, why string) answer {
	a.t.Helper()
	a.failed("disk_fault")
	if message := a.str("error.message"); !strings.Contains(message, path) || !strings.Contains(message, why) {
		a.t.Errorf("%s: the failure does not name %s and say %q: %s", a.tool, path, why, a.text)
	}
	if a.get("error.hint").String() == "" && !strings.Contains(a.text, "move it away") {
		a.t.Errorf("%s: the failure does not say what to do: %s", a.tool, a.text)
	}
	return a
}

// unrecorded waits until a task's status says that what the host tells cannot be recorded, and why, and checks that no
// cursor is told that is not in the file.
func (e *env) unrecorded(b *bridge, t task, path, why string) answer {
	e.t.Helper()
	s := e.until(b, t, "faulted", func(a answer) bool { return a.str("recovery") == "faulted" })
	if fault := s.str("fault"); !strings.Contains(fault, path) || !strings.Contains(fault, why) {
		e.t.Errorf("the status does not name %s and say %q: %s", path, why, s.text)
	}
	return s
}

func fileForFolder(e *env) {
	b := e.bridge()
	t, other := e.finished(b, "first"), e.finished(b, "other")
	prompts := len(pick(b.tail(t, 0), "user/message", nil))

	// The ledger of one task.
	away := e.fileFor(e.ledgerDir(t))
	e.happens(t, "unseen")
	b.try("dsh_followup", args{"taskId": t.id, "prompt": e.prompt(e.say("never sent"))}).diskFault(e.ledgerDir(t), "")
	if s := b.try("dsh_status", args{"taskId": t.id}); s.isError {
		s.diskFault(e.ledgerDir(t), "")
	} else {
		s.want(args{"recovery": "faulted"}).says(e.ledgerDir(t))
	}
	e.works(b, other, "besides")
	e.folderFor(e.ledgerDir(t), away)
	e.complete(t)
	e.works(b, t, "as before")
	if n := len(pick(b.tail(t, 0), "user/message", nil)); n != prompts+2 {
		e.t.Errorf("the task has %d messages, want two more than %d", n, prompts)
	}

	// What all tasks share.
	for _, folder := range []string{"claims", "tasks"} {
		path := filepath.Join(e.home, folder)
		workspace := e.workspace()
		away := e.fileFor(path)
		b.try("dsh_delegate", args{"cwd": workspace, "prompt": e.prompt(e.say("never sent"))}).diskFault(path, "")
		b.try("dsh_followup", args{"taskId": t.id, "prompt": e.prompt(e.say("never sent"))}).diskFault(path, "")
		if e.person().call("session.list", args{}).Get(`items.#(cwd=="` + workspace + `")`).Exists() {
			e.t.Error("a delegation that could not be noted has made a session")
		}
		e.folderFor(path, away)
		e.works(b, t, "after "+folder)
	}
	fresh := e.finished(b, "a new one")
	e.works(b, fresh, "as ever")
}

// fileFor puts a file in a folder's place and returns where the folder is.
func (e *env) fileFor(path string) string {
	e.t.Helper()
	away := e.aside(path)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		e.t.Fatal(err)
	}
	return away
}

func (e *env) folderFor(path, away string) {
	e.t.Helper()
	if err := os.Remove(path); err != nil {
		e.t.Fatal(err)
	}
	e.rename(away, path)
}

// readOnlyFolder takes the right to write from the folders of the home.
func readOnlyFolder(e *env) {
	if os.Geteuid() == 0 {
		e.t.Skip("the superuser may write everywhere")
	}
	b := e.bridge()
	t, other := e.finished(b, "first"), e.finished(b, "other")
	b.call("dsh_release_workspace", args{"taskId": other.id})
	chmod := func(path string, mode os.FileMode) {
		e.t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			e.t.Fatal(err)
		}
	}
	for _, folder := range []string{"tasks", "claims"} {
		path := filepath.Join(e.home, folder)
		chmod(path, 0o500)
		b.try("dsh_delegate", args{"cwd": e.workspace(), "prompt": e.prompt(e.say("never sent"))}).diskFault(path, "permission denied")
		e.works(b, t, "nothing is written there for this: "+folder)
		chmod(path, 0o700)
	}
	chmod(e.ledgerDir(t), 0)
	e.happens(t, "unseen")
	e.unrecorded(b, t, e.ledgerDir(t), "permission denied")
	b.try("dsh_followup", args{"taskId": t.id, "prompt": e.prompt(e.say("never sent"))}).diskFault(e.ledgerDir(t), "permission denied")
	chmod(e.ledgerDir(t), 0o700)
	e.complete(t)
	e.works(b, t, "as before")
	chmod(e.home, 0o500)
	e.works(b, t, "all folders are there")
	chmod(e.home, 0o700)
}
