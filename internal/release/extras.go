package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra/doc"

	"dsh-agentlink/internal/cli"
)

// writeExtras writes completions and man pages to dir, which is made.
func writeExtras(dir string, date time.Time) error {
	for _, sub := range []string{"completions", "man"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	root := cli.Command(os.Stdin, os.Stdout, os.Stderr)
	root.DisableAutoGenTag = true
	completions := filepath.Join(dir, "completions", "dsh-agentlink")
	if err := root.GenBashCompletionFileV2(completions+".bash", true); err != nil {
		return err
	}
	if err := root.GenZshCompletionFile(completions + ".zsh"); err != nil {
		return err
	}
	if err := root.GenFishCompletionFile(completions+".fish", true); err != nil {
		return err
	}
	return doc.GenManTree(root, &doc.GenManHeader{Title: "DSH-AGENTLINK", Section: "1", Date: &date, Source: " "}, filepath.Join(dir, "man"))
}
