package dsh

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"session-bcea6cb2-cd13-4a4a-adaa-56c18d724022": true,
		"bash-1":                 true,
		"a.b_c:d@e":              true,
		strings.Repeat("x", 128): true,
		strings.Repeat("x", 129): false,
		"":                       false,
		".":                      false,
		"..":                     false,
		"...":                    true,
		"a b":                    false,
		"a/b":                    false,
		`a\b`:                    false,
		"a\n":                    false,
		"ä":                      false,
	} {
		if ValidID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}

func TestValidIDProperty(t *testing.T) {
	rule := regexp.MustCompile(`^[A-Za-z0-9._:@-]{1,128}\z`)
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9._:@-]{0,140}`)).Draw(t, "id")
		if want := rule.MatchString(id) && id != "." && id != ".."; ValidID(id) != want {
			t.Errorf("%q: %v, want %v", id, !want, want)
		}
	})
}
