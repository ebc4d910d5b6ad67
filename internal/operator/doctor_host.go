package operator

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"dsh-agentlink/internal/dsh"
)

// examineHost asks the host what a bridge would ask it.
func (d *doctor) examineHost(ctx context.Context) {
	about, err := d.host.Describe(ctx)
	if err != nil {
		d.view.err = err
		d.unreachable(err)
		return
	}
	d.report.add(AreaHost, OK, "", "%s answers and speaks the wire of DSH %s; attached: %s", d.report.Host, dsh.SpokenVersions, count(about.AttachedSessions, "session", ""))
	sessions, err := d.host.Sessions(ctx)
	if d.view.err = err; err != nil {
		d.report.add(AreaHost, Bad, "", "session.list failed: %s", err)
	} else {
		d.view.sessions = make(map[string]dsh.Session, len(sessions))
		for _, s := range sessions {
			d.view.sessions[s.ID] = s
		}
		d.report.add(AreaHost, OK, "", "session.list works: %s", count(len(sessions), "session", ""))
	}
	d.examineStream(ctx)
	d.examineHistory(ctx, sessions)
	d.examineNewTask(ctx, about, sessions)
}

func (d *doctor) unreachable(err error) {
	switch dsh.KindOf(err) {
	case dsh.Incompatible:
		d.report.add(AreaHost, Bad, "dsh --version", "what answers at %s is no host of the wire that this bridge speaks (DSH %s): %s", d.report.Host, dsh.SpokenVersions, err)
	case dsh.NotSent:
		d.report.add(AreaHost, Bad, "dsh web --port "+d.port(), "no host answers at %s; start one, or point DSH_HOST_URL at where it runs", d.report.Host)
	default:
		if broken(err) {
			d.report.add(AreaHost, Bad, Program+" doctor", "the connection to %s broke off: %s", d.report.Host, err)
			return
		}
		d.report.add(AreaHost, Bad, "curl -si "+quote(d.report.Host), "what answers at %s does not behave like a DSH host: %s", d.report.Host, err)
	}
}

func (d *doctor) port() string {
	if port := d.cfg.HostURL.Port(); port != "" {
		return port
	}
	if port, err := net.LookupPort("tcp", d.cfg.HostURL.Scheme); err == nil {
		return strconv.Itoa(port)
	}
	return "3080"
}

// examineStream opens the event stream and closes it again.
func (d *doctor) examineStream(ctx context.Context) {
	stream, err := d.host.Subscribe(ctx)
	if err != nil {
		d.report.add(AreaHost, Bad, "", "events.mux cannot be opened, so nothing can be watched: %s", err)
		return
	}
	_ = stream.Close() // it has opened, which is all there is to know
	d.report.add(AreaHost, OK, "", "events.mux opens")
}

// examineHistory reads the last page of one session. A cold one is left alone where there is a choice: the host would
// read its whole log.
func (d *doctor) examineHistory(ctx context.Context, sessions []dsh.Session) {
	s, ok := pick(sessions, func(s dsh.Session) bool { return s.Origin != dsh.OriginSubagent && !s.Blank })
	if !ok {
		d.report.add(AreaHost, Note, "", "session.history was not tried: the host has no session with a history yet")
		return
	}
	if _, err := d.host.History(ctx, dsh.HistoryRequest{SessionID: s.ID, MaxMessages: 1}); err != nil {
		d.report.add(AreaHost, Bad, "", "session.history failed for session %s: %s", s.ID, err)
		return
	}
	d.report.add(AreaHost, OK, "", "session.history works")
}

// pick chooses the newest attached session that fits, else the newest cold one.
func pick(sessions []dsh.Session, fits func(dsh.Session) bool) (found dsh.Session, ok bool) {
	for _, s := range sessions {
		if !fits(s) {
			continue
		}
		if s.LastSeq >= 0 {
			return s, true
		}
		if !ok {
			found, ok = s, true
		}
	}
	return found, ok
}

// examineNewTask tells what a task delegated now would run on, and whether it could.
func (d *doctor) examineNewTask(ctx context.Context, about dsh.Description, sessions []dsh.Session) {
	task := &NewTask{Provider: about.Provider, Model: about.Model}
	d.report.NewTask = task
	if about.Model == "" {
		d.report.add(AreaNewTask, Bad, "", "the host has no default model; set one in the DSH web UI")
	}
	d.examinePreset(ctx, task)
	if about.Model == "" {
		return
	}
	task.Configured, task.Key = d.configured(ctx, about.Provider)
	task.Routable = d.routable(ctx, about, sessions)
	d.examineRoute(task)
}

// examineRoute judges whether the host could run a task on its default model.
func (d *doctor) examineRoute(task *NewTask) {
	const mend = "set them in the DSH web UI"
	route := fmt.Sprintf("model %s of provider %s", task.Model, task.Provider)
	is := func(known *bool, value bool) bool { return known != nil && *known == value }
	switch {
	case is(task.Configured, false):
		d.report.add(AreaNewTask, Bad, "", "%s, whose provider is not configured; %s", route, mend)
	case is(task.Routable, false):
		d.report.add(AreaNewTask, Bad, "", "%s, which the host cannot reach: its provider or its credentials are not right; %s", route, mend)
	case task.Key == dsh.KeyMissing:
		d.report.add(AreaNewTask, Warning, "", "%s: the host has no key for it under the usual name, so a turn would fail unless it looks under another; set it in the DSH web UI", route)
	case task.Key == dsh.KeyConfigured:
		d.report.add(AreaNewTask, OK, "", "%s, and the host has a key for it", route)
	default:
		d.report.add(AreaNewTask, Note, "", "%s; whether the host has a key for it, it does not tell", route)
	}
}

// configured looks the provider up among those that requests can be sent to; not every host lists them.
func (d *doctor) configured(ctx context.Context, id string) (active *bool, key dsh.Key) {
	providers, err := d.host.Providers(ctx)
	if err != nil {
		return nil, dsh.KeyUnknown
	}
	for _, p := range providers {
		if p.ID == id {
			return &p.Active, p.Key
		}
	}
	return nil, dsh.KeyUnknown
}

// routableTries bounds the search for a session that runs on the default model.
const routableTries = 5

// routable asks attached sessions that run on the default model whether it can be reached.
func (d *doctor) routable(ctx context.Context, about dsh.Description, sessions []dsh.Session) *bool {
	tries := 0
	for _, s := range sessions {
		if s.LastSeq < 0 || s.Origin == dsh.OriginSubagent { // asking for a cold one would wake it
			continue
		}
		if tries++; tries > routableTries {
			return nil
		}
		models, err := d.host.Models(ctx, s.ID)
		if err == nil && models.Model == about.Model && models.Provider == about.Provider {
			return &models.Routable
		}
	}
	return nil
}

func (d *doctor) examinePreset(ctx context.Context, task *NewTask) {
	presets, err := d.host.Presets(ctx)
	if err != nil {
		d.report.add(AreaNewTask, Bad, "", "agentPreset.list failed: %s", err)
		return
	}
	var ids []string
	for _, p := range presets {
		ids = append(ids, p.ID)
		if p.ID != d.cfg.AgentPreset && (d.cfg.AgentPreset != "" || !p.IsDefault) {
			continue
		}
		task.Preset = p.ID
		switch broken := string(p.Broken); broken {
		case "", "null", "false":
			d.report.add(AreaNewTask, OK, "", "agent preset %s", p.ID)
		default:
			d.report.add(AreaNewTask, Bad, "", "agent preset %s is broken, as the DSH web UI explains", p.ID)
		}
		return
	}
	if d.cfg.AgentPreset != "" {
		d.report.add(AreaNewTask, Bad, "unset DSH_BRIDGE_AGENT_PRESET", "the host has no agent preset %s (DSH_BRIDGE_AGENT_PRESET); it has %s", d.cfg.AgentPreset, strings.Join(ids, ", "))
		return
	}
	d.report.add(AreaNewTask, Warning, "", "the host names no default among its agent presets")
}

const (
	// programLimit bounds `dsh --version`, which starts a whole Node.
	programLimit = 5 * time.Second
	// programOutput is more than a version takes.
	programOutput = 200
)

// examineProgram asks the dsh on the PATH for its version. It need not be the host that runs.
func (d *doctor) examineProgram(ctx context.Context) {
	if d.cfg.HostVersion != "" {
		d.report.add(AreaHost, Note, "", "DSH_HOST_VERSION says that the host is %s", d.cfg.HostVersion)
	}
	path, err := exec.LookPath("dsh")
	if err != nil {
		d.report.add(AreaHost, Note, "", "there is no dsh on the PATH, so its version is not known")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, programLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	out := &limited{max: programOutput}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		d.report.add(AreaHost, Warning, "", "%s --version failed: %s", path, err)
		return
	}
	line, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
	d.report.add(AreaHost, OK, "", "%s is %q; this bridge speaks to DSH %s", path, line, dsh.SpokenVersions)
}

// limited keeps the first max bytes of what is written to it.
type limited struct {
	bytes.Buffer
	max int
}

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(0, l.max-l.Len()))])
	return len(p), nil
}
