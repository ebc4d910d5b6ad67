package scenario

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// finish looks at what has to hold after every scenario.
func (e *env) finish() {
	e.t.Helper()
	e.checkLedgers()
	for _, b := range e.bridges {
		if !b.killed {
			b.stop()
		}
		b.checkOutput()
	}
	for _, task := range e.tasks() {
		if _, err := e.readLedger(task); err != nil && !os.IsNotExist(err) {
			e.t.Error(err)
		}
	}
	e.checkCanary()
	e.checkHome()
}

// checkLedgers brings every task up to date and compares its ledger with the host's history.
func (e *env) checkLedgers() {
	e.t.Helper()
	tasks := e.tasks()
	if len(tasks) == 0 {
		return
	}
	i := slices.IndexFunc(e.bridges, func(b *bridge) bool { return !b.isGone() })
	var b *bridge
	if i < 0 {
		b = e.bridge()
	} else {
		b = e.bridges[i]
	}
	for _, task := range tasks {
		// What the host does by itself, such as finding a title, may go on behind the answer.
		e.eventually(func() string {
			b.call("dsh_status", args{"taskId": task})
			return e.differs(task)
		})
	}
}

// checkCanary looks for the conversation's texts where none of them may be.
func (e *env) checkCanary() {
	e.t.Helper()
	for _, dir := range []string{e.home, e.temp} {
		walk(e, dir, func(path string, _ fs.DirEntry) {
			data, err := os.ReadFile(path)
			if err != nil {
				e.t.Error(err)
			}
			if i := bytes.Index(data, []byte(e.canary)); i >= 0 {
				e.t.Errorf("%s holds content: …%.200q", path, data[max(0, i-100):])
			}
		})
	}
	for i, b := range e.bridges {
		log := b.stderr.String()
		if at := strings.Index(log, e.canary); at >= 0 {
			e.t.Errorf("the log of process %d holds content: …%.300q", i+1, log[max(0, at-200):])
		}
		if !strings.Contains(log, "level=") {
			e.t.Errorf("process %d logged nothing, so that looking through its log proves nothing", i+1)
		}
	}
}

// known are the files that may be in the bridge's folder; any other is a temporary one that was left behind.
var known = regexp.MustCompile(`^(tasks/dsh_[0-9a-f]{12}\.json|tasks/launch-[0-9a-f]{2}\.lock|requests/[0-9a-f]{64}\.json|requests/[0-9a-f]{2}\.lock|claims/dsh_[0-9a-f]{12}\.json|claims/registry\.lock|ledgers/dsh_[0-9a-f]{12}/(events\.jsonl|checkpoint\.json|events\.lock))$`)

// checkHome looks for temporary files, for locks that are held, and at who may read the folder. No process runs.
func (e *env) checkHome() {
	e.t.Helper()
	killed := slices.ContainsFunc(e.bridges, func(b *bridge) bool { return b.killed })
	walk(e, e.home, func(path string, entry fs.DirEntry) {
		name, err := filepath.Rel(e.home, path)
		if err != nil {
			e.t.Fatal(err)
		}
		// A process that is killed cannot tidy up.
		if !known.MatchString(name) && !killed {
			e.t.Errorf("%s was left in the bridge's folder", name)
		}
		if strings.HasSuffix(name, ".lock") {
			e.checkFree(path)
		}
	})
	walk(e, e.temp, func(path string, _ fs.DirEntry) { e.t.Errorf("%s was left in the folder for temporary files", path) })
}

// checkFree takes a lock, which nobody may hold any more.
func (e *env) checkFree(path string) {
	e.t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		e.t.Error(err)
		return
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		e.t.Errorf("%s is still locked: %v", path, err)
	}
}

// walk visits every file below a folder, and checks that nobody else may read it.
func walk(e *env, dir string, visit func(path string, entry fs.DirEntry)) {
	e.t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if entry.IsDir() {
			want = 0o700 | fs.ModeDir
		}
		if info.Mode() != want {
			e.t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
		if !entry.IsDir() {
			visit(path, entry)
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		e.t.Error(err)
	}
}
