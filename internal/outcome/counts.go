package outcome

import (
	"strconv"
	"strings"
)

// Counts are the figures of a test run. A figure that the runner's output does not tell is nil.
type Counts struct {
	Passed, Failed, Skipped *int
	// Errors are what a runner counts as broken beside what it counts as failed.
	Errors *int
	// PackagesOK and PackagesFailed are what go test tells of packages.
	PackagesOK, PackagesFailed *int
}

// output is what is to be had of what a command printed.
type output struct {
	text string
	// partial: lines can be missing anywhere, because the host cut them or the line filtered them.
	partial bool
}

// family reads the summaries of one kind of runner, in the order in which they were printed. One that adds up single
// lines gives nothing for a partial output.
type family struct {
	name string
	read func(lines []string, partial bool) []Counts
}

var families = []family{
	{goTest, readGo},
	{gotestsum, perLine(`^DONE (?:\d+ runs, )?(\d+) tests?(.*) in [\d.]+s$`, func(m []string) Counts {
		return fromTotal(num(m[1]), itemIn(m[2], "failure"), itemIn(m[2], "skipped"), 0)
	})},
	{pytest, perLine(`^(?:=+ )?((?:\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun|subtests passed)(?:, )?)+|no tests ran) in [\d.]+s(?: \([\d:. a-z,]+\))?(?: =+)?$`, readPytest)},
	{unittest, readUnittest},
	{jest, perLine(`^Tests: +(.*\b\d+ total)$`, func(m []string) Counts { return listed(m[1], "passed", "failed", "skipped", "todo") })},
	{vitest, perLine(`^ +Tests  ((?:\d+ (?:passed|failed|skipped|todo|expected fail)(?: \| )?)+) \(\d+\)$|^ +Tests  (no tests)$`,
		func(m []string) Counts { return listed(m[1], "passed", "failed", "skipped", "todo") })},
	{mocha, readMocha},
	{nodeTest, readNode},
	{bunTest, readBun},
	{denoTest, perLine(`^(?:ok|FAILED) \| (\d+) passed.*? \| (\d+) failed(.*?) \([\dms. ]+\)$`, func(m []string) Counts {
		return counts(num(m[1]), num(m[2]), itemIn(m[3], "ignored"))
	})},
	{playwright, readPlaywright},
	{cargoTest, readCargo},
	{nextest, perLine(`^ +Summary \[ *[\d.]+s\] \d+(?:/\d+)? tests? run: (\d+) passed(.*), (\d+) skipped$`, func(m []string) Counts {
		return counts(num(m[1]), itemIn(m[2], "failed")+itemIn(m[2], "timed out"), num(m[3]))
	})},
	{maven, readMaven},
	{gradle, readGradle},
	{dotnetTest, readDotnet},
	{ctest, readCtest},
	{rspec, perLine(`^(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?(?:, (\d+) errors? occurred outside of examples)?$`, func(m []string) Counts {
		return fromTotal(num(m[1]), num(m[2]), num(m[3]), num(m[4]))
	})},
	{minitest, perLine(`^(\d+) (?:runs|tests), \d+ assertions, (\d+) failures, (\d+) errors, (\d+) (?:skips|pendings)`, func(m []string) Counts {
		c := fromTotal(num(m[1])-num(m[3]), num(m[2]), num(m[4]), num(m[3]))
		return c
	})},
	{phpunit, readPHPUnit},
	{mixTest, perLine(`^(?:\d+ doctests?, )?(\d+) tests?, (\d+) failures?(?:, \d+ excluded)?(?:, (\d+) skipped)?$`, func(m []string) Counts {
		return fromTotal(num(m[1]), num(m[2]), num(m[3]), 0)
	})},
	{swiftTest, lastOf(`^\s+Executed (\d+) tests?, with (?:(\d+) tests? skipped and )?(\d+) failures? \(\d+ unexpected\)`, func(m []string) Counts {
		return fromTotal(num(m[1]), num(m[3]), num(m[2]), 0)
	})},
	{dartTest, lastOf(`^\d+:\d+ \+(\d+)(?: ~(\d+))?(?: -(\d+))?: (?:All tests passed!|Some tests failed\.)$`, func(m []string) Counts {
		return counts(num(m[1]), num(m[3]), num(m[2]))
	})},
}

// same are runners whose summary is that of another family.
var same = map[string]string{bats: mixTest}

// ansi are the escape sequences by which a terminal is coloured.
var ansi = lazily("\x1b\\[[0-9;?]*[A-Za-z]")

// maxOutput bounds what is read of one output, in bytes. The host itself hands on 50,000 characters.
const maxOutput = 1 << 20

// lines prepares an output for the families.
func (o output) lines() ([]string, bool) {
	text, partial := o.text, o.partial
	if len(text) > maxOutput {
		text, partial = text[len(text)-maxOutput:], true
	}
	lines := strings.Split(ansi.ReplaceAllString(text, ""), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \r\t")
	}
	return lines, partial
}

// countRuns reads the figures of the runs of one command line; runners names them in order. What cannot be told apart
// stays nil.
func countRuns(runners []string, o output) []*Counts {
	found := make([]*Counts, len(runners))
	if len(runners) == 0 {
		return found
	}
	lines, partial := o.lines()
	all := map[string][]Counts{}
	kinds := 0
	for _, f := range families {
		if list := f.read(lines, partial); len(list) > 0 {
			all[f.name] = list
			kinds++
		}
	}
	for i, runner := range runners {
		name := runner
		if s, ok := same[name]; ok {
			name = s
		}
		if isFamily(name) {
			if list := all[name]; len(list) == times(runners, runner) {
				found[i] = &list[before(runners[:i], runner)]
			}
			continue
		}
		// A script can run anything: what it prints counts when it is one summary and no other run can have printed it.
		if len(runners) == 1 && kinds == 1 {
			for _, list := range all {
				if len(list) == 1 {
					found[i] = &list[0]
				}
			}
		}
	}
	return found
}

func isFamily(name string) bool {
	for _, f := range families {
		if f.name == name {
			return true
		}
	}
	return false
}

func times(list []string, s string) int {
	n := 0
	for _, x := range list {
		if x == s {
			n++
		}
	}
	return n
}

func before(list []string, s string) int { return times(list, s) }

// perLine reads one summary from every line that matches.
func perLine(pattern string, read func(match []string) Counts) func([]string, bool) []Counts {
	re := lazily(pattern)
	return func(lines []string, _ bool) (list []Counts) {
		for _, l := range lines {
			if m := re.FindStringSubmatch(l); m != nil {
				list = append(list, read(m))
			}
		}
		return list
	}
}

// lastOf is perLine for runners that repeat their figures as they go on.
func lastOf(pattern string, read func(match []string) Counts) func([]string, bool) []Counts {
	each := perLine(pattern, read)
	return func(lines []string, partial bool) []Counts {
		list := each(lines, partial)
		if len(list) > 1 {
			list = list[len(list)-1:]
		}
		return list
	}
}

func counts(passed, failed, skipped int) Counts {
	return Counts{Passed: &passed, Failed: &failed, Skipped: &skipped}
}

// fromTotal is for runners that tell how many there were instead of how many passed.
func fromTotal(total, failed, skipped, errors int) Counts {
	c := counts(total-failed-skipped, failed, skipped)
	if *c.Passed < 0 {
		c.Passed = nil
	}
	if errors > 0 {
		c.Errors = &errors
	}
	return c
}

// listed reads "1 failed, 2 passed" and the like; what is not in the list is 0.
func listed(text, passed, failed string, skipped ...string) Counts {
	n := 0
	for _, s := range skipped {
		n += itemIn(text, s)
	}
	return counts(itemIn(text, passed), itemIn(text, failed), n)
}

var item = lazily(`(\d+) ([a-z]+(?: [a-z]+)?)`)

// itemIn is the figure before a word in a list such as ", 1 skipped, 2 failures"; 0 when it is not there.
func itemIn(text, name string) int {
	for _, m := range item.FindAllStringSubmatch(text, -1) {
		if m[2] == name || m[2] == name+"s" || strings.HasPrefix(m[2], name+" ") {
			return num(m[1])
		}
	}
	return 0
}

// num is a figure of a summary; one that no run can have counts as 0.
func num(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n > 1_000_000_000 {
		return 0
	}
	return n
}
