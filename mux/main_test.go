package mux

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// seeds is how many seeds the tests that play with chance run through; a few by default, thousands for a night.
var seeds = flag.Int("seeds", 4, "how many seeds the random tests run through")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
