package demo_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"dsh-agentlink/internal/cli"
	"dsh-agentlink/internal/demo"
	"dsh-agentlink/internal/dshtest"
)

// The test binary is the bridge when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	// So that a bridge that is built with the race detector ends at once.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// play plays a demo and returns what it prints. Nothing of it may stay, and nothing may reach the user's own bridge.
func play(t *testing.T, opts demo.Options) (string, error) {
	t.Helper()
	temporary, own := t.TempDir(), t.TempDir()+"/bridge"
	t.Setenv("TMPDIR", temporary)
	t.Setenv("DSH_BRIDGE_HOME", own)
	t.Setenv("DSH_HOST_URL", "http://127.0.0.1:1")
	t.Setenv("DSH_BRIDGE_AGENT_PRESET", "none-of-the-host's")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	opts.Executable, opts.Out, opts.Log = self, &out, &log
	err = demo.Run(t.Context(), opts)
	if left, readErr := os.ReadDir(temporary); readErr != nil || len(left) > 0 {
		t.Errorf("it leaves %v behind, %v", left, readErr)
	}
	if _, statErr := os.Stat(own); statErr == nil {
		t.Error("it touched the user's own bridge home")
	}
	return out.String(), err
}

// startHost starts a scripted host that stands for the user's.
func startHost(t *testing.T) *dshtest.Host {
	t.Helper()
	host := dshtest.New(dshtest.Options{Cwd: t.TempDir()})
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	return host
}

func TestScriptedStory(t *testing.T) {
	out, err := play(t, demo.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rest := out
	for _, want := range []string{
		`> dsh_delegate "Publish a summary`, "< accepted as dsh_", "the agent runs: ", "question: Which name", "> dsh_answer_question SUMMARY.txt",
		"approval: bash: rm -r ../archive", "> dsh_resolve_approval reject", "approval: bash: touch ../published", "> dsh_resolve_approval allow_once",
		"your client asks: Allow this one call, once? touch ../published/SUMMARY.txt", "< turn_completed", "> dsh_followup", "> kill -9 ", "the agent works on", `< turn_completed: "All checks passed."`,
		"are the same at the same cursors", "> dsh_result", "turn 2 completed: 4 commands", "> dsh_release_workspace", "< released",
		"All 11 steps held, in ", "Next: start a host", "Then give the bridge",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q does not come, or not in its place:\n%s", want, out)
		}
		rest = after
	}
	if n := strings.Count(out, "\n"); n > 60 {
		t.Errorf("the story takes %d lines", n)
	}
	for line := range strings.Lines(out) {
		if len([]rune(line)) > 125 {
			t.Errorf("a line of %d characters: %s", len([]rune(line)), line)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("colour, though nobody asked for it")
	}
}

// On a host whose model is not scripted the story is told that needs no script.
func TestOwnHost(t *testing.T) {
	host := startHost(t)
	out, err := play(t, demo.Options{HostURL: host.URL(), Colour: true})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	plain := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(out, "")
	if plain == out {
		t.Error("no colour, though it was asked for")
	}
	out = plain
	for _, want := range []string{"is yours, and so is its model", "(read-only)", `turn_completed: "done"`, "> kill -9 ", "are the same at the same cursors", "All 9 steps held", "The session stays in your host's list"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q:\n%s", want, out)
		}
	}
}

// What does not hold ends the demo, with the step and the reason.
func TestWhatDoesNotHold(t *testing.T) {
	tests := []struct {
		name    string
		options func(host *dshtest.Host) demo.Options
		want    string
	}{
		{"no host", func(*dshtest.Host) demo.Options { return demo.Options{HostURL: "http://127.0.0.1:1"} },
			`^demo, step 1: dsh_host_status: host_unreachable: .*\n.*dsh web --port 1 `},
		{"no credentials", func(h *dshtest.Host) demo.Options { h.SetRoutable(false); return demo.Options{HostURL: h.URL()} },
			`^demo, step 2: dsh_delegate: (model_unroutable|delegation_incomplete): `},
		{"a newer host", func(h *dshtest.Host) demo.Options { h.AnswerAs404(); return demo.Options{HostURL: h.URL()} },
			`^demo, step 1: dsh_host_status: host_incompatible: `},
		{"a host that writes nothing", func(h *dshtest.Host) demo.Options { return demo.Options{HostURL: h.URL(), Scripted: true} },
			`^demo, step 10: it did not hold: the allowed call has not written published/SUMMARY.txt$`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := play(t, tt.options(startHost(t)))
			if err == nil || !regexp.MustCompile(tt.want).MatchString(err.Error()) {
				t.Errorf("%v\n%s", err, out)
			}
			if strings.Contains(out, "held, in") {
				t.Errorf("it says that all held:\n%s", out)
			}
		})
	}
}
