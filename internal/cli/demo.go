package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"dsh-agentlink/internal/demo"
)

func demoCommand(std streams) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Play a supervisor against the built-in scripted host; needs no DSH",
		RunE: func(*cobra.Command, []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			return demo.Run(context.Background(), demo.Options{Executable: self, Out: std.out, Log: std.err})
		},
	}
}
