package mux

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
	_ "pgregory.net/rapid" // whose flags are set
)

// seeds is how many seeds the tests that play with chance run through; a few by default, thousands for a night.
var seeds = flag.Int("seeds", 2, "how many seeds the random tests run through")

func TestMain(m *testing.M) {
	// A few examples of every property; the command line can ask for more.
	if err := flag.Set("rapid.checks", "30"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
