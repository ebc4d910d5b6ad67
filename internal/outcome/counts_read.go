package outcome

import (
	"strings"
)

var (
	goPackage = lazily(`^(ok  |FAIL|---)\t(\S+)(?:\t| \[)(.*)$`)
	goCase    = lazily(`^--- (PASS|FAIL|SKIP): \S+ \([\d.]+s\)$`)
	goRun     = lazily(`^=== RUN   [^/\s]+$`)
)

// readGo reads go test, which has no summary: packages one a line, tests one a line with -v, failed tests always.
func readGo(lines []string, partial bool) []Counts {
	ok, bad, broken := 0, 0, 0
	cases := map[string]int{}
	begun := 0
	for _, l := range lines {
		switch {
		case goRun.MatchString(l):
			begun++
		case strings.HasPrefix(l, "--- "):
			if m := goCase.FindStringSubmatch(l); m != nil {
				cases[m[1]]++
			}
		default:
			m := goPackage.FindStringSubmatch(l)
			switch {
			case m == nil:
				if strings.HasPrefix(l, "panic: ") {
					broken++
				}
			case m[1] == "ok  ":
				ok++
			case m[1] == "FAIL":
				bad++
				if strings.HasSuffix(m[3], "failed]") {
					broken++
				}
			}
		}
	}
	if partial || ok+bad == 0 {
		return nil
	}
	c := Counts{PackagesOK: &ok, PackagesFailed: &bad}
	passed, failed, skipped := cases["PASS"], cases["FAIL"], cases["SKIP"]
	if broken == 0 && (failed > 0 || bad == 0) {
		c.Failed = &failed // a package can also fail without a failed test
	}
	// A test that leaves a line of its output open hides its own end in it.
	if begun > 0 && begun == passed+failed+skipped && broken == 0 {
		c.Passed, c.Skipped = &passed, &skipped
	}
	return []Counts{c}
}

func readPytest(m []string) Counts {
	c := listed(m[1], "passed", "failed", "skipped")
	if n := itemIn(m[1], "error"); n > 0 {
		c.Errors = &n
	}
	return c
}

var (
	unittestRan = lazily(`^Ran (\d+) tests? in [\d.]+s$`)
	unittestEnd = lazily(`^(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$`)
	assigned    = lazily(`([a-z ]+)=(\d+)`)
)

func readUnittest(lines []string, _ bool) (list []Counts) {
	ran := -1
	for _, l := range lines {
		if m := unittestRan.FindStringSubmatch(l); m != nil {
			ran = num(m[1])
			continue
		}
		m := unittestEnd.FindStringSubmatch(l)
		if m == nil || ran < 0 {
			continue
		}
		n := map[string]int{}
		for _, a := range assigned.FindAllStringSubmatch(m[1], -1) {
			n[strings.TrimSpace(a[1])] = num(a[2])
		}
		other := n["expected failures"] + n["unexpected successes"] + n["errors"]
		list = append(list, fromTotal(ran-other, n["failures"], n["skipped"], n["errors"]))
		ran = -1
	}
	return list
}

var mochaLine = lazily(`^  (\d+) (passing|failing|pending)(?: \(\S+\))?$`)

// readMocha reads passing, pending and failing, each on a line, the first one always there.
func readMocha(lines []string, _ bool) (list []Counts) {
	for _, l := range lines {
		m := mochaLine.FindStringSubmatch(l)
		switch {
		case m == nil:
		case m[2] == "passing":
			list = append(list, counts(num(m[1]), 0, 0))
		case len(list) == 0:
		case m[2] == "failing":
			*list[len(list)-1].Failed = num(m[1])
		default:
			*list[len(list)-1].Skipped = num(m[1])
		}
	}
	return list
}

var nodeLine = lazily(`^(?:ℹ|#) (tests|pass|fail|cancelled|skipped|todo) (\d+)$`)

// readNode reads the block that begins with the number of tests and ends with that of the todos.
func readNode(lines []string, _ bool) (list []Counts) {
	n := map[string]int{}
	for _, l := range lines {
		m := nodeLine.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		if m[1] == "tests" {
			n = map[string]int{}
		}
		n[m[1]] = num(m[2])
		if m[1] == "todo" && len(n) == 6 {
			c := counts(n["pass"], n["fail"], n["skipped"]+n["todo"])
			if n["cancelled"] > 0 {
				c.Errors = new(n["cancelled"])
			}
			list = append(list, c)
		}
	}
	return list
}

var (
	bunLine = lazily(`^ *(\d+) (pass|fail|skip|todo)$`)
	bunEnd  = lazily(`^Ran \d+ tests? across \d+ files?\.`)
)

func readBun(lines []string, _ bool) (list []Counts) {
	n := map[string]int{}
	for _, l := range lines {
		if m := bunLine.FindStringSubmatch(l); m != nil {
			n[m[2]] = num(m[1])
		} else if bunEnd.MatchString(l) {
			if _, ok := n["pass"]; ok {
				list = append(list, counts(n["pass"], n["fail"], n["skip"]+n["todo"]))
			}
			n = map[string]int{}
		}
	}
	return list
}

var playwrightLine = lazily(`^  (\d+) (passed|failed|skipped|flaky|interrupted|did not run)(?: \([\d.]+(?:ms|s|m|h)\))?$`)

// readPlaywright reads the list at the end, which goes from what failed to what passed.
func readPlaywright(lines []string, _ bool) (list []Counts) {
	n, open := map[string]int{}, false
	end := func() {
		if open {
			c := counts(n["passed"]+n["flaky"], n["failed"], n["skipped"]+n["did not run"])
			if n["interrupted"] > 0 {
				c.Errors = new(n["interrupted"])
			}
			list = append(list, c)
		}
		n, open = map[string]int{}, false
	}
	for _, l := range lines {
		m := playwrightLine.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		n[m[2]], open = num(m[1]), true
		if m[2] == "passed" {
			end()
		}
	}
	end()
	return list
}

var cargoLine = lazily(`^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; \d+ measured; \d+ filtered out`)

// readCargo adds up the results of the test programs.
func readCargo(lines []string, partial bool) []Counts {
	var sum *Counts
	for _, l := range lines {
		if m := cargoLine.FindStringSubmatch(l); m != nil {
			sum = add(sum, counts(num(m[1]), num(m[2]), num(m[3])))
		}
	}
	return whole(sum, partial)
}

// add sums figures up.
func add(sum *Counts, c Counts) *Counts {
	if sum == nil {
		return &c
	}
	*sum.Passed += *c.Passed
	*sum.Failed += *c.Failed
	*sum.Skipped += *c.Skipped
	if c.Errors != nil {
		if sum.Errors == nil {
			sum.Errors = new(0)
		}
		*sum.Errors += *c.Errors
	}
	return sum
}

// whole gives a sum only when no part of it can be missing.
func whole(sum *Counts, partial bool) []Counts {
	if sum == nil || partial {
		return nil
	}
	return []Counts{*sum}
}

var mavenLine = lazily(`^(?:\[[A-Z]+\] )?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$`)

// readMaven adds up the totals of the modules. The lines of single classes go on with the time they took.
func readMaven(lines []string, partial bool) []Counts {
	var sum *Counts
	for _, l := range lines {
		if m := mavenLine.FindStringSubmatch(l); m != nil {
			total, failed, broken, skipped := num(m[1]), num(m[2]), num(m[3]), num(m[4])
			c := counts(max(0, total-failed-broken-skipped), failed, skipped)
			if broken > 0 {
				c.Errors = &broken
			}
			sum = add(sum, c)
		}
	}
	return whole(sum, partial)
}

var gradleLine = lazily(`^(\d+) tests? completed(?:, (\d+) failed)?(?:, (\d+) skipped)?$`)

// readGradle reads what gradle tells of tasks with failed tests; it counts nothing when all went well.
func readGradle(lines []string, partial bool) []Counts {
	var sum *Counts
	tasks := 0
	for _, l := range lines {
		if strings.HasPrefix(l, "> Task :") && strings.Contains(strings.ToLower(l), "test") && !strings.Contains(l, "ompile") && !strings.Contains(l, "lasses") && !strings.Contains(l, "esources") {
			tasks++
		}
		if m := gradleLine.FindStringSubmatch(l); m != nil {
			sum = add(sum, counts(max(0, num(m[1])-num(m[2])-num(m[3])), num(m[2]), num(m[3])))
		}
	}
	if tasks > 1 && sum != nil {
		// Another task can have passed in silence.
		sum.Passed, sum.Skipped = nil, nil
	}
	return whole(sum, partial)
}

var (
	dotnetLine  = lazily(`^(?:Passed|Failed|Skipped)! +- Failed: +(\d+), Passed: +(\d+), Skipped: +(\d+), Total: +\d+`)
	dotnetTotal = lazily(`^Test summary: total: (\d+), failed: (\d+), succeeded: (\d+), skipped: (\d+), duration: `)
)

// readDotnet adds up the assemblies, or takes the total of newer versions.
func readDotnet(lines []string, partial bool) []Counts {
	var sum *Counts
	for _, l := range lines {
		if m := dotnetTotal.FindStringSubmatch(l); m != nil {
			return []Counts{counts(num(m[3]), num(m[2]), num(m[4]))}
		}
		if m := dotnetLine.FindStringSubmatch(l); m != nil {
			sum = add(sum, counts(num(m[2]), num(m[1]), num(m[3])))
		}
	}
	return whole(sum, partial)
}

var ctestLine = lazily(`^\d+% tests passed, (\d+) tests? failed out of (\d+)$`)

// readCtest reads the line of the total. ctest counts skipped tests as passed, so they are told from the passed ones
// only in a whole output without any.
func readCtest(lines []string, partial bool) (list []Counts) {
	skips := partial
	for _, l := range lines {
		skips = skips || strings.Contains(l, "***Skipped") || strings.Contains(l, "***Not Run") || strings.Contains(l, "The following tests did not run")
		if m := ctestLine.FindStringSubmatch(l); m != nil {
			list = append(list, fromTotal(num(m[2]), num(m[1]), 0, 0))
		}
	}
	for i := range list {
		if list[i].Skipped = nil; skips {
			list[i].Passed = nil
		}
	}
	return list
}

var (
	phpOK     = lazily(`^OK \((\d+) tests?, \d+ assertions?\)$`)
	phpTotals = lazily(`^Tests: (\d+), Assertions: \d+(.*)\.$`)
	phpField  = lazily(`, ([A-Z][A-Za-z ]*): (\d+)`)
	pestLine  = lazily(`^  Tests: +((?:\d+ [a-z]+(?:, )?)+)(?: \(\d+ assertions\))?$`)
)

func readPHPUnit(lines []string, _ bool) (list []Counts) {
	for _, l := range lines {
		if m := phpOK.FindStringSubmatch(l); m != nil {
			list = append(list, counts(num(m[1]), 0, 0))
		} else if m := phpTotals.FindStringSubmatch(l); m != nil {
			n := map[string]int{}
			for _, f := range phpField.FindAllStringSubmatch(m[2], -1) {
				n[f[1]] = num(f[2])
			}
			list = append(list, fromTotal(num(m[1])-n["Errors"]-n["Incomplete"]-n["Risky"], n["Failures"], n["Skipped"], n["Errors"]))
		} else if m := pestLine.FindStringSubmatch(l); m != nil {
			list = append(list, listed(m[1], "passed", "failed", "skipped", "todos"))
		}
	}
	return list
}
