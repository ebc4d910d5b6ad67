package claims

import (
	"errors"
	"os"
	"testing"
)

// Whatever stands in the file of one claim: it is that claim, or nothing can be claimed until it is away, since it could
// be in the way of anything. It is left alone. Seeds are in testdata.
func FuzzClaimFile(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		r, h := newRegistry(t)
		if err := r.Acquire(t.Context(), claim(2, "/other", ReadOnly)); err != nil {
			t.Fatal(err)
		}
		c := claim(1, "/a/b", ExclusiveWrite)
		path := h.ClaimFile(c.TaskID)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		held, found, err := r.Get(c.TaskID)
		if unusable, ok := errors.AsType[*FileError](err); err != nil && (!ok || unusable.TaskID != c.TaskID || unusable.Path != path) {
			t.Fatalf("it is refused with %v", err)
		}
		if err == nil && (!found || held.TaskID != c.TaskID) {
			t.Fatalf("it is %+v, %t", held, found)
		}
		// A claim on everything conflicts with whatever it holds.
		claimed := r.Acquire(t.Context(), claim(3, "/", ExclusiveWrite))
		_, damaged := errors.AsType[*FileError](claimed)
		_, conflict := errors.AsType[*ConflictError](claimed)
		if damaged != (err != nil) || conflict != (err == nil) {
			t.Fatalf("beside it (%v) a claim ended with %v", err, claimed)
		}
		if left, err := os.ReadFile(path); err != nil || string(left) != string(data) {
			t.Fatalf("it became %q, %v", left, err)
		}
		_, released, err2 := r.Release(t.Context(), c.TaskID)
		if released != (err == nil) || (err2 == nil) != (err == nil) {
			t.Fatalf("released: %t, %v", released, err2)
		}
	})
}
