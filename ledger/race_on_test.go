//go:build race

package ledger

// every is of how many cases the sweeps try one. They run in one goroutine, where the race detector finds nothing and
// makes everything several times slower.
const every = 5
