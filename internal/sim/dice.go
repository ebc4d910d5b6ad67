package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// dice is a source of decisions. Many goroutines may use one, but what they draw then depends on their order.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

// newDice makes the source of one actor: the same seed and name decide the same.
func newDice(seed uint64, name ...any) *dice {
	h := fnv.New64a()
	fmt.Fprintln(h, name...)
	return &dice{rng: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// chance is true with probability p.
func (d *dice) chance(p float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Float64() < p
}

// upTo draws from 0 to n, n included.
func (d *dice) upTo(n int) int {
	if n <= 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n + 1)
}

// between draws a whole number of milliseconds.
func (d *dice) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.upTo(int((most-least)/time.Millisecond)))*time.Millisecond
}

// one draws an element of a list that is not empty.
func one[T any](d *dice, list []T) T { return list[d.upTo(len(list)-1)] }
