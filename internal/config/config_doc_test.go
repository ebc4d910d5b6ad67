package config

import (
	"os"
	"strings"
	"testing"
)

func TestVariablesAreDocumented(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Variables {
		if !strings.Contains(string(readme), "| `"+v.Name+"` |") {
			t.Errorf("README.md has no row for %s", v.Name)
		}
	}
}
