package main

import (
	"slices"
	"time"
)

// timed is one measurement; it returns how long the part that counts took.
type timed func() (time.Duration, error)

// alternate makes both measurements n times, in turns, so that whatever else the machine does meets both alike. One
// round before them is thrown away.
func alternate(n int, a, b timed) (as, bs []time.Duration, err error) {
	for i := range n + 1 {
		x, err := a()
		if err != nil {
			return nil, nil, err
		}
		y, err := b()
		if err != nil {
			return nil, nil, err
		}
		if i > 0 {
			as, bs = append(as, x), append(bs, y)
		}
	}
	return as, bs, nil
}

// clock makes a measurement of a call as a whole.
func clock(f func() error) timed {
	return func() (time.Duration, error) {
		began := time.Now()
		err := f()
		return time.Since(began), err
	}
}

// quantile returns the value below which that part of the samples lies.
func quantile(samples []time.Duration, part float64) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

func median(samples []time.Duration) time.Duration { return quantile(samples, 0.5) }
