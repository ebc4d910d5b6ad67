//go:build !race

package sim

// fewSeeds is how many seeds a plain go test runs.
const fewSeeds = 300
