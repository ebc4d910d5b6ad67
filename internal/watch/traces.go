package watch

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"os"
	"strings"

	"dsh-agentlink/ledger"
)

// traces stands for the state of home and host: while it stays the same, another look would bring nothing new.
type traces uint64

// traces takes one session.list, one listing each of tasks and claims, and a stat of each task's three files.
func (l *looks) traces(ctx context.Context) traces {
	h := fnv.New64a()
	sessions, err := l.opts.Host.Sessions(ctx)
	if err != nil {
		fmt.Fprintln(h, "away")
	}
	for _, s := range sessions {
		fmt.Fprintln(h, s.ID, s.UpdatedAt, s.Running, s.LastSeq, s.Title)
	}
	home := l.opts.Home
	names, err := home.Names(home.TasksDir())
	fmt.Fprintln(h, err != nil)
	for _, name := range names {
		id, ok := strings.CutSuffix(name, ".json")
		if !ok {
			continue
		}
		fmt.Fprintln(h, id)
		stat(h, home.TaskFile(id))
		stat(h, home.ClaimFile(id))
		stat(h, home.LedgerDir(id)+"/"+ledger.EventsFile)
	}
	return traces(h.Sum64())
}

// stat adds what a stat tells of a file's content; a missing file is a state of its own.
func stat(h hash.Hash64, path string) {
	var b [16]byte
	if info, err := os.Lstat(path); err == nil {
		binary.LittleEndian.PutUint64(b[:8], uint64(info.Size()))
		binary.LittleEndian.PutUint64(b[8:], uint64(info.ModTime().UnixNano()))
	}
	h.Write(b[:])
}
