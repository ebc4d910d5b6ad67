//go:build !race

package scenario

// raceEnabled says that the binary is built like the tests, without the race detector.
const raceEnabled = false
