package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dsh-agentlink/internal/config"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/home"
)

// Level is how bad a finding is.
type Level string

// The levels of findings, from good to bad.
const (
	OK      Level = "ok"
	Note    Level = "note"    // worth knowing, nothing to do
	Warning Level = "warning" // works, and may not for long
	Bad     Level = "error"   // something does not work
)

// Finding is one thing that the doctor looked at.
type Finding struct {
	Area  string `json:"area"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Help  string `json:"help,omitempty"` // the command that helps
}

// The areas of findings.
const (
	AreaEnvironment = "environment"
	AreaHost        = "host"
	AreaNewTask     = "new task"
	AreaHome        = "home"
	AreaLocks       = "locks"
	AreaLedgers     = "ledgers"
	AreaTasks       = "tasks"
	AreaClaims      = "claims"
	AreaProcesses   = "processes"
)

// NewTask is what a task delegated now would run on.
type NewTask struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	Preset   string `json:"preset,omitempty"`
	// Configured says whether the host has a route to the provider; absent when it does not tell.
	Configured *bool `json:"configured,omitempty"`
	// Key says whether the host has a key for the provider under the usual name; absent when it does not tell.
	Key dsh.Key `json:"key,omitempty"`
	// Routable says whether the host can reach the model now; absent when no session of it tells.
	Routable *bool `json:"routable,omitempty"`
}

// Report is what `doctor` shows.
type Report struct {
	Version  string    `json:"version"` // of this bridge
	Host     string    `json:"host,omitempty"`
	Home     string    `json:"home,omitempty"`
	NewTask  *NewTask  `json:"newTask,omitempty"`
	Findings []Finding `json:"findings"`
	Warnings int       `json:"warnings"`
	Errors   int       `json:"errors"`
}

func (r *Report) add(area string, level Level, help, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Area: area, Level: level, Text: fmt.Sprintf(format, args...), Help: help})
	switch level {
	case Warning:
		r.Warnings++
	case Bad:
		r.Errors++
	}
}

// DoctorOptions is what the doctor needs to know of its own process.
type DoctorOptions struct {
	Getenv  func(string) string
	Version string
	Now     func() time.Time // nil means time.Now
}

// Doctor looks at everything that a bridge started now would depend on. What is wrong is a finding, never an error.
func Doctor(ctx context.Context, opts DoctorOptions) Report {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	report := Report{Version: opts.Version, Findings: []Finding{}}
	cfg, broken := report.environment(opts.Getenv)
	d := &doctor{report: &report, cfg: cfg, now: opts.Now, view: hostView{err: errNotAsked}}
	d.examineProgram(ctx)
	if cfg.HostURL != nil && !slices.Contains(broken, "DSH_HOST_URL") {
		client := dsh.New(cfg.HostURL, dsh.Options{RequestTimeout: min(cfg.RequestTimeout, probeLimit)})
		defer client.CloseIdle()
		d.host, report.Host = client, cfg.HostURL.String()
		d.examineHost(ctx)
	}
	if cfg.BridgeHome != "" && !slices.Contains(broken, "DSH_BRIDGE_HOME") && !slices.Contains(broken, "DSH_HOME") {
		report.Home = cfg.BridgeHome
		d.examineHome(ctx)
	}
	d.examineProcesses(ctx)
	return report
}

var errNotAsked = errors.New("the host was not asked")

// probeLimit bounds each of the doctor's calls to the host, whatever a bridge would wait.
const probeLimit = 10 * time.Second

// doctor is one examination.
type doctor struct {
	report *Report
	cfg    config.Config
	host   dsh.Host
	view   hostView // the host's sessions; err is set when there are none to be had
	now    func() time.Time
}

// environment loads the configuration. A variable that is wrong is a finding, and left out so that the rest can be
// looked at.
func (r *Report) environment(getenv func(string) string) (cfg config.Config, broken []string) {
	cfg, err := config.Load(getenv)
	if err == nil {
		r.add(AreaEnvironment, OK, "", "every variable that is set can be used")
		return cfg, nil
	}
	for _, e := range variableErrors(err) {
		broken = append(broken, e.Name)
		r.add(AreaEnvironment, Bad, "unset "+e.Name, "%s", e.Error())
	}
	if len(broken) == 0 {
		r.add(AreaEnvironment, Bad, "", "%s", err)
		return config.Config{}, nil
	}
	cfg, err = config.Load(func(name string) string {
		if slices.Contains(broken, name) {
			return ""
		}
		return getenv(name)
	})
	for _, e := range variableErrors(err) { // one that only the wrong ones had kept from being looked at
		if !slices.Contains(broken, e.Name) {
			broken = append(broken, e.Name)
			r.add(AreaEnvironment, Bad, "", "%s", e.Error())
		}
	}
	return cfg, broken
}

func variableErrors(err error) []*config.VariableError {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var list []*config.VariableError
	for _, e := range joined.Unwrap() {
		if v, ok := errors.AsType[*config.VariableError](e); ok {
			list = append(list, v)
		}
	}
	return list
}

// examineHome looks at the bridge's folder and at all that is in it.
func (d *doctor) examineHome(ctx context.Context) {
	h, err := home.Open(d.cfg.BridgeHome)
	if err != nil {
		d.report.add(AreaHome, Bad, "ls -ld "+quote(d.cfg.BridgeHome), "%s", err)
		return
	}
	d.examineFolder(h)
	d.examineRoom(h)
	o := New(Options{Home: h, Host: d.host, HostURL: d.report.Host, LedgerMaxBytes: d.cfg.LedgerMaxBytes, Now: d.now})
	d.examineTasks(o)
	d.examineClaims(o)
	d.examineLedgers(o)
	d.examineLocks(ctx, o)
}

// list joins a few words, and counts the rest.
func list(words []string) string {
	const shown = 3
	if len(words) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:shown], ", "), len(words)-shown)
	}
	return strings.Join(words, ", ")
}
