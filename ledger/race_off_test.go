//go:build !race

package ledger

const every = 1
