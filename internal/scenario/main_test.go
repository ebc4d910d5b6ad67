package scenario

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	// What the binary is made of: a result of these tests must not be kept over a change of it.
	_ "dsh-agentlink/internal/cli"
)

// binary is the built dsh-agentlink.
var binary string

// limit is how long anything may take that has to happen. It is far above what it takes, so that a busy machine does
// not fail a test, and more than the longest wait of a tool; nothing waits for it to pass.
const limit = 45 * time.Second

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "scenario-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "dsh-agentlink")
	args := []string{"build", "-buildvcs=false", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "dsh-agentlink")...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the binary:", err)
		return 1
	}
	return m.Run()
}
