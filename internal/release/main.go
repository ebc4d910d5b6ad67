// Command release makes what a release holds beside the binary: shell completions and man pages.
//
//	go run ./internal/release -out DIR -date SECONDS
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra/doc"

	"dsh-agentlink/internal/cli"
)

func main() {
	out := flag.String("out", "", "the folder to write to; it is made, and has to be empty")
	date := flag.Int64("date", 0, "the date of the man pages, in seconds since the epoch: two builds of one commit are to be equal")
	flag.Parse()
	if err := write(*out, time.Unix(*date, 0).UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func write(dir string, date time.Time) error {
	if dir == "" {
		return fmt.Errorf("-out is missing: name the folder to write to")
	}
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
