package ledger

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The first two write files, so that a fuzzer which cuts every input down to the least gets nowhere: run them with
// -fuzzminimizetime 10x.

// FuzzLedgerFile opens whatever a file may hold. Either it is refused, and left alone, or it is a ledger: what it
// folds to can be read, appended to, put into a checkpoint and read again.
func FuzzLedgerFile(f *testing.F) {
	lab := newFolder(f)
	appendAll(f, lab.open(), mixed(0)...)
	good := lab.content()[EventsFile]
	head, _, _ := strings.Cut(good, "\n")
	f.Add([]byte(good))
	f.Add([]byte(good[:len(good)-10]))
	f.Add([]byte(head + "\n"))
	f.Add([]byte{})
	line := func(record string) { f.Add([]byte(head + "\n" + `{"cursor":1,` + record + "}\n")) }
	line(`"type":"session/event","sourceSeq":0,"coordination":{"event":"agent/inbox/spliced","inbox":{"start":1,"removed":9223372036854775807}}`)
	line(`"type":"session/event","sourceSeq":9223372036854775807,"coordination":{"event":"turn/end","turn":-5}`)
	line(`"type":"question/requested","coordination":{}`)
	line(`"type":"interaction/replayed","coordination":{"requestId":"q","queue":null}`)
	line(`"type":"ledger/gap","coordination":{"from":-9,"to":9223372036854775807}`)
	line(`"type":"bridge/turn-interrupted"`)
	line(`"type":"ledger/rewind","coordination":{"from":-1}`)
	line(`"type":"ledger/rewind","coordination":{"session":{}}`)
	line(`"type":"ledger/rewind","coordination":{"session":{"watermark":5,"final":-1,"candidate":-1,"inbox":{"x":[{}]}},"lost":[""]}`)
	line(`"type":"bridge/prompt-issued","coordination":{"outcome":"accepted"}`)
	f.Fuzz(func(t *testing.T, data []byte) {
		tryLedger(t, map[string]string{EventsFile: string(data)})
	})
}

// FuzzCheckpoint does the same with the checkpoint of a file that is sound.
func FuzzCheckpoint(f *testing.F) {
	lab := newFolder(f)
	lab.maxBytes = 4000
	l := lab.open()
	for i := range int64(4) {
		appendAll(f, l, mixed(i*10)...)
	}
	good := lab.content()
	f.Add([]byte(good[CheckpointFile]))
	f.Add([]byte(good[CheckpointFile][:100]))
	f.Add([]byte("null"))
	for _, edit := range []func(string) string{
		swap(`"sessions":{`, `"sessions":{"x":null,`), swap(`"sessions":{`, `"sessions":{"x":{},`), swap(`"pending":{`, `"pending":{"":{},`),
		swap(`"cursor":`, `"cursor":-`), swap(`"watermark":`, `"watermark":-`), swap(`"number":`, `"number":-`), swap(`"state":`, `"State":`),
	} {
		f.Add([]byte(edit(good[CheckpointFile])))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tryLedger(t, map[string]string{EventsFile: good[EventsFile], CheckpointFile: string(data)})
	})
}

func tryLedger(t *testing.T, content map[string]string) {
	f := newFolder(t)
	f.restore(content)
	l := f.open()
	var before State
	if err := l.View(func(s *State) { before = *s }); err != nil {
		var damaged *DamagedError
		if !errors.As(err, &damaged) {
			t.Fatalf("view: %v", err)
		}
		if _, err := l.Append(t.Context(), mixed(0)); !errors.As(err, &damaged) {
			t.Fatalf("append: %v", err)
		}
		if now := f.content(); !maps.Equal(content, now) {
			t.Fatalf("a damaged ledger was changed to %q", now)
		}
		return
	}
	if before.Cursor < 0 || l.Earliest() < 1 || l.Earliest() > before.Cursor+1 {
		t.Fatalf("cursors run from %d to %d", l.Earliest(), before.Cursor)
	}
	for _, r := range read(t, l, l.Earliest()-1, 1000) {
		if err := r.check(); err != nil {
			t.Fatalf("record %d: %v", r.Cursor, err)
		}
	}
	before.Execution()
	before.PendingInOrder()
	// It goes on: other records follow, a compaction puts all of it into a checkpoint, and another process reads that.
	if _, err := l.Append(t.Context(), mixed(1000)); err != nil {
		t.Fatalf("append: %v", err)
	}
	l.compactAt = 0
	done := appendAll(t, l, other(TypeStreamError, Coordination{}))
	if done.Compaction != nil {
		t.Fatalf("compact: %v", done.Compaction)
	}
	if a, b := stateOf(t, l), stateOf(t, f.open()); a != b {
		t.Fatalf("the checkpoint holds\n%s\nand not\n%s", b, a)
	}
}

// FuzzRecord decodes one line. What is accepted is of the form that this package writes, and stays what it is when it
// is written again.
func FuzzRecord(f *testing.F) {
	for _, e := range mixed(0) {
		r := e.Record
		line, err := r.encode(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.TrimSpace(line))
	}
	f.Add([]byte("null"))
	f.Add([]byte(`{"type":"session/event","sourceSeq":1e3}`))
	f.Add([]byte(`{"TYPE":"session/jobs","coordination":{"jobs":[{}]},"more":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Record
		if decodeRecord(data, &r) != nil {
			return
		}
		line, err := r.encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(line, '\n') != len(line)-1 {
			t.Fatalf("%q is not one line", line)
		}
		var again Record
		if err := decodeRecord(line, &again); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		second, err := again.encode(nil)
		if err != nil || !slices.Equal(line, second) {
			t.Fatalf("%q became %q: %v", line, second, err)
		}
	})
}
