// Command dsh-agentlink lets a supervising agent hand tasks to a DeepSeek Harness host over MCP.
package main

import (
	"os"

	"dsh-agentlink/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
