package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"dsh-agentlink/ledger"
)

// book is a task's ledger as it is on the disk.
type book struct {
	Task, Root string
	Records    []ledger.Record
}

// fromStart reports whether a ledger whose file begins behind that cursor holds its sessions from their first events on: it
// is new, or a person has recovered it.
func fromStart(after int64) bool { return after%100_000 == 0 }

// readLedger reads a task's ledger and checks what must hold of every one: cursors 1, 2, 3…, or on from where a recovery
// began, every event of a session once and in ascending order, unless the host has taken some back.
func (e *env) readLedger(task string) (book, error) {
	path := filepath.Join(e.home, "ledgers", task, ledger.EventsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return book{Task: task}, err
	}
	lines := bytes.Split(data, []byte("\n"))
	if rest := lines[len(lines)-1]; len(rest) > 0 {
		return book{}, fmt.Errorf("the ledger of %s ends inside a line: %.100q", task, rest)
	}
	var head struct {
		TaskID, Root string
		After        int64
	}
	if err := json.Unmarshal(lines[0], &head); err != nil || head.TaskID != task || !fromStart(head.After) {
		return book{}, fmt.Errorf("the ledger of %s begins with %.100q (%v)", task, lines[0], err)
	}
	b := book{Task: task, Root: head.Root}
	marks := map[string]int64{}
	for i, line := range lines[1 : len(lines)-1] {
		var r ledger.Record
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&r); err != nil {
			return book{}, fmt.Errorf("the ledger of %s, record %d: %w", task, i+1, err)
		}
		if r.Cursor != head.After+int64(i)+1 {
			return book{}, fmt.Errorf("the ledger of %s: record %d has cursor %d", task, i+1, r.Cursor)
		}
		switch r.Type {
		case ledger.TypeRewind:
			marks[r.SourceSessionID] = r.Coordination.From - 1
		case ledger.TypeEvent:
			if mark, seen := marks[r.SourceSessionID]; seen && *r.SourceSeq <= mark {
				return book{}, fmt.Errorf("the ledger of %s: record %d is event %d of a session whose event %d came before", task, i+1, *r.SourceSeq, mark)
			}
			marks[r.SourceSessionID] = *r.SourceSeq
		}
		b.Records = append(b.Records, r)
	}
	return b, nil
}

// events are the durable events in the ledger, by session, in their order, without those that the host took back.
func (b book) events() map[string][]event {
	all := map[string][]event{}
	for _, r := range b.Records {
		session := r.SourceSessionID
		switch r.Type {
		case ledger.TypeEvent:
			all[session] = append(all[session], event{session, *r.SourceSeq, r.Coordination.Event})
		case ledger.TypeRewind:
			all[session] = slices.DeleteFunc(all[session], func(ev event) bool { return ev.Seq >= r.Coordination.From })
		}
	}
	return all
}

// count is how many records of a type and, for events, of an event type there are; "" stands for any.
func (b book) count(kind ledger.Type, eventType string) int {
	n := 0
	for _, r := range b.Records {
		if r.Type == kind && (eventType == "" || r.Coordination.Event == eventType) {
			n++
		}
	}
	return n
}

// tasks are the ids of the tasks in the home.
func (e *env) tasks() []string {
	e.t.Helper()
	files, err := filepath.Glob(filepath.Join(e.home, "tasks", "dsh_*.json"))
	if err != nil {
		e.t.Fatal(err)
	}
	ids := make([]string, 0, len(files))
	for _, file := range files {
		ids = append(ids, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	slices.Sort(ids)
	return ids
}

// rootOf is the session of a task, as its mapping has it.
func (e *env) rootOf(task string) string {
	e.t.Helper()
	data, err := os.ReadFile(filepath.Join(e.home, "tasks", task+".json"))
	if err != nil {
		e.t.Fatal(err)
	}
	var mapping struct{ SessionID string }
	if err := json.Unmarshal(data, &mapping); err != nil || mapping.SessionID == "" {
		e.t.Fatalf("the mapping of %s: %s (%v)", task, data, err)
	}
	return mapping.SessionID
}

// differs says how a task's ledger differs from the host's history of its sessions; "" when they are equal.
func (e *env) differs(task string) string {
	e.t.Helper()
	root := e.rootOf(task)
	host := map[string][]event{}
	for _, session := range append([]string{root}, e.person().subagents(root)...) {
		if events := e.person().history(session); len(events) > 0 {
			host[session] = events
		}
	}
	b, err := e.readLedger(task)
	if err != nil && !(os.IsNotExist(err) && len(host) == 0) {
		return err.Error()
	}
	if b.Root != "" && b.Root != root {
		return fmt.Sprintf("the ledger of %s is for session %s, its mapping names %s", task, b.Root, root)
	}
	if n := b.count(ledger.TypeGap, ""); n > 0 {
		return fmt.Sprintf("the ledger of %s has %d gaps", task, n)
	}
	if diff := cmp.Diff(host, b.events()); diff != "" {
		return fmt.Sprintf("the ledger of %s (+) is not the host's history (-):\n%s", task, diff)
	}
	return ""
}
