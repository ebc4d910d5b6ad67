package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSystemZone(t *testing.T) {
	for _, c := range []struct {
		name, tz, link, file, want string
	}{
		{"TZ names it", "Europe/Berlin", "/usr/share/zoneinfo/Asia/Tokyo", "", "Europe/Berlin"},
		{"TZ with the colon of POSIX", ":Europe/Berlin", "", "", "Europe/Berlin"},
		{"TZ with a file", ":/usr/share/zoneinfo/Europe/Berlin", "", "", "Europe/Berlin"},
		{"TZ is UTC", "UTC", "/usr/share/zoneinfo/Asia/Tokyo", "", "UTC"},
		{"TZ is a rule", "CET-1CEST,M3.5.0,M10.5.0/3", "/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo\n", ""},
		{"TZ has no area", "CET", "/usr/share/zoneinfo/Asia/Tokyo", "", ""},
		{"the link of Linux", "", "/usr/share/zoneinfo/Asia/Tokyo", "Europe/Berlin\n", "Asia/Tokyo"},
		{"the link of Linux, relative", "", "../usr/share/zoneinfo/Etc/UTC", "", "Etc/UTC"},
		{"the link of macOS", "", "/var/db/timezone/zoneinfo/America/New_York", "", "America/New_York"},
		{"a zone that counts leap seconds", "", "/usr/share/zoneinfo/right/Asia/Tokyo", "", "Asia/Tokyo"},
		{"a link to no zone", "", "/somewhere/else", "Europe/Berlin\n", "Europe/Berlin"},
		{"a link to a zone without area", "", "/usr/share/zoneinfo/GMT", "", ""},
		{"only the file", "", "", "Europe/Berlin\n", "Europe/Berlin"},
		{"an empty file", "", "", "\n", ""},
		{"a zone that does not exist", "", "", "Europe/Atlantis\n", ""},
		{"nothing", "", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			localtime, timezone := filepath.Join(t.TempDir(), "localtime"), filepath.Join(t.TempDir(), "timezone")
			if c.link != "" {
				if err := os.Symlink(c.link, localtime); err != nil {
					t.Fatal(err)
				}
			}
			if c.file != "" {
				if err := os.WriteFile(timezone, []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := zoneOf(c.tz, localtime, timezone); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Load asks this system; whatever it says is nothing or a zone that a host accepts.
func TestLoadAsksTheSystem(t *testing.T) {
	c, err := Load(env(nil))
	if err != nil {
		t.Fatal(err)
	}
	if c.TimeZone != "" && !zoneName(c.TimeZone) {
		t.Errorf("got %q", c.TimeZone)
	}
	if c, err = Load(env(map[string]string{"TZ": "Europe/Berlin"})); err != nil || c.TimeZone != "Europe/Berlin" {
		t.Errorf("got %q, %v", c.TimeZone, err)
	}
}
