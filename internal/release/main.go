// Command release makes what a release holds beside the binary: shell completions and man pages, bundles for desktop
// clients, and the entry for the MCP registry.
//
//	go run ./internal/release extras DIR --date SECONDS
//	go run ./internal/release bundle BINARY FILE.mcpb --version 0.1.0 --date SECONDS
//	go run ./internal/release server CHECKSUMS --name io.github.OWNER/dsh-agentlink --version 0.1.0 --base URL
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	if err := command().Execute(); err != nil {
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{Use: "release", Short: "Make what a release holds beside the binary", SilenceUsage: true}
	var version, name, base string
	var seconds int64
	date := func() time.Time { return time.Unix(seconds, 0).UTC() }
	extras := &cobra.Command{Use: "extras DIR", Short: "Write completions and man pages", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return writeExtras(args[0], date()) }}
	bundle := &cobra.Command{Use: "bundle BINARY FILE", Short: "Write a bundle (.mcpb) with a binary in it", Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return writeBundle(args[0], args[1], version, date()) }}
	entry := &cobra.Command{Use: "server CHECKSUMS", Short: "Print server.json for the MCP registry", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			checksums, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer checksums.Close()
			data, err := serverJSON(name, version, base, checksums)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s", data)
			}
			return err
		}}
	for _, c := range []*cobra.Command{extras, bundle} {
		c.Flags().Int64Var(&seconds, "date", 0, "the date of what is written, in seconds since the epoch: two builds of one commit are to be equal")
	}
	for _, c := range []*cobra.Command{bundle, entry} {
		c.Flags().StringVar(&version, "version", "", "of the release")
		_ = c.MarkFlagRequired("version") // fails for a flag that is not there
	}
	entry.Flags().StringVar(&name, "name", "", "in the registry: a namespace of the publisher's, a slash, a name")
	entry.Flags().StringVar(&base, "base", "", "the address that the bundles are downloaded below")
	_ = entry.MarkFlagRequired("name")
	_ = entry.MarkFlagRequired("base")
	root.AddCommand(extras, bundle, entry)
	return root
}
