package operator

import (
	"strings"
	"testing"
)

// A lock folder is left alone while a TypeScript bridge runs, and only then: a host, an agent and a script of somebody's
// run on Node as well, with the bridge's name somewhere on their command lines.
func TestTypeScriptBridgeIsToldByItsScript(t *testing.T) {
	for command, want := range map[string]bool{
		"node /opt/dsh-agentlink/lib/index.js":                                                       true,
		"node /opt/node_modules/@somebody/dsh-collab/dist/main.mjs":                                  true,
		"node /opt/node_modules/.bin/dsh_collab":                                                     true,
		"node /opt/bin/agentlink.mjs --stdio":                                                        true,
		"node /opt/dsh-agentlink-mcp/server.js":                                                      true,
		"node --import tsx/esm /opt/dsh-agentlink/src/bin.ts":                                        true,
		"node --enable-source-maps -r dotenv/config /opt/dsh-collab/lib/index.js":                    true,
		`node.exe C:\tools\dsh-collab\index.js`:                                                      true,
		"node -- /opt/dsh-collab/index.js":                                                           true,
		"node /home/someone/.cache/dsh-agentlink-live/node_modules/.bin/dsh web --port 3080":         false,
		"node /opt/node_modules/.bin/claude --mcp-config /home/someone/dsh-agentlink/mcp.json":       false,
		"node /opt/node_modules/.bin/codex exec -c mcp_servers.dsh_agentlink.command=/opt/agentlink": false,
		"node /home/someone/dsh-agentlink/node_modules/.bin/dsh web":                                 false,
		"node /opt/agentlinks/index.js":                                                              false,
		"node -e console.log(1) dsh-agentlink":                                                       false,
		"node --import dsh-agentlink":                                                                false,
		"node":                                                                                       false,
	} {
		if got := isTypeScriptBridge(strings.Fields(command)); got != want {
			t.Errorf("%s: %t", command, got)
		}
	}
}
