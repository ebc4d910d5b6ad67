//go:build race

package sim

// fewSeeds is how many seeds a plain go test runs; the race detector makes each ten times as slow.
const fewSeeds = 40
