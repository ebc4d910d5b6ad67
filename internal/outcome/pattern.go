package outcome

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled when it is first used: most processes never ask for a result, and all
// of them start.
type pattern func() *regexp.Regexp

// lazily returns the pattern of an expression, which a test compiles.
func lazily(expression string) pattern {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
	expressions = append(expressions, expression)
	return compiled
}

// expressions are those of this package, for the test.
var expressions []string

func (p pattern) FindStringSubmatch(s string) []string   { return p().FindStringSubmatch(s) }
func (p pattern) FindStringSubmatchIndex(s string) []int { return p().FindStringSubmatchIndex(s) }
func (p pattern) MatchString(s string) bool              { return p().MatchString(s) }
func (p pattern) FindString(s string) string             { return p().FindString(s) }
func (p pattern) ReplaceAllString(s, by string) string   { return p().ReplaceAllString(s, by) }
func (p pattern) FindAllStringSubmatch(s string, n int) [][]string {
	return p().FindAllStringSubmatch(s, n)
}
