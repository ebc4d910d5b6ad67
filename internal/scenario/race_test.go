//go:build race

package scenario

// raceEnabled says that the binary is built like the tests, with the race detector.
const raceEnabled = true
