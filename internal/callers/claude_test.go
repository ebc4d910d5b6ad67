//go:build callers

package callers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClaude(t *testing.T) {
	modules, installation := install(t)
	claude := claudeBinary(t, modules)
	host := startHost(t, installation)
	p := newPlace(t, "CLAUDE_CONFIG_DIR", "ANTHROPIC_API_KEY=not-a-key", "ANTHROPIC_MODEL=lab", "ANTHROPIC_SMALL_FAST_MODEL=lab",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
		"DISABLE_BUG_COMMAND=1", "ENABLE_TOOL_SEARCH=false", "CLAUDE_CODE_MAX_RETRIES=0", "IS_SANDBOX=1")
	s := supervision(t, p.ws)
	p.env = append(p.env, "ANTHROPIC_BASE_URL="+serveModel(t, s))
	env := []string{"--env", "DSH_HOST_URL=" + host.URL(), "--env", "DSH_BRIDGE_HOME=" + p.bridgeHome}

	p.run(commandLimit, claude, "--version")

	// For a project: Claude Code waits for its user's trust before it starts anything.
	p.run(commandLimit, p.bridgeBinary, append([]string{"setup", "claude", "--project", p.project}, env...)...)
	if out := p.run(commandLimit, claude, "mcp", "get", server); !strings.Contains(out, "Project config") || !strings.Contains(out, "Pending approval") {
		t.Error("claude mcp get does not show the project's server as one that waits for approval")
	}
	p.run(commandLimit, p.bridgeBinary, "setup", "remove", "claude", "--project", p.project)
	if _, err := os.Stat(filepath.Join(p.project, ".mcp.json")); err == nil {
		t.Error("the project's file is left")
	}

	// For the user.
	p.run(commandLimit, p.bridgeBinary, append([]string{"setup", "claude", "--user"}, env...)...)
	shown := p.run(commandLimit, claude, "mcp", "get", server)
	for _, part := range []string{"User config", "Connected", "Command: " + p.bridgeBinary, "DSH_HOST_URL=" + host.URL()} {
		if !strings.Contains(shown, part) {
			t.Errorf("claude mcp get does not show %q", part)
		}
	}
	printed := p.run(storyLimit, claude, "-p", "--allowedTools", "mcp__"+server, "--", "Have it painted, and supervise.")
	s.check(p, host, printed)
	if !s.skill {
		t.Error("the skill is not offered to the model")
	}

	p.run(commandLimit, p.bridgeBinary, "setup", "remove", "claude", "--user")
	if out, err := p.try(commandLimit, claude, "mcp", "get", server); err == nil && strings.Contains(out, "Command:") {
		t.Error("claude still knows the server")
	}
	if _, err := os.Stat(filepath.Join(p.config, "skills", "dsh-agentlink")); err == nil {
		t.Error("the skill is left")
	}
}
