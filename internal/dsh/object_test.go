package dsh

import (
	"strings"
	"testing"
)

// A large answer may hold any number of brackets, but not too many within each other: validation recurses.
func TestNestingIsBounded(t *testing.T) {
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	wide := strings.Repeat("[{}],", maxBrackets)
	tests := map[string]struct {
		text string
		want bool
	}{
		"wide":                    {"[" + wide + "0]", true},
		"wide and as deep as can": {"[" + wide + nested(maxNesting-1) + "]", true},
		"wide and too deep":       {"[" + wide + nested(maxNesting) + "]", false},
		"in a string":             {`["` + strings.Repeat("[", 2*maxBrackets) + `"]`, true},
		"after a quoted quote":    {`["\"` + strings.Repeat("[", 2*maxBrackets) + `\\"]`, true},
		"all open":                {strings.Repeat(`{"":[`, maxBrackets), false},
		"closed before opened":    {strings.Repeat("]", maxBrackets) + strings.Repeat("[", 2*maxBrackets), false},
	}
	for name, test := range tests {
		if validJSON(test.text) != test.want {
			t.Errorf("%s: %v", name, !test.want)
		}
	}
}
