package home

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// Whatever a dead process left in a lock file: whoever waits in vain is told no more than is there, and the next holder
// takes the lock and leaves no note. Seeds are in testdata.
func FuzzLockFile(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		h := newHome(t)
		holder := h.Lock(h.RegistryLock())
		acquire(t, holder)
		if err := os.WriteFile(holder.Path(), data, 0o600); err != nil {
			t.Fatal(err)
		}
		err := h.Lock(holder.Path()).Acquire(t.Context(), 0)
		held, ok := errors.AsType[*LockTimeoutError](err)
		if !ok || held.Path != holder.Path() || held.PID < 0 || (held.PID == 0) != held.Since.IsZero() {
			t.Fatalf("while it is held: %+v", err)
		}
		if held.Error() == "" {
			t.Error("nothing is said")
		}
		release(t, holder)
		if err := os.WriteFile(holder.Path(), data, 0o600); err != nil {
			t.Fatal(err)
		}
		acquire(t, holder)
		if o, ok := readNote(holder.Path()); !ok || o.PID != os.Getpid() {
			t.Fatalf("the new holder's note is %+v, %t", o, ok)
		}
		release(t, holder)
		if left, err := os.ReadFile(holder.Path()); err != nil || len(bytes.TrimSpace(left)) != 0 {
			t.Fatalf("%q is left, %v", left, err)
		}
	})
}
