package watch

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // frames have clocks in them
	goleak.VerifyTestMain(m)
}
