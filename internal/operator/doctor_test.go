package operator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

// examine runs the doctor with an environment of its own.
func (r *rig) examine(env map[string]string) Report {
	r.t.Helper()
	full := map[string]string{"DSH_BRIDGE_HOME": r.home.Dir(), "DSH_HOST_URL": r.opts.HostURL}
	for name, value := range env {
		full[name] = value
	}
	return Doctor(bounded(r.t), DoctorOptions{Getenv: func(name string) string { return full[name] }, Version: "test"})
}

// has reports whether there is a finding of that area and level with that word in it.
func (r Report) has(area string, level Level, word string) bool {
	for _, f := range r.Findings {
		if f.Area == area && f.Level == level && strings.Contains(f.Text, word) {
			return true
		}
	}
	return false
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(r *rig)
		env   map[string]string
		area  string
		level Level
		word  string
	}{
		"nothing":                  {area: AreaNewTask, level: OK, word: "has a key for it"},
		"a variable":               {env: map[string]string{"DSH_LOG": "loud"}, area: AreaEnvironment, level: Bad, word: "DSH_LOG"},
		"the address":              {env: map[string]string{"DSH_HOST_URL": "ftp://x"}, area: AreaEnvironment, level: Bad, word: "DSH_HOST_URL"},
		"the home's variable":      {env: map[string]string{"DSH_BRIDGE_HOME": "relative"}, area: AreaEnvironment, level: Bad, word: "DSH_BRIDGE_HOME"},
		"no home at all":           {env: map[string]string{"DSH_BRIDGE_HOME": "", "HOME": ""}, area: AreaEnvironment, level: Bad, word: "HOME names no folder"},
		"no host":                  {spoil: func(r *rig) { r.host.Kill() }, area: AreaHost, level: Bad, word: "no host answers"},
		"a host of another kind":   {spoil: func(r *rig) { r.host.AnswerAs404() }, area: AreaHost, level: Bad, word: "no host of the wire"},
		"a list that fails":        {spoil: func(r *rig) { r.host.FailNext("session.list", 500, 1) }, area: AreaHost, level: Bad, word: "session.list failed"},
		"a history that fails":     {spoil: func(r *rig) { r.host.FailNext("session.history", 500, 1) }, area: AreaHost, level: Bad, word: "session.history failed"},
		"no route":                 {spoil: func(r *rig) { r.host.SetRoutable(false) }, area: AreaNewTask, level: Bad, word: "cannot reach"},
		"no such preset":           {env: map[string]string{"DSH_BRIDGE_AGENT_PRESET": "nonesuch"}, area: AreaNewTask, level: Bad, word: "no agent preset nonesuch"},
		"a broken preset":          {spoil: func(r *rig) { r.host.SetPresets(dshtest.Preset{ID: "x", IsDefault: true, Broken: "reason"}) }, area: AreaNewTask, level: Bad, word: "x is broken"},
		"no default preset":        {spoil: func(r *rig) { r.host.SetPresets(dshtest.Preset{ID: "x"}) }, area: AreaNewTask, level: Warning, word: "no default"},
		"a host that was replaced": {spoil: func(r *rig) { r.host.Kill(); r.replaceHost() }, area: AreaClaims, level: Warning, word: "does not know its session"},
		"a home open to others":    {spoil: func(r *rig) { r.must(os.Chmod(r.home.TasksDir(), 0o755)) }, area: AreaHome, level: Warning, word: "others may get at"},
		"a home that is a file": {spoil: func(r *rig) {
			r.must(os.RemoveAll(r.home.Dir()))
			r.must(os.WriteFile(r.home.Dir(), nil, 0o600))
		}, area: AreaHome, level: Bad, word: "is not a folder"},
		"an unfinished launch": {spoil: func(r *rig) {
			r.write(r.home.TaskFile("dsh_000000000001"), `{"taskId":"dsh_000000000001","sessionId":"s","createdAt":"2026-01-02T03:04:05Z","stage":"created","promptId":"p","promptSent":"unknown"}`)
		}, area: AreaTasks, level: Warning, word: "never finished"},
		"a task of a newer bridge": {spoil: func(r *rig) { r.write(r.home.TaskFile("dsh_000000000001"), `{"format":99}`) }, area: AreaTasks, level: Bad, word: "newer bridge"},
		"an unreadable claim":      {spoil: func(r *rig) { r.write(r.home.ClaimFile("dsh_000000000001"), `{`) }, area: AreaClaims, level: Bad, word: "cannot be read"},
		"an empty ledger file":     {spoil: func(r *rig) { r.write(r.home.LedgerDir("dsh_000000000001")+"/events.jsonl", "") }, area: AreaLedgers, level: Bad, word: "events.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.task(20, labmodel.Step{Say: "done"})
			if c.spoil != nil {
				c.spoil(r)
			}
			report := r.examine(c.env)
			if !report.has(c.area, c.level, c.word) {
				t.Errorf("there is no finding of %s, %s, %q in\n%+v", c.area, c.level, c.word, report.Findings)
			}
			if (report.Errors > 0) != (c.level == Bad) {
				t.Errorf("%d errors in\n%+v", report.Errors, report.Findings)
			}
		})
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) write(path, data string) {
	r.t.Helper()
	r.must(r.home.WriteFile(path, []byte(data)))
}

// replaceHost puts another host, which knows none of the sessions, at another address.
func (r *rig) replaceHost() {
	r.t.Helper()
	other := dshtest.New(dshtest.Options{})
	r.must(other.Start())
	r.t.Cleanup(other.Close)
	r.opts.HostURL = other.URL()
}

// `dsh --version` gets the time that it needs and no more, and what it prints is cut.
func TestDoctorAsksTheProgramOnThePath(t *testing.T) {
	for script, want := range map[string]struct {
		level Level
		word  string
	}{
		"echo 0.1.0-rc.8; echo more":       {OK, `"0.1.0-rc.8"`},
		"exit 3":                           {Warning, "exit status 3"},
		"printf 'a%.0s' $(seq 1 100000)":   {OK, strings.Repeat("a", programOutput) + `"`},
		"printf '\\033[31mred\\033[0m\\n'": {OK, `"\x1b[31mred`},
	} {
		t.Run(script, func(t *testing.T) {
			r := newRig(t)
			bin := t.TempDir()
			r.must(os.WriteFile(filepath.Join(bin, "dsh"), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			if report := r.examine(nil); !report.has(AreaHost, want.level, want.word) {
				t.Errorf("got %+v", report.Findings)
			}
		})
	}
}

// A launch that has only just begun is nobody's concern yet.
func TestDoctorLetsALaunchTakeItsTime(t *testing.T) {
	r := newRig(t)
	r.write(r.home.TaskFile("dsh_000000000001"),
		`{"taskId":"dsh_000000000001","sessionId":"s","createdAt":"`+time.Now().UTC().Format(time.RFC3339)+`","stage":"mapped","promptId":"p","promptSent":"no"}`)
	if report := r.examine(nil); report.has(AreaTasks, Warning, "never finished") {
		t.Errorf("got %+v", report.Findings)
	}
}

// A host without a session says of its provider whether it has a key for it, and no more.
func TestDoctorOnAHostWithoutSessions(t *testing.T) {
	r := newRig(t)
	report := r.examine(nil)
	if !report.has(AreaNewTask, OK, "and the host has a key for it") || !report.has(AreaHost, Note, "session.history was not tried") {
		t.Errorf("got %+v", report.Findings)
	}
	if n := report.NewTask; n == nil || n.Configured == nil || !*n.Configured || n.Routable != nil {
		t.Errorf("a new task: %+v", n)
	}
	r.host.FailNext("llm.providers", 500, 1)
	if report := r.examine(nil); !report.has(AreaNewTask, Note, "it does not tell") {
		t.Errorf("got %+v", report.Findings)
	}
}
