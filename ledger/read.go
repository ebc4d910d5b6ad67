package ledger

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Read returns up to limit records after the cursor since, in order. A cursor that is not in the ledger is a
// *CursorError.
func (l *Ledger) Read(since int64, limit int) ([]Record, error) {
	var records []Record
	err := l.Each(since, func(r *Record, left int64) bool {
		if len(records) >= limit {
			return false
		}
		if records == nil {
			records = make([]Record, 0, min(int64(limit), left))
		}
		records = append(records, *r)
		return len(records) < limit
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

// Each calls f for every record after the cursor since, in order, until f says that it wants no more; left is how many
// there are, this one included. f may keep what the record holds, but not the record itself, which is used again; and it
// must not use the ledger. A cursor that is not in the ledger is a *CursorError.
func (l *Ledger) Each(since int64, f func(r *Record, left int64) (more bool)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.find(since); err != nil || since == l.state.Cursor {
		return err
	}
	return l.eachAfter(since, f)
}

// Check returns a *CursorError for a cursor that is not in the ledger. It reads no record behind it.
func (l *Ledger) Check(since int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.find(since)
}

// find folds what is new and says whether records can be read behind since.
func (l *Ledger) find(since int64) error {
	if _, err := l.refresh(); err != nil {
		return err
	}
	if since < l.after || since > l.state.Cursor {
		return &CursorError{Cursor: since, Earliest: l.after + 1, Last: l.state.Cursor}
	}
	return nil
}

func (l *Ledger) eachAfter(since int64, f func(r *Record, left int64) (more bool)) error {
	// The mark at or before the wanted record; the first record is always marked.
	i, exact := slices.BinarySearchFunc(l.marks, since+1, func(m mark, cursor int64) int { return cmp.Compare(m.cursor, cursor) })
	if !exact {
		i--
	}
	var r Record
	at, cursor := l.marks[i].offset, l.marks[i].cursor
	err := l.scan(at, l.offset, func(raw []byte, _ int64) error {
		if cursor > since {
			r = Record{}
			if err := l.decoder.decode(raw, &r); err != nil || r.Cursor != cursor {
				return &DamagedError{Path: l.path, Reason: fmt.Sprintf("record %d was changed after it was written", cursor)}
			}
			if !f(&r, l.state.Cursor-cursor+1) {
				return errStop
			}
		}
		cursor++
		return nil
	})
	switch {
	case errors.Is(err, errStop):
		return nil
	case err != nil:
		return err
	case cursor <= l.state.Cursor:
		return &DamagedError{Path: l.path, Reason: fmt.Sprintf("record %d is gone", cursor)}
	}
	return nil
}

var errStop = errors.New("stop")

// blocks are what files are read through.
var blocks = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBlock) }}

// scan calls f for every whole line of the file between from and to, with the offset behind the line. f must not keep
// the line.
func (l *Ledger) scan(from, to int64, f func(line []byte, end int64) error) error {
	if from >= to {
		return nil
	}
	r := blocks.Get().(*bufio.Reader)
	r.Reset(io.NewSectionReader(l.file, from, to-from))
	defer func() {
		r.Reset(nil) // it must not hold the file
		blocks.Put(r)
	}()
	var long []byte // what was read of a line that is longer than a block
	for end := from; ; {
		line, err := r.ReadSlice('\n')
		end += int64(len(line))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if long = append(long, line...); len(long) > maxLine {
				return &DamagedError{Path: l.path, Reason: fmt.Sprintf("the line that ends behind byte %d is longer than any record", end)}
			}
			continue
		case errors.Is(err, io.EOF):
			return nil // a torn line, or one that was cut off meanwhile
		case err != nil:
			return fmt.Errorf("read %s: %w", l.path, err)
		}
		if len(long) > 0 {
			line = append(long, line...)
			long = nil
		}
		if err := f(line[:len(line)-1], end); err != nil {
			return err
		}
	}
}
