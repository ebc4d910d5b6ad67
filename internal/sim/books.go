package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"dsh-agentlink/ledger"
)

// books are kept beside the ledgers, by somebody who sees every write: all records that were ever whole in a file, and
// those that callers were told of. A record that was whole stays what it is, whatever happens to the file; only a loss of
// power takes records back, and never one that a caller was told of.
type books struct {
	fail func(format string, args ...any)

	mu      sync.Mutex
	ledgers map[string]*book
}

// book is what is known of one ledger; record n has cursor n+1.
type book struct {
	records [][]byte
	given   map[int64]string
}

func newBooks(fail func(string, ...any)) *books {
	return &books{fail: fail, ledgers: map[string]*book{}}
}

func (b *books) book(path string) *book {
	k := b.ledgers[path]
	if k == nil {
		k = &book{given: map[int64]string{}}
		b.ledgers[path] = k
	}
	return k
}

// records returns all records of a ledger, those included that were compacted away.
func (b *books) records(path string) [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.book(path).records
}

// broken notes a change that no ledger may see.
func (b *books) broken(path, what string) { b.fail("%s: %s", path, what) }

// appended notes whole lines behind the others.
func (b *books) appended(path string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.book(path)
	for line := range bytes.Lines(data) {
		var r struct{ Cursor int64 }
		if err := json.Unmarshal(line, &r); err != nil || r.Cursor != int64(len(k.records))+1 {
			b.fail("%s: the record behind cursor %d has cursor %d (%v)", path, len(k.records), r.Cursor, err)
			return
		}
		k.records = append(k.records, bytes.Clone(line))
	}
}

// replaced compares a new file with what is known.
func (b *books) replaced(path string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, err := b.book(path).compare(data)
	if err != nil {
		b.fail("%s was replaced: %v", path, err)
	} else if last != len(b.book(path).records) {
		b.fail("%s was replaced by a file that ends at %d instead of %d", path, last, len(b.book(path).records))
	}
}

// cutBack notes what a loss of power left of a file; nil when it left none.
func (b *books) cutBack(path string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k, last := b.book(path), 0
	if data != nil {
		var err error
		if last, err = k.compare(data); err != nil {
			b.fail("%s after a loss of power: %v", path, err)
			return
		}
	}
	k.records = k.records[:last]
	for cursor := range k.given {
		if cursor > int64(last) {
			b.fail("%s: a loss of power took record %d, which a caller was told of", path, cursor)
		}
	}
}

// compare checks the whole lines of a file against the records, and returns the last cursor in it.
func (k *book) compare(data []byte) (last int, err error) {
	lines := bytes.SplitAfter(data[:wholeLines(data)], []byte{'\n'})
	var head struct{ After int }
	if err := json.Unmarshal(lines[0], &head); err != nil {
		return 0, fmt.Errorf("its first line: %w", err)
	}
	last = head.After
	for _, line := range lines[1 : len(lines)-1] { // behind the last line end is nothing
		if last >= len(k.records) || !bytes.Equal(k.records[last], line) {
			return 0, fmt.Errorf("record %d is %.200s and was another", last+1, line)
		}
		last++
	}
	return last, nil
}

// tell notes that a caller was given a record.
func (b *books) tell(path string, r ledger.Record) {
	line, err := json.Marshal(r)
	if err != nil {
		b.fail("%s: encode record %d: %v", path, r.Cursor, err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.book(path)
	if before, told := k.given[r.Cursor]; told && before != string(line) {
		b.fail("%s: cursor %d was %s and is %s", path, r.Cursor, before, line)
	}
	if n := int64(len(k.records)); r.Cursor > n || string(k.records[r.Cursor-1]) != string(line)+"\n" {
		b.fail("%s: a caller was given cursor %d as %s, which is not in the file", path, r.Cursor, line)
	}
	k.given[r.Cursor] = string(line)
}

// reach notes that a caller was given a cursor without its record.
func (b *books) reach(path string, cursor int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := int64(len(b.book(path).records)); cursor > n {
		b.fail("%s: a caller was given cursor %d, and the file ends at %d", path, cursor, n)
	}
}

// told counts the cursors that callers know.
func (b *books) told() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.ledgers {
		n += len(k.given)
	}
	return n
}
