package cli

import (
	"strings"
	"testing"
)

// Whoever asks for help gets an example that runs, and every look has a form for scripts.
func TestEveryLookIsExplained(t *testing.T) {
	for _, c := range lookCommands(streams{}) {
		if c.Short == "" || c.Long == "" || !strings.Contains(c.Example, "dsh-agentlink "+c.Name()) {
			t.Errorf("%s: short %q, long %q, example %q", c.Name(), c.Short, c.Long, c.Example)
		}
		if c.Flags().Lookup("json") == nil {
			t.Errorf("%s has no --json", c.Name())
		}
		for _, line := range strings.Split(strings.Trim(c.Example, "\n"), "\n") {
			if !strings.HasPrefix(line, "  dsh-agentlink "+c.Name()) {
				t.Errorf("%s: the example %q is not indented or is of another command", c.Name(), line)
			}
		}
	}
}
