package config

import (
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// env returns a getenv for the given variables, with HOME set unless they say otherwise.
func env(vars map[string]string) func(string) string {
	return func(name string) string {
		if v, ok := vars[name]; ok || name != "HOME" {
			return v
		}
		return "/home/someone"
	}
}

func noZone(func(string) string) string { return "" }

func TestDefaults(t *testing.T) {
	got, err := load(env(nil), func(func(string) string) string { return "Europe/Berlin" })
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		HostURL:         &url.URL{Scheme: "http", Host: "127.0.0.1:3080"},
		BridgeHome:      "/home/someone/.dsh/agentlink",
		TimeZone:        "Europe/Berlin",
		RequestTimeout:  30 * time.Second,
		LockTimeout:     5 * time.Second,
		LedgerMaxBytes:  4 << 20,
		ApprovalConfirm: "auto",
		LogLevel:        slog.LevelInfo,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEverythingSet(t *testing.T) {
	got, err := load(env(map[string]string{
		"DSH_HOST_URL":            "https://host.example:8443",
		"DSH_HOME":                "/ignored",
		"DSH_BRIDGE_HOME":         "~/bridge/../b",
		"DSH_REQUEST_TIMEOUT_MS":  "600000",
		"DSH_LOCK_TIMEOUT_MS":     "100",
		"DSH_APPROVAL_CONFIRM":    "required",
		"DSH_LEDGER_MAX_BYTES":    "65536",
		"DSH_APPROVAL_TIMEOUT_MS": "60000",
		"DSH_BRIDGE_AGENT_PRESET": "my-preset-2",
		"DSH_BRIDGE_TIME_ZONE":    "America/Argentina/Buenos_Aires",
		"DSH_HOST_VERSION":        "0.1.0-rc.8 (äöü)",
		"DSH_ALLOW_REMOTE_HOST":   "true",
		"DSH_LOG":                 "off",
	}), func(func(string) string) string { return "Europe/Berlin" })
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		HostURL:         &url.URL{Scheme: "https", Host: "host.example:8443"},
		AllowRemoteHost: true,
		HostVersion:     "0.1.0-rc.8 (äöü)",
		BridgeHome:      "/home/someone/b",
		AgentPreset:     "my-preset-2",
		TimeZone:        "America/Argentina/Buenos_Aires",
		RequestTimeout:  10 * time.Minute,
		LockTimeout:     100 * time.Millisecond,
		LedgerMaxBytes:  65536,
		ApprovalConfirm: "required",
		ApprovalTimeout: time.Minute,
		LogLevel:        LogOff,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBridgeHome(t *testing.T) {
	for _, c := range []struct {
		vars map[string]string
		want string
	}{
		{map[string]string{"DSH_HOME": "/d"}, "/d/agentlink"},
		{map[string]string{"DSH_HOME": "~/d/"}, "/home/someone/d/agentlink"},
		{map[string]string{"DSH_HOME": "~"}, "/home/someone/agentlink"},
		{map[string]string{"DSH_BRIDGE_HOME": "/b//c/"}, "/b/c"},
		{map[string]string{"DSH_BRIDGE_HOME": "/b", "HOME": ""}, "/b"},
		{map[string]string{"DSH_HOME": "/d", "HOME": ""}, "/d/agentlink"},
	} {
		got, err := load(env(c.vars), noZone)
		if err != nil || got.BridgeHome != c.want {
			t.Errorf("%v: %s, %v, want %s", c.vars, got.BridgeHome, err, c.want)
		}
	}
}

func TestLogLevels(t *testing.T) {
	for name, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError, "off": LogOff,
	} {
		if got, err := load(env(map[string]string{"DSH_LOG": name}), noZone); err != nil || got.LogLevel != want {
			t.Errorf("%s: %v, %v", name, got.LogLevel, err)
		}
	}
}

// Each wrong value is refused by an error that names the variable, shows the value and says what to set.
func TestWrongValues(t *testing.T) {
	for _, c := range []struct{ name, value, says string }{
		{"DSH_HOME", "d", "starts with / or ~/"},
		{"DSH_BRIDGE_HOME", "./b", "starts with / or ~/"},
		{"DSH_BRIDGE_HOME", "~other/b", "starts with / or ~/"},
		{"DSH_REQUEST_TIMEOUT_MS", "99", "set 100 to 600000 ms"},
		{"DSH_REQUEST_TIMEOUT_MS", "600001", "unset it for 30000"},
		{"DSH_REQUEST_TIMEOUT_MS", "30s", "whole number"},
		{"DSH_REQUEST_TIMEOUT_MS", "1e4", "whole number"},
		{"DSH_REQUEST_TIMEOUT_MS", " 500", "whole number"},
		{"DSH_REQUEST_TIMEOUT_MS", "99999999999999999999", "whole number"},
		{"DSH_LOCK_TIMEOUT_MS", "0", "set 100 to 60000 ms"},
		{"DSH_LOCK_TIMEOUT_MS", "-100", "unset it for 5000"},
		{"DSH_LOCK_TIMEOUT_MS", "60001", "whole number"},
		{"DSH_APPROVAL_CONFIRM", "never", "auto, required, off"},
		{"DSH_LEDGER_MAX_BYTES", "4095", "set 4096 to 1073741824"},
		{"DSH_LEDGER_MAX_BYTES", "4M", "whole number of bytes"},
		{"DSH_APPROVAL_TIMEOUT_MS", "999", "unset it"},
		{"DSH_APPROVAL_TIMEOUT_MS", "86400001", "set 1000 to 86400000 ms"},
		{"DSH_BRIDGE_AGENT_PRESET", "Standard", "lower-case"},
		{"DSH_BRIDGE_AGENT_PRESET", "../standard", "lower-case"},
		{"DSH_BRIDGE_AGENT_PRESET", strings.Repeat("a", 129), "lower-case"},
		{"DSH_BRIDGE_TIME_ZONE", "CET", "Europe/Berlin"},
		{"DSH_BRIDGE_TIME_ZONE", "Local", "Europe/Berlin"},
		{"DSH_BRIDGE_TIME_ZONE", "../etc/passwd", "Europe/Berlin"},
		{"DSH_BRIDGE_TIME_ZONE", "Europe/../Asia/Tokyo", "Europe/Berlin"},
		{"DSH_BRIDGE_TIME_ZONE", "+02:00", "Europe/Berlin"},
		{"DSH_BRIDGE_TIME_ZONE", "Europe/Atlantis", "spelling"},
		{"DSH_HOST_VERSION", strings.Repeat("ä", 65), "up to 64"},
		{"DSH_HOST_VERSION", "1\x1b[31m", "printable"},
		{"DSH_HOST_VERSION", "1\xff", "printable"},
		{"DSH_ALLOW_REMOTE_HOST", "1", "one of the two"},
		{"DSH_ALLOW_REMOTE_HOST", "TRUE", "neither true nor false"},
		{"DSH_LOG", "INFO", "debug, info, warn, error, off"},
	} {
		_, err := load(env(map[string]string{c.name: c.value}), noZone)
		wrong, ok := errors.AsType[*VariableError](err)
		if !ok || wrong.Name != c.name || wrong.Value != c.value {
			t.Errorf("%s=%q: %v", c.name, c.value, err)
			continue
		}
		for _, part := range []string{c.name, strconv.Quote(c.value), c.says} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %s", err, part)
			}
		}
	}
}

func TestWrongHostURL(t *testing.T) {
	for value, says := range map[string]string{
		"ftp://127.0.0.1":                "http",
		"http://host.example":            "DSH_ALLOW_REMOTE_HOST",
		"http://me:secret@127.0.0.1":     "",
		"http://127.0.0.1/?token=secret": "",
		"http://me:sec ret@127.0.0.1":    "",
	} {
		_, err := load(env(map[string]string{"DSH_HOST_URL": value}), noZone)
		wrong, ok := errors.AsType[*VariableError](err)
		if !ok || wrong.Name != "DSH_HOST_URL" || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", value, err)
			continue
		}
		if strings.Contains(err.Error(), "sec") {
			t.Errorf("the secret of %s is shown: %v", value, err)
		}
	}
}

func TestNoHome(t *testing.T) {
	for name, vars := range map[string]map[string]string{
		"DSH_BRIDGE_HOME is not set": {"HOME": ""},
		"DSH_BRIDGE_HOME=\"~/b\"":    {"HOME": "", "DSH_BRIDGE_HOME": "~/b"},
		"DSH_HOME=\"~\"":             {"HOME": "relative", "DSH_HOME": "~"},
	} {
		if _, err := load(env(vars), noZone); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "absolute path") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	wrong := map[string]string{}
	for _, v := range Variables {
		wrong[v.Name] = "\x01"
	}
	delete(wrong, "DSH_HOME") // not looked at when DSH_BRIDGE_HOME is set
	_, err := load(env(wrong), noZone)
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, e := range joined.Unwrap() {
		if v, ok := errors.AsType[*VariableError](e); ok {
			got = append(got, v.Name)
		}
	}
	want := slices.Sorted(func(yield func(string) bool) {
		for name := range wrong {
			if !yield(name) {
				return
			}
		}
	})
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The list for people and what Load reads are the same, and a default in the list is what an unset variable means.
func TestVariablesAreWhatLoadReads(t *testing.T) {
	read := map[string]bool{}
	spy := func(name string) string {
		read[name] = true
		return env(nil)(name)
	}
	if _, err := load(spy, noZone); err != nil {
		t.Fatal(err)
	}
	delete(read, "HOME")
	for _, v := range Variables {
		if !read[v.Name] {
			t.Errorf("%s is listed but not read", v.Name)
		}
		delete(read, v.Name)
		if v.Help == "" || strings.ToLower(v.Help[:1]) != v.Help[:1] && v.Help[:2] != "UT" {
			t.Errorf("%s has the help %q", v.Name, v.Help)
		}
	}
	if len(read) > 0 {
		t.Errorf("read but not listed: %v", read)
	}

	unset, err := load(env(nil), noZone)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range Variables {
		if v.Default == "" || v.Name == "DSH_BRIDGE_HOME" || v.Name == "DSH_BRIDGE_TIME_ZONE" {
			continue // the default is none, or told in words
		}
		set, err := load(env(map[string]string{v.Name: v.Default}), noZone)
		if diff := cmp.Diff(unset, set); err != nil || diff != "" {
			t.Errorf("%s=%s: %v\n%s", v.Name, v.Default, err, diff)
		}
	}
}

func TestMillisecondsInRange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-10, 700_000)).Draw(rt, "n")
		got, err := load(env(map[string]string{
			"DSH_REQUEST_TIMEOUT_MS": strconv.FormatInt(n, 10),
			"DSH_LOCK_TIMEOUT_MS":    strconv.FormatInt(n, 10),
		}), noZone)
		requestOK, lockOK := 100 <= n && n <= 600_000, 100 <= n && n <= 60_000
		text := ""
		if err != nil {
			text = err.Error()
		}
		if strings.Contains(text, "DSH_REQUEST_TIMEOUT_MS") == requestOK || strings.Contains(text, "DSH_LOCK_TIMEOUT_MS") == lockOK {
			rt.Fatalf("%d: %v", n, err)
		}
		if err == nil && (got.RequestTimeout.Milliseconds() != n || got.LockTimeout.Milliseconds() != n) {
			rt.Fatalf("%d became %v and %v", n, got.RequestTimeout, got.LockTimeout)
		}
	})
}

// Whatever is set, the outcome is a whole configuration or errors that each name a variable.
func FuzzLoad(f *testing.F) {
	f.Add("http://127.0.0.1:3080", "~/x", "1000", "standard", "Europe/Berlin", "1", "true", "info")
	f.Add("http://[::1]", "/", "+5", "-", "UTC", "\xff", "false", "off")
	f.Fuzz(func(t *testing.T, host, dir, ms, preset, zone, version, remote, log string) {
		c, err := load(env(map[string]string{
			"DSH_HOST_URL": host, "DSH_BRIDGE_HOME": dir, "DSH_HOME": dir, "DSH_REQUEST_TIMEOUT_MS": ms, "DSH_LOCK_TIMEOUT_MS": ms,
			"DSH_BRIDGE_AGENT_PRESET": preset, "DSH_BRIDGE_TIME_ZONE": zone, "DSH_HOST_VERSION": version,
			"DSH_ALLOW_REMOTE_HOST": remote, "DSH_LOG": log,
		}), noZone)
		if err == nil {
			if c.HostURL == nil || !strings.HasPrefix(c.BridgeHome, "/") || c.RequestTimeout < minRequestTimeout || c.LockTimeout > maxLockTimeout {
				t.Errorf("%+v", c)
			}
			return
		}
		for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
			if v, ok := errors.AsType[*VariableError](e); !ok || !strings.HasPrefix(v.Name, "DSH_") {
				t.Errorf("got %v", e)
			}
		}
	})
}
