package sim

import (
	"fmt"
	"io"
	"maps"
	"sync"
)

// journal counts the injected faults of a world and, for whoever repeats a seed, writes down what happens in it.
type journal struct {
	out io.Writer // nil for nowhere

	mu     sync.Mutex
	counts map[string]int
}

func newJournal(out io.Writer) *journal { return &journal{out: out, counts: map[string]int{}} }

// count notes an injected fault.
func (j *journal) count(kind string) {
	j.note("FAULT %s", kind)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts[kind]++
}

// counted returns how often each kind was injected.
func (j *journal) counted() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.counts)
}

// note writes down something that happened, with the time in milliseconds since the world began.
func (j *journal) note(format string, args ...any) {
	if j.out == nil {
		return
	}
	const began = 946684800000 // where the clock of every bubble begins
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintf(j.out, "%7d "+format+"\n", append([]any{now() - began}, args...)...)
}
