package ledger

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// A reader holds no lock: the file can be replaced at any moment, even while it is being opened, and even twice.
func TestReaderMeetsACompaction(t *testing.T) {
	for compactions := range 4 {
		for n := range 12 {
			t.Run(fmt.Sprintf("%d compactions before operation %d", compactions, n), func(t *testing.T) {
				f := newFolder(t)
				f.maxBytes = 2000
				writer := f.open()
				appendAll(t, writer, events(root, 0, 9)...)
				seq := int64(10)
				compact := func() {
					const many = 2 * markEvery
					earliest := writer.Earliest()
					appendAll(t, writer, events(root, seq, seq+many-1)...)
					if seq += many; writer.Earliest() == earliest {
						t.Fatal("nothing was compacted")
					}
				}
				if n%2 == 1 {
					compact() // there is a checkpoint from the beginning
				}
				disk, ops := newDisk(), 0
				reader := f.openOn(disk)
				refresh(t, reader)
				disk.before = func(op) error {
					if ops++; ops-1 == n {
						for range compactions {
							compact()
						}
					}
					return nil
				}
				compact() // so that the reader has to open the file anew
				refresh(t, reader)
				var expired *CursorError
				if got, err := reader.Read(reader.Earliest()-1, 1000); !errors.As(err, &expired) && (err != nil || len(got) == 0) {
					t.Errorf("%d records, %v", len(got), err)
				}
				disk.before = nil
				refresh(t, reader)
				if diff := jsonDiff(stateOf(t, writer), stateOf(t, reader)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// A compaction can stand still between its checkpoint and its file: the checkpoint then covers records that were
// appended after a reader had opened the file.
func TestReaderMeetsHalfACompaction(t *testing.T) {
	for n := range 8 {
		f := newFolder(t)
		f.maxBytes = 2000
		writer := f.open()
		appendAll(t, writer, events(root, 0, 4)...)
		f.disk.before = func(o op) error {
			if o == (op{"writefile", EventsFile}) {
				return errDisk
			}
			return nil
		}
		disk, ops := newDisk(), 0
		disk.before = func(op) error {
			if ops++; ops-1 == n {
				if done := appendAll(t, writer, events(root, 5, 5+2*markEvery)...); done.Compaction == nil {
					t.Error("the compaction was to fail")
				}
			}
			return nil
		}
		reader := f.openOn(disk)
		for range 3 {
			refresh(t, reader)
		}
		if diff := jsonDiff(stateOf(t, writer), stateOf(t, reader)); diff != "" || ops <= n {
			t.Errorf("before operation %d of %d: %s", n, ops, diff)
		}
	}
}

// The ledger can be made, and compacted, while a reader finds out that there is none.
func TestReaderMeetsTheFirstCompaction(t *testing.T) {
	for n := range 4 { // a look takes two
		f := newFolder(t)
		f.maxBytes = 2000
		writer := f.open()
		disk, ops := newDisk(), 0
		disk.before = func(op) error {
			if ops++; ops-1 == n {
				appendAll(t, writer, events(root, 0, 2*markEvery)...)
			}
			return nil
		}
		reader := f.openOn(disk)
		for range 3 {
			refresh(t, reader)
		}
		if diff := jsonDiff(stateOf(t, writer), stateOf(t, reader)); diff != "" || ops <= n {
			t.Errorf("before operation %d of %d: %s", n, ops, diff)
		}
	}
}

func TestReaderThatIsOutrunForEverGivesUp(t *testing.T) {
	f := newFolder(t)
	f.maxBytes = 2000
	writer := f.open()
	appendAll(t, writer, events(root, 0, 99)...)
	disk := newDisk()
	disk.before = func(o op) error {
		if o.name == "readfile" {
			data := f.content()[EventsFile]
			if err := os.Remove(f.path(EventsFile)); err != nil {
				t.Error(err)
			}
			f.write(EventsFile, data)
		}
		return nil
	}
	reader := f.openOn(disk)
	if err := reader.Refresh(); err == nil || !strings.Contains(err.Error(), "replaced") {
		t.Errorf("refresh: %v", err)
	}
	disk.before = nil
	refresh(t, reader)
}
