package config

import (
	"os"
	"regexp"
	"strings"
	"time"
)

// ianaName is the shape of the zone names that a host accepts beside UTC. A prompt with any other is refused, so that
// CET or GMT, which are fine for a system, are of no use here.
var ianaName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)+$`)

func zoneName(s string) bool { return s == "UTC" || ianaName.MatchString(s) }

// knownZone reports whether a zone exists. On a machine without a zone database every name passes: carrying one in
// the program for that case would cost every user its size, and the host, which has one, checks the name again.
func knownZone(name string) bool {
	if _, err := time.LoadLocation(name); err == nil {
		return true
	}
	_, err := time.LoadLocation("Europe/London")
	return err != nil
}

// systemZone returns the zone that this system is set to, or "" when it has no name that a host accepts.
func systemZone(getenv func(string) string) string {
	return zoneOf(getenv("TZ"), "/etc/localtime", "/etc/timezone")
}

// zoneOf finds the zone's name in the value of TZ, in the target of the link localtime, or in the file timezone. TZ
// decides when it is set, also when what it says cannot be used: the system's zone is then not this process's.
func zoneOf(tz, localtime, timezone string) string {
	if tz != "" {
		return usableZone(strings.TrimPrefix(tz, ":"))
	}
	if target, err := os.Readlink(localtime); err == nil {
		if zone := usableZone(target); zone != "" {
			return zone
		}
	}
	if data, err := os.ReadFile(timezone); err == nil {
		line, _, _ := strings.Cut(string(data), "\n")
		return usableZone(strings.TrimSpace(line))
	}
	return ""
}

// usableZone takes a zone's name, or the path of its file in a zone database, and returns the name if a host would
// accept it.
func usableZone(s string) string {
	if i := strings.LastIndex(s, "zoneinfo/"); i >= 0 {
		s = s[i+len("zoneinfo/"):]
	}
	// A database may hold its zones twice more, with and without leap seconds.
	s = strings.TrimPrefix(strings.TrimPrefix(s, "posix/"), "right/")
	if zoneName(s) && knownZone(s) {
		return s
	}
	return ""
}
