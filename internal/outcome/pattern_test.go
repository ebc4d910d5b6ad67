package outcome

import (
	"regexp"
	"testing"
)

func TestPatternsCompile(t *testing.T) {
	if len(expressions) < 30 {
		t.Errorf("there are %d patterns; are they all made lazily?", len(expressions))
	}
	for _, e := range expressions {
		if _, err := regexp.Compile(e); err != nil {
			t.Error(err)
		}
	}
}
