// Package config turns the environment into the bridge's configuration, once, at start.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"dsh-agentlink/internal/dsh"
)

// Config is the bridge's configuration, every field checked.
type Config struct {
	HostURL         *url.URL
	AllowRemoteHost bool
	// HostVersion is what the operator says the host is; empty when nothing was said.
	HostVersion string
	// BridgeHome is the absolute path of the bridge's folder. It need not exist.
	BridgeHome string
	// AgentPreset is for tasks that ask for none; empty for the host's default.
	AgentPreset string
	// TimeZone is "UTC" or an IANA name in the form that the host accepts; empty when none is known.
	TimeZone       string
	RequestTimeout time.Duration
	LockTimeout    time.Duration
	// LedgerMaxBytes is the size past which a task's ledger is compacted.
	LedgerMaxBytes int64
	// ApprovalConfirm is one of "auto", "required" and "off".
	ApprovalConfirm string
	// ApprovalTimeout is when an approval that nobody decided is rejected; 0 for never.
	ApprovalTimeout time.Duration
	// LogLevel is the least level that is logged; [LogOff] is above all.
	LogLevel slog.Level
}

// VariableError says what is wrong with one environment variable.
type VariableError struct {
	Name    string
	Value   string // as set; empty when it is not set or may hold a secret
	Problem string
	Fix     string // the way out; empty when Problem tells it
}

func (e *VariableError) Error() string {
	s := e.Name
	if e.Value != "" {
		s += fmt.Sprintf("=%q", e.Value)
	}
	s += " " + e.Problem
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Load reads the environment through getenv. A variable that is empty counts as unset. The error joins a
// *[VariableError] for each variable that is wrong.
func Load(getenv func(string) string) (Config, error) {
	return load(getenv, systemZone)
}

func load(getenv func(string) string, systemZone func(getenv func(string) string) string) (Config, error) {
	e := &environment{get: getenv}
	c := Config{
		AllowRemoteHost: e.boolean("DSH_ALLOW_REMOTE_HOST"),
		HostVersion:     e.hostVersion("DSH_HOST_VERSION"),
		BridgeHome:      e.bridgeHome(),
		AgentPreset:     e.preset("DSH_BRIDGE_AGENT_PRESET"),
		TimeZone:        e.zone("DSH_BRIDGE_TIME_ZONE"),
		RequestTimeout:  e.duration("DSH_REQUEST_TIMEOUT_MS", defaultRequestTimeout, minRequestTimeout, maxRequestTimeout),
		LockTimeout:     e.duration("DSH_LOCK_TIMEOUT_MS", defaultLockTimeout, minLockTimeout, maxLockTimeout),
		LedgerMaxBytes:  e.bytes("DSH_LEDGER_MAX_BYTES", defaultLedgerBytes, minLedgerBytes, maxLedgerBytes),
		ApprovalConfirm: e.choice("DSH_APPROVAL_CONFIRM", approvalConfirms),
		ApprovalTimeout: e.duration("DSH_APPROVAL_TIMEOUT_MS", 0, minApprovalTimeout, maxApprovalTimeout),
		LogLevel:        e.logLevel("DSH_LOG"),
	}
	c.HostURL = e.hostURL("DSH_HOST_URL", c.AllowRemoteHost)
	if len(e.problems) > 0 {
		return Config{}, errors.Join(e.problems...)
	}
	if c.TimeZone == "" {
		c.TimeZone = systemZone(getenv)
	}
	return c, nil
}

// environment reads variables and collects what is wrong with them.
type environment struct {
	get      func(string) string
	problems []error
}

func (e *environment) wrong(name, value, problem, fix string) {
	e.problems = append(e.problems, &VariableError{Name: name, Value: value, Problem: problem, Fix: fix})
}

func (e *environment) boolean(name string) bool {
	switch value := e.get(name); value {
	case "", "false":
		return false
	case "true":
		return true
	default:
		e.wrong(name, value, "is neither true nor false", "set one of the two or unset it")
		return false
	}
}

func (e *environment) duration(name string, def, lo, hi time.Duration) time.Duration {
	value := e.get(name)
	if value == "" {
		return def
	}
	unset := ""
	if def > 0 {
		unset = " for " + millis(def)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < lo.Milliseconds() || n > hi.Milliseconds() {
		e.wrong(name, value, "is no whole number of milliseconds in its range", "set "+bounds(lo, hi)+" or unset it"+unset)
		return def
	}
	return time.Duration(n) * time.Millisecond
}

func (e *environment) bytes(name string, def, lo, hi int64) int64 {
	value := e.get(name)
	if value == "" {
		return def
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < lo || n > hi {
		e.wrong(name, value, "is no whole number of bytes in its range", fmt.Sprintf("set %d to %d or unset it for %d", lo, hi, def))
		return def
	}
	return n
}

// choice reads one of a few words; the first is the default.
func (e *environment) choice(name string, words []string) string {
	value := e.get(name)
	if value == "" || slices.Contains(words, value) {
		return cmp.Or(value, words[0])
	}
	e.wrong(name, value, "is none of its values", "set one of "+strings.Join(words, ", "))
	return words[0]
}

func (e *environment) logLevel(name string) slog.Level {
	value := e.get(name)
	if value == "" {
		value = defaultLog
	}
	names := make([]string, 0, len(logLevels))
	for _, l := range logLevels {
		if l.name == value {
			return l.level
		}
		names = append(names, l.name)
	}
	e.wrong(name, value, "is no log level", "set one of "+strings.Join(names, ", "))
	return slog.LevelInfo
}

func (e *environment) hostVersion(name string) string {
	value := e.get(name)
	if !utf8.ValidString(value) || utf8.RuneCountInString(value) > maxHostVersionChars || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		e.wrong(name, value, "is too long or has characters that cannot be printed",
			fmt.Sprintf("set up to %d printable characters, such as 0.1.0-rc.8, or unset it", maxHostVersionChars))
		return ""
	}
	return value
}

// presetID is the shape of a preset's id, which is a folder's name at the host.
var presetID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

func (e *environment) preset(name string) string {
	value := e.get(name)
	if value == "" {
		return ""
	}
	if len(value) > maxPresetChars || !presetID.MatchString(value) {
		e.wrong(name, value, "is no id of an agent preset", "set lower-case letters, digits and dashes as the host lists them, or unset it for the host's default")
		return ""
	}
	return value
}

func (e *environment) zone(name string) string {
	value := e.get(name)
	if value == "" {
		return ""
	}
	if !zoneName(value) {
		e.wrong(name, value, "is no time zone that a host accepts", "set UTC or an IANA name with an area, such as Europe/Berlin, or unset it for the system's")
		return ""
	}
	if !knownZone(value) {
		e.wrong(name, value, "is not in this machine's time zone database", "check its spelling or unset it for the system's")
		return ""
	}
	return value
}

func (e *environment) bridgeHome() string {
	if e.get("DSH_BRIDGE_HOME") != "" {
		return e.folder("DSH_BRIDGE_HOME")
	}
	var dshHome string
	if e.get("DSH_HOME") != "" {
		dshHome = e.folder("DSH_HOME")
	} else if home := e.get("HOME"); filepath.IsAbs(home) {
		dshHome = filepath.Join(home, ".dsh")
	} else {
		e.wrong("DSH_BRIDGE_HOME", "", "is not set and has no default, since HOME names no folder", "set it to an absolute path")
	}
	if dshHome == "" {
		return ""
	}
	return filepath.Join(dshHome, "agentlink")
}

// folder reads a variable that is set to an absolute path, or to one in the user's own folder.
func (e *environment) folder(name string) string {
	value := e.get(name)
	path := value
	if value == "~" || strings.HasPrefix(value, "~/") {
		home := e.get("HOME")
		if !filepath.IsAbs(home) {
			e.wrong(name, value, "needs HOME, which names no folder", "set an absolute path")
			return ""
		}
		path = home + value[1:]
	}
	if !filepath.IsAbs(path) {
		e.wrong(name, value, "is not an absolute path", "set a path that starts with / or ~/")
		return ""
	}
	return filepath.Clean(path)
}

func (e *environment) hostURL(name string, allowRemote bool) *url.URL {
	value := e.get(name)
	if value == "" {
		value = DefaultHostURL
	}
	u, err := dsh.ParseURL(value, allowRemote)
	if err != nil {
		// Value and way out are ParseURL's to tell: it knows which parts of an address can be shown.
		e.wrong(name, "", "cannot be used: "+err.Error(), "")
		return nil
	}
	return u
}
