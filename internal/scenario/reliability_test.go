//go:build reliability

package scenario

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"dsh-agentlink/ledger"
)

// reliabilityScenarios are about what dies, breaks, fills up or means harm around a bridge: nothing is lost, nothing is
// invented, and what cannot be mended is said.
var reliabilityScenarios = slices.Concat(reconnectScenarios, lockScenarios, damageScenarios, cursorScenarios, diskScenarios,
	limitScenarios, hostileScenarios, crashScenarios)

func init() { scenarios = append(scenarios, reliabilityScenarios...) }

// ledgerPath, taskPath and claimPath are where the bridge keeps what it knows of a task.
func (e *env) ledgerPath(t task) string { return filepath.Join(e.ledgerDir(t), ledger.EventsFile) }
func (e *env) ledgerDir(t task) string  { return filepath.Join(e.home, "ledgers", t.id) }
func (e *env) taskPath(t task) string   { return filepath.Join(e.home, "tasks", t.id+".json") }
func (e *env) claimPath(t task) string  { return filepath.Join(e.home, "claims", t.id+".json") }

// finished delegates a task and waits for its end.
func (e *env) finished(b *bridge, said string) task {
	e.t.Helper()
	t := e.delegate(b, e.prompt(e.bash("echo "+e.canary), e.say(said)), nil)
	b.ended(t, t.cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text(said)})
	return t
}

// works gives a task a message and waits for the turn that it begins, as if nothing were wrong anywhere.
func (e *env) works(b *bridge, t task, said string) {
	e.t.Helper()
	cursor := b.followup(t, "queue", e.prompt(e.bash("echo "+e.canary), e.say(said)))
	b.ended(t, cursor).want(args{"execution": "turn_completed", "finalMessage.text": e.text(said), "fault": nil})
	b.status(t).want(args{"recovery": "live", "fault": nil, "finalMessage.text": e.text(said)})
}

// happens lets a turn happen in a task of which the bridge is not told, and waits until the host has all of it.
func (e *env) happens(t task, said string) {
	e.t.Helper()
	e.person().prompt(t.session, "queue", e.prompt(e.bash("echo "+e.canary), e.say(said)))
	e.eventually(func() string {
		if execution, last := e.person().outcome(t.session); execution != "turn_completed" || last != e.text(said) {
			return "the host has not come to the end of the turn"
		}
		return ""
	})
}

// says checks that an answer's text has all the words in it.
func (a answer) says(words ...string) answer {
	a.t.Helper()
	for _, w := range words {
		if !strings.Contains(a.text, w) {
			a.t.Errorf("%s does not say %q: %s", a.tool, w, a.text)
		}
	}
	return a
}

// aside moves a file or a folder of the home out of it, as a person does, and returns where it is now.
func (e *env) aside(path string) string {
	e.t.Helper()
	away := filepath.Join(e.t.TempDir(), filepath.Base(path))
	e.rename(path, away)
	return away
}

func (e *env) rename(from, to string) {
	e.t.Helper()
	if err := os.Rename(from, to); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) read(path string) []byte {
	e.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		e.t.Fatal(err)
	}
	return data
}

// put replaces a file by another one, so that whoever has it open keeps what was there.
func (e *env) put(path string, data []byte) {
	e.t.Helper()
	fresh := path + ".fresh"
	if err := os.WriteFile(fresh, data, 0o600); err != nil {
		e.t.Fatal(err)
	}
	e.rename(fresh, path)
}

// command is what a hint tells a person to run to mend something.
var command = regexp.MustCompile(`(?:DSH_\S+ )+dsh-agentlink ((?:locks|ledgers) recover|claims release)( dsh_[0-9a-f]+)?( --above \d+)?`)

// obey runs the command in a hint in a shell, and clears away what it has kept.
func (e *env) obey(hint string) {
	e.t.Helper()
	words := command.FindString(hint)
	if words == "" {
		e.t.Fatalf("there is no command in the hint: %s", hint)
	}
	cmd := exec.Command("sh", "-c", words+" --yes")
	cmd.Env = []string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME=" + e.temp}
	out, err := cmd.CombinedOutput()
	if err != nil {
		e.t.Fatalf("%s: %v %s", words, err, out)
	}
	for _, kept := range keptAs.FindAllStringSubmatch(string(out), -1) {
		e.aside(kept[1])
	}
}

// keptAs is how a command tells where it has put what it replaced.
var keptAs = regexp.MustCompile(`(?m)^  kept as (.*)$`)

// resident is how much of the process is in memory, in bytes.
func (b *bridge) resident() int64 {
	b.t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(b.cmd.Process.Pid) + "/status")
	if os.IsNotExist(err) && !b.isGone() {
		b.t.Skip("this system has no /proc that tells how much memory a process has")
	}
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				b.t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	b.t.Fatalf("/proc does not tell how much memory the process has:\n%s", data)
	return 0
}
