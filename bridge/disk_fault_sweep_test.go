package bridge

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"

	"dsh-agentlink/internal/home"
)

// sweepAll makes the sweeps below go over every operation with every errno, which takes minutes. Otherwise they take the
// first and the last operation of each kind on each file, or the first, with one errno in turn.
var sweepAll = os.Getenv("DSH_DISK_SWEEP") == "all"

// sweepers is how many cases run side by side; most of a case is waiting for a retry.
const sweepers = 16

// places are the operations of a task without faults, and how often each is done.
func places(t *testing.T) map[place]int {
	t.Helper()
	d := newDiskRig(t, diskCase{})
	d.finish(0)
	d.check()
	d.b.Close()
	return d.disk.seen
}

// diskCases are the faults of a sweep: one case for each operation, or one for each kind of them.
func diskCases(counts map[place]int, lasts bool) []diskCase {
	var cases []diskCase
	for _, p := range slices.SortedFunc(maps.Keys(counts), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.file, b.file))
	}) {
		for nth := 1; nth <= counts[p]; nth++ {
			if last := nth == counts[p] && !lasts && p.op != home.OpStat; nth > 1 && !last && !sweepAll {
				continue
			}
			for i, errno := range errnos {
				if !sweepAll && i != (len(cases)+nth)%len(errnos) {
					continue
				}
				cases = append(cases, diskCase{place: p, nth: nth, lasts: lasts, errno: errno, torn: p.op == home.OpWrite && (nth%2 == 1 || sweepAll && i%2 == 1)})
				if !sweepAll {
					break
				}
			}
		}
	}
	return cases
}

// sweep runs the cases and tells with which codes calls have failed.
func sweep(t *testing.T, cases []diskCase, run func(*diskRig)) {
	t.Helper()
	work := make(chan diskCase)
	var mu sync.Mutex
	codes, missed := map[Code]int{}, 0
	var done sync.WaitGroup
	for range sweepers {
		done.Go(func() {
			for c := range work {
				t.Run(c.String(), func(t *testing.T) {
					d := newDiskRig(t, c)
					run(d)
					mu.Lock()
					defer mu.Unlock()
					for code, n := range d.codes {
						codes[code] += n
					}
					if d.disk.met() == "" {
						missed++
					}
				})
			}
		})
	}
	for _, c := range cases {
		work <- c
	}
	close(work)
	done.Wait()
	t.Logf("%d faults, %d of them in operations that were not done this time; calls failed with %v", len(cases), missed, codes)
	if missed > len(cases)/4 {
		t.Errorf("%d of %d faults were not met", missed, len(cases))
	}
}

// Whichever operation of a task's life fails once: a call that fails says where and why, no answer tells a cursor that is
// not on the disk, and repeated calls get through, with one session and each prompt once.
func TestDiskFaultOnce(t *testing.T) {
	t.Parallel()
	sweep(t, diskCases(places(t), false), func(d *diskRig) {
		d.finish(0)
		d.check()
	})
}

// A kind of operation fails from some moment on, and every call is tried meanwhile. When the fault is lifted the same
// bridge goes on with what it was at.
func TestDiskFaultThatLasts(t *testing.T) {
	t.Parallel()
	sweep(t, diskCases(places(t), true), func(d *diskRig) {
		steps, reached := d.steps(0), 0
		for reached < len(steps) {
			if steps[reached]() {
				reached++
			} else if d.disk.met() != "" {
				break
			}
		}
		if d.task.TaskID != "" {
			var s seen
			d.attempt("dsh_status", args{"taskId": d.task.TaskID}, &s)
			d.attempt("dsh_tail", args{"taskId": d.task.TaskID}, &s)
		}
		d.disk.lift()
		if reached < len(steps)-1 {
			reached = 0 // calls that have succeeded may be repeated, until the workspace is given back
		}
		d.finish(reached)
		d.check()
	})
}
