package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"github.com/tidwall/gjson"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/ledger"
)

// turnRecords is how many records a seeded turn of package dshtest leaves in a ledger.
const turnRecords = 13

// finishedTask puts a finished task of two turns into the home, ledger included, and its cold session into the host.
func (r *rig) finishedTask(n int) error {
	id, err := r.host.AddSession(dshtest.SessionSpec{Cwd: r.cwd, Title: fmt.Sprintf("Task number %d", n), Turns: 2})
	if err != nil {
		return err
	}
	task, err := r.task(n, id)
	if err != nil {
		return err
	}
	dir := r.home.LedgerDir(task)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	l := ledger.Open(ledger.Options{Dir: dir, TaskID: task, Root: id, Disk: looseDisk{}, Lock: noLock{}})
	if _, err := l.Append(r.b.ctx, recorded(id, r.host.Events(id))); err != nil {
		return err
	}
	return l.Close()
}

// recorded is what a ledger keeps of events, as far as the state of the task needs it.
func recorded(session string, events []dshtest.Event) []ledger.Entry {
	var entries []ledger.Entry
	for _, e := range events {
		if e.Type == "assistant/chunk" {
			continue
		}
		c := ledger.Coordination{Event: e.Type, Time: e.Time, Turn: int(gjson.GetBytes(e.Data, "turn").Int())}
		switch e.Type {
		case "turn/end":
			c.Reason = gjson.GetBytes(e.Data, "reason.kind").Str
		case "assistant/message":
			c.Text = gjson.GetBytes(e.Data, "message.content.0.type").Str == "text"
		}
		entries = append(entries, ledger.Entry{Record: ledger.Record{SourceSessionID: session, SourceSeq: new(e.Seq),
			Origin: ledger.OriginRoot, Type: ledger.TypeEvent, Coordination: c}})
	}
	return entries
}

// looseDisk is a ledger's disk that nothing is synced on, for what is made before the measuring begins.
type looseDisk struct{}

type looseFile struct{ *os.File }

func (looseFile) Sync() error { return nil }

func (looseDisk) OpenFile(path string) (ledger.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	return looseFile{f}, err
}

func (looseDisk) Stat(path string) (fs.FileInfo, error) { return os.Lstat(path) }

func (looseDisk) ReadFile(path string, _ int64) ([]byte, error) { return os.ReadFile(path) }

func (looseDisk) WriteFile(path string, data []byte) error {
	next := path + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// noLock is the lock of a ledger that only this process knows.
type noLock struct{}

func (noLock) Acquire(context.Context) error { return nil }

func (noLock) Release() {}
