//go:build callers

package callers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// codexBefore is a configuration as a person might have it, with a provider that is the scripted model.
const codexBefore = `# my own
model = "lab"
model_provider = "lab"
check_for_update_on_startup = false

[model_providers.lab]
name = "lab"
base_url = "%s/v1"   # loopback
wire_api = "responses"
env_key = "LAB_KEY"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[features]
apps = false
plugins = false
`

// codexExec runs Codex without anybody there, and with every tool of the bridge allowed that setup does not say otherwise
// of.
var codexExec = []string{"exec", "--skip-git-repo-check", "--sandbox", "read-only",
	"-c", fmt.Sprintf("mcp_servers.%s.default_tools_approval_mode=%q", server, "approve"), "Have it painted, and supervise."}

// configureCodex writes a person's configuration, with the story as its model.
func (p *place) configureCodex(s *story) (path, text string) {
	p.t.Helper()
	path, text = filepath.Join(p.config, "config.toml"), fmt.Sprintf(codexBefore, serveModel(p.t, s))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path, text
}

func TestCodex(t *testing.T) {
	modules, installation := install(t)
	codex := codexBinary(t, modules)
	host := startHost(t, installation)
	p := newPlace(t, "CODEX_HOME", "LAB_KEY=not-a-key")
	s := supervision(t, p.ws)
	config, before := p.configureCodex(s)

	p.run(commandLimit, codex, "--version")
	p.run(commandLimit, p.bridgeBinary, "setup", "codex", "--env", "DSH_HOST_URL="+host.URL(), "--env", "DSH_BRIDGE_HOME="+p.bridgeHome)
	shown := p.run(commandLimit, codex, "mcp", "get", server)
	for _, part := range []string{"enabled: true", "command: " + p.bridgeBinary, "DSH_HOST_URL", "DSH_BRIDGE_HOME", "startup_timeout_sec: 20", "tool_timeout_sec: 600"} {
		if !strings.Contains(shown, part) {
			t.Errorf("codex mcp get does not show %q", part)
		}
	}

	printed := p.run(storyLimit, codex, codexExec...)
	s.check(p, host, printed)

	p.run(commandLimit, p.bridgeBinary, "setup", "remove", "codex")
	// Codex may have written to its file meanwhile; what a person had in it is still there, as it was.
	after, err := os.ReadFile(config)
	if err != nil || !strings.HasPrefix(string(after), before) || strings.Contains(string(after), server) {
		t.Errorf("after the removal the file is, %v:\n%s", err, after)
	}
	if out, err := p.try(commandLimit, codex, "mcp", "get", server); err == nil {
		t.Errorf("codex still knows the server:\n%s", out)
	}
}

// What setup says of dsh_resolve_approval holds against a person's own "approve everything": where nobody can be asked,
// the call does not reach the bridge.
func TestCodexAsksForApprovals(t *testing.T) {
	modules, _ := install(t)
	p := newPlace(t, "CODEX_HOME", "LAB_KEY=not-a-key")
	s := &story{t: t, say: lastWords, steps: []step{{"dsh_resolve_approval", func(*story) map[string]any {
		return map[string]any{"taskId": "dsh_000000000000", "requestId": "r", "outcome": "allow_once"}
	}}, {"dsh_status", func(*story) map[string]any { return map[string]any{"taskId": "dsh_000000000000"} }}}}
	p.configureCodex(s)
	p.run(commandLimit, p.bridgeBinary, "setup", "codex", "--env", "DSH_HOST_URL=http://127.0.0.1:1", "--env", "DSH_BRIDGE_HOME="+p.bridgeHome)
	p.run(storyLimit, codexBinary(t, modules), codexExec...)
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("the model was told %q", s.results)
	if len(s.results) != 2 {
		t.Fatalf("the model saw %d results, want 2", len(s.results))
	}
	if s.answer(0).Get("error").Exists() || !strings.Contains(s.results[0], "requires approval") {
		t.Error("the approval went to the bridge without a person")
	}
	if s.answer(1).Get("error.code").String() != "task_not_found" {
		t.Error("another call did not go to the bridge")
	}
}
