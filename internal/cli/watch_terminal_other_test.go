//go:build !linux

package cli

import "github.com/rogpeppe/go-internal/testscript"

// The scripts that need a terminal run on Linux only.
func terminalCommand(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Fatalf("there is no terminal")
}

func onTerminal(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("there is no terminal") }
