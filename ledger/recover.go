package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// Recovered tells what [Ledger.Recover] found and did.
type Recovered struct {
	// Damage is what was wrong; nil when the ledger was sound, and then nothing but a torn line was touched.
	Damage *DamagedError
	// Torn is how many bytes of a torn last line were cut off.
	Torn int64
	// Kept are the paths under which the damaged files are kept.
	Kept []string
	// Highest is the highest cursor that could be read in what was there, and After the one behind which the new
	// ledger goes on.
	Highest, After int64
	// Prompts counts the prompts whose records were taken over, so that a caller's repetition of one is still known.
	Prompts int
}

// cursorStep is the distance that a recovered ledger keeps from the cursors it replaces. Records that cannot be read,
// or are gone, may have had cursors that a caller knows; a file of [DefaultMaxBytes] holds a fifth of this.
const cursorStep = 100_000

// maxCursor bounds what is believed of a damaged file.
const maxCursor = 1 << 50

// Mend cuts off a torn last line and returns its length in bytes. Nothing else is changed; damage is a *[DamagedError].
func (l *Ledger) Mend(ctx context.Context) (torn int64, err error) {
	err = l.alone(ctx, func() error {
		torn, err = l.mend()
		return err
	})
	return torn, err
}

// Compact moves all but the last records into the checkpoint, whatever the size of the file. Older cursors expire.
func (l *Ledger) Compact(ctx context.Context) error {
	return l.alone(ctx, func() error {
		if _, err := l.mend(); err != nil || l.file == nil || len(l.marks) == 0 {
			return err
		}
		return l.compact()
	})
}

// Recover replaces a damaged ledger by an empty one whose cursors go on above all that the damaged one can have given.
// The damaged files are kept: keep gives a file a second name and returns it. What the host's history tells is not in
// the new ledger yet; whoever reconciles the task next writes it there.
//
// above is a cursor that somebody knows of the ledger, 0 for none: one that ends before it, or is gone, is damaged
// however sound it looks. A ledger that is sound loses a torn line at most. One of a newer format is left alone and is a *[DamagedError], as
// everything but damage is an error. Recover can be repeated after a crash at any point.
func (l *Ledger) Recover(ctx context.Context, above int64, keep func(path string) (kept string, err error)) (done Recovered, err error) {
	err = l.alone(ctx, func() error {
		l.seen = max(l.seen, above)
		var err error
		done.Torn, err = l.mend()
		if err == nil && (l.file == nil || l.state.Cursor < l.seen) {
			err = &DamagedError{Path: l.path, Reason: fmt.Sprintf("it ends at %d, and there was a record %d", l.state.Cursor, l.seen), Seen: l.seen}
		}
		var damage *DamagedError
		if errors.As(err, &damage) && !damage.Newer {
			done, err = l.rebuild(damage, keep)
		}
		return err
	})
	return done, err
}

// alone runs f while this goroutine alone may write.
func (l *Ledger) alone(ctx context.Context, f func() error) error {
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return f()
}

// mend cuts off a torn line. The lock is held.
func (l *Ledger) mend() (torn int64, err error) {
	size, err := l.refresh()
	if err != nil || l.file == nil || size <= l.offset {
		return 0, err
	}
	return size - l.offset, l.prepare()
}

// rebuild puts an empty ledger in the place of a damaged one. The lock is held. The checkpoint comes first: until the
// file follows, the two do not belong together, which is damage again.
func (l *Ledger) rebuild(damage *DamagedError, keep func(string) (string, error)) (Recovered, error) {
	l.stale = true
	left, highest := l.salvage()
	done := Recovered{Damage: damage, Highest: highest, After: (highest/cursorStep + 2) * cursorStep, Prompts: len(left.Issued)}
	for _, path := range []string{l.path, l.checkpointPath()} {
		kept, err := keep(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Recovered{}, fmt.Errorf("keep %s: %w", path, err)
		}
		done.Kept = append(done.Kept, kept)
	}
	state := newState(l.opts.Root)
	state.Cursor, state.UpdatedAt = done.After, l.opts.Now().UnixMilli()
	state.Prompts, state.Issued = left.Prompts, left.Issued
	for _, p := range state.Prompts {
		p.Parked, p.Taken = false, false // the history tells, once more
	}
	for i := range state.Issued {
		state.Issued[i].Cursor = done.After // the old one cannot be read from any more
	}
	data, err := json.Marshal(checkpointFile{Format: format, TaskID: l.opts.TaskID, State: state})
	if err != nil {
		return Recovered{}, fmt.Errorf("encode the checkpoint of %s: %w", l.path, err)
	}
	if err := l.opts.Disk.WriteFile(l.checkpointPath(), data); err != nil {
		return Recovered{}, fmt.Errorf("write checkpoint %s: %w", l.checkpointPath(), err)
	}
	if err := l.replace(done.After, nil); err != nil {
		return Recovered{}, err
	}
	return done, l.load()
}

// salvage folds what can be read of a damaged ledger, and returns the highest cursor that it can have given. Only what
// is known of prompts is to be used of the state: the rest comes out of the host's history, whole.
func (l *Ledger) salvage() (left *State, highest int64) {
	left, err := l.readCheckpoint()
	if err != nil {
		left = newState(l.opts.Root)
	}
	highest = max(l.seen, left.Cursor)
	info, err := l.opts.Disk.Stat(l.path)
	if err != nil || !info.Mode().IsRegular() {
		return left, highest
	}
	file, err := l.opts.Disk.OpenFile(l.path)
	if err != nil {
		return left, highest
	}
	defer file.Close()
	unread := int64(0)
	readable := &Ledger{opts: l.opts, path: l.path, file: file}
	// A line too long for any record ends this; what is behind it is bounded by cursorStep.
	_ = readable.scan(0, info.Size(), func(raw []byte, _ int64) error {
		var r Record
		switch {
		case json.Unmarshal(raw, &r) != nil || r.check() != nil || r.Cursor <= 0 || r.Cursor > maxCursor:
			unread++
			var h header
			if json.Unmarshal(raw, &h) == nil && h.Format > 0 && h.After <= maxCursor {
				highest = max(highest, h.After)
			}
		default:
			highest = max(highest, r.Cursor)
			if mentionsPrompt(&r) {
				left.apply(&r)
			}
		}
		return nil
	})
	return left, highest + unread
}

// mentionsPrompt reports whether a record tells what became of a prompt, or of another write that may be repeated.
func mentionsPrompt(r *Record) bool {
	c := &r.Coordination
	return r.Type == TypePromptIssued || r.Type == TypeWriteIssued || r.Type == TypeTurnInterrupted && c.RequestID != "" ||
		r.Type == TypeEvent && c.Event == "user/message" && c.RequestID != ""
}
