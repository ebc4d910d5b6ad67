package outcome

import (
	"fmt"
	"strings"
	"testing"
)

// show writes figures as passed/failed/skipped, with - for one that is not told.
func show(c *Counts) string {
	if c == nil {
		return "none"
	}
	figure := func(n *int) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	s := figure(c.Passed) + "/" + figure(c.Failed) + "/" + figure(c.Skipped)
	if c.Errors != nil {
		s += fmt.Sprintf(" errors %d", *c.Errors)
	}
	if c.PackagesOK != nil {
		s += fmt.Sprintf(" packages %d/%d", *c.PackagesOK, *c.PackagesFailed)
	}
	return s
}

func TestCounts(t *testing.T) {
	for _, tt := range []struct {
		name, runner, text string
		want               string
		partial            string // the same of an output of which a part is missing
	}{
		{"go, all well", goTest, "ok  \texample.com/a\t0.012s\nok  \texample.com/b\t(cached)\n?   \texample.com/c\t[no test files]\n", "-/0/- packages 2/0", "none"},
		{"go, one fails", goTest, "--- FAIL: TestAdd (0.00s)\n    a_test.go:7: 1 + 1 = 3\nFAIL\nFAIL\texample.com/a\t0.004s\nok  \texample.com/b\t0.2s\nFAIL\n", "-/1/- packages 1/1", "none"},
		{"go, verbose", goTest, "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/x\n--- FAIL: TestB (0.01s)\n    --- FAIL: TestB/x (0.00s)\n=== RUN   TestC\n    c_test.go:4: not here\n--- SKIP: TestC (0.00s)\nFAIL\nFAIL\texample.com/a\t0.020s\nFAIL\n", "1/1/1 packages 0/1", "none"},
		{"go, verbose with an open line", goTest, "=== RUN   TestA\nhello--- PASS: TestA (0.00s)\nPASS\nok  \texample.com/a\t0.020s\n", "-/0/- packages 1/0", "none"},
		{"go, does not build", goTest, "# example.com/a [example.com/a.test]\n./a_test.go:5:2: undefined: x\nFAIL\texample.com/a [build failed]\nFAIL\n", "-/-/- packages 0/1", "none"},
		{"go, panics", goTest, "--- FAIL: TestA (0.00s)\npanic: boom [recovered]\n\tpanic: boom\nFAIL\texample.com/a\t0.010s\n", "-/-/- packages 0/1", "none"},
		{"go, nothing", goTest, "no required module provides package x\n", "none", "none"},
		{"gotestsum", gotestsum, "✓  a (1ms)\n\nDONE 12 tests, 2 skipped, 1 failure in 1.204s\n", "9/1/2", "9/1/2"},

		{"pytest", pytest, "tests/test_a.py ..F.s                [100%]\n\n=== FAILURES ===\n___ test_x ___\n=========================== short test summary info ===========================\nFAILED tests/test_a.py::test_x - assert 1 == 2\n=================== 1 failed, 3 passed, 1 skipped in 0.12s ====================\n", "3/1/1", "3/1/1"},
		{"pytest, quiet", pytest, "...\n3 passed in 0.01s\n", "3/0/0", "3/0/0"},
		{"pytest, errors", pytest, "===== 2 passed, 1 warning, 2 errors in 1.50s =====\n", "2/0/0 errors 2", "2/0/0 errors 2"},
		{"pytest, long", pytest, "============ 120 passed, 2 xfailed in 75.02s (0:01:15) ============\n", "120/0/0", "120/0/0"},
		{"pytest, none", pytest, "============ no tests ran in 0.01s ============\n", "0/0/0", "0/0/0"},
		{"pytest, cut", pytest, "tests/test_a.py ....\n", "none", "none"},
		{"pytest, words of a test", pytest, "print: 3 passed in my opinion\n", "none", "none"},
		{"unittest", unittest, ".F.s\n----------------------------------------------------------------------\nRan 4 tests in 0.003s\n\nFAILED (failures=1, skipped=1)\n", "2/1/1", "2/1/1"},
		{"unittest, errors", unittest, "Ran 3 tests in 0.003s\n\nFAILED (errors=1)\n", "2/0/0 errors 1", "2/0/0 errors 1"},
		{"unittest, well", unittest, "[stderr]\n..\nRan 2 tests in 0.000s\n\nOK\n", "2/0/0", "2/0/0"},

		{"jest", jest, "Test Suites: 1 failed, 2 passed, 3 total\nTests:       2 failed, 1 skipped, 9 passed, 12 total\nSnapshots:   0 total\nTime:        1.5 s\n", "9/2/1", "9/2/1"},
		{"jest, todo", jest, "Tests:       1 todo, 4 passed, 5 total\n", "4/0/1", "4/0/1"},
		{"vitest", vitest, " Test Files  1 failed | 1 passed (2)\n      Tests  1 failed | 3 passed | 2 skipped (6)\n   Start at  10:00:00\n", "3/1/2", "3/1/2"},
		{"vitest, coloured", vitest, "\x1b[2m      Tests \x1b[22m \x1b[1m\x1b[32m3 passed\x1b[39m\x1b[22m\x1b[90m (3)\x1b[39m\n", "3/0/0", "3/0/0"},
		{"mocha", mocha, "  Array\n    ✔ works\n\n\n  3 passing (12ms)\n  1 pending\n  2 failing\n\n  1) Array\n", "3/2/1", "3/2/1"},
		{"node", nodeTest, "ℹ tests 4\nℹ suites 1\nℹ pass 2\nℹ fail 1\nℹ cancelled 0\nℹ skipped 1\nℹ todo 0\nℹ duration_ms 50.1\n", "2/1/1", "2/1/1"},
		{"node, tap", nodeTest, "# tests 2\n# suites 0\n# pass 2\n# fail 0\n# cancelled 0\n# skipped 0\n# todo 0\n", "2/0/0", "2/0/0"},
		{"bun", bunTest, "bun test v1.1.0\n\n 3 pass\n 1 skip\n 1 fail\n 7 expect() calls\nRan 5 tests across 2 files. [12.00ms]\n", "3/1/1", "3/1/1"},
		{"deno", denoTest, "FAILED | 3 passed | 1 failed | 2 ignored (15ms)\n", "3/1/2", "3/1/2"},
		{"playwright", playwright, "  1 failed\n    [chromium] › a.spec.ts:3:1 › works ───\n  2 skipped\n  5 passed (3.2s)\n", "5/1/2", "5/1/2"},

		{"cargo", cargoTest, "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n", "1/1/0", "none"},
		{"cargo, several", cargoTest, "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\n   Doc-tests core\n\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s\n", "5/0/1", "none"},
		{"nextest", nextest, "     Summary [   0.031s] 6 tests run: 5 passed, 1 failed, 2 skipped\n", "5/1/2", "5/1/2"},
		{"maven", maven, "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.05 s -- in com.example.ATest\n[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.02 s <<< FAILURE! -- in com.example.BTest\n[INFO] Results:\n[INFO] \n[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 1\n", "3/1/1", "none"},
		{"maven, two modules", maven, "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0\n[INFO] Tests run: 2, Failures: 0, Errors: 1, Skipped: 0\n", "4/0/0 errors 1", "none"},
		{"gradle, fails", gradle, "> Task :test FAILED\n\nATest > works() FAILED\n    java.lang.AssertionError\n\n5 tests completed, 1 failed, 1 skipped\n", "3/1/1", "none"},
		{"gradle, well", gradle, "BUILD SUCCESSFUL in 1s\n3 actionable tasks: 3 executed\n", "none", "none"},
		{"gradle, several", gradle, "> Task :a:test\n> Task :b:test FAILED\n5 tests completed, 1 failed\n", "-/1/-", "none"},
		{"dotnet", dotnetTest, "Failed!  - Failed:     1, Passed:     4, Skipped:     1, Total:     6, Duration: 30 ms - A.Tests.dll (net8.0)\nPassed!  - Failed:     0, Passed:     2, Skipped:     0, Total:     2, Duration: 3 ms - B.Tests.dll (net8.0)\n", "6/1/1", "none"},
		{"dotnet, new", dotnetTest, "Test summary: total: 6, failed: 1, succeeded: 4, skipped: 1, duration: 1.2s\n", "4/1/1", "4/1/1"},
		{"ctest", ctest, "    Start 1: a\n1/2 Test #1: a ...   Passed    0.01 sec\n\n50% tests passed, 1 tests failed out of 2\n", "1/1/-", "-/1/-"},
		{"ctest, skips", ctest, "2/2 Test #2: b ...***Skipped   0.00 sec\n\n100% tests passed, 0 tests failed out of 2\n", "-/0/-", "-/0/-"},
		{"rspec", rspec, "Finished in 0.01 seconds\n5 examples, 1 failure, 1 pending\n", "3/1/1", "3/1/1"},
		{"phpunit", phpunit, "FAILURES!\nTests: 5, Assertions: 8, Failures: 1, Skipped: 1.\n", "3/1/1", "3/1/1"},
		{"phpunit, well", phpunit, "OK (5 tests, 8 assertions)\n", "5/0/0", "5/0/0"},
		{"mix", mixTest, "Finished in 0.03 seconds\n2 doctests, 5 tests, 1 failure, 1 skipped\n", "3/1/1", "3/1/1"},
		{"swift", swiftTest, "\t Executed 1 test, with 0 failures (0 unexpected) in 0.001 (0.001) seconds\n\t Executed 4 tests, with 1 test skipped and 1 failure (0 unexpected) in 0.1 (0.1) seconds\n", "2/1/1", "2/1/1"},
		{"bats", bats, "ok 1 a\nnot ok 2 b\n\n2 tests, 1 failure\n", "1/1/0", "1/1/0"},
		{"dart", dartTest, "00:01 +1: a\n00:02 +3 ~1 -1: Some tests failed.\n", "3/1/1", "3/1/1"},

		{"a script that runs jest", "npm test", "> web@1.0.0 test\n> jest\n\nTests:       3 passed, 3 total\n", "3/0/0", "3/0/0"},
		{"a target that runs go test", "make test", "go test ./...\nok  \texample.com/a\t0.012s\n", "-/0/- packages 1/0", "none"},
		{"a script that runs two kinds", "npm test", "Tests:       3 passed, 3 total\n3 passed in 0.01s\n", "none", "none"},
		{"a script that runs one kind twice", "npm test", "Tests:       3 passed, 3 total\nTests:       1 passed, 1 total\n", "none", "none"},
		{"another runner's summary", pytest, "Tests:       3 passed, 3 total\n", "none", "none"},
		{"figures that no run has", pytest, "==== 99999999999999999999 passed in 0.01s ====\n", "0/0/0", "0/0/0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for partial, want := range map[bool]string{false: tt.want, true: tt.partial} {
				if got := show(countRuns([]string{tt.runner}, output{text: tt.text, partial: partial})[0]); got != want {
					t.Errorf("partial %v: %s, want %s", partial, got, want)
				}
				crlf := strings.ReplaceAll(tt.text, "\n", "\r\n")
				if got := show(countRuns([]string{tt.runner}, output{text: crlf, partial: partial})[0]); got != want {
					t.Errorf("with carriage returns, partial %v: %s, want %s", partial, got, want)
				}
			}
		})
	}
}

// Several runs in one line have their figures when every one of them printed some.
func TestCountsOfSeveralRuns(t *testing.T) {
	const one, two = "==== 1 passed in 0.01s ====\n", "==== 2 passed in 0.01s ====\n"
	for _, tt := range []struct {
		runners []string
		text    string
		want    string
	}{
		{[]string{pytest, pytest}, one + two, "1/0/0 2/0/0"},
		{[]string{pytest, pytest}, one, "none none"},
		{[]string{pytest}, one + two, "none"},
		{[]string{pytest, jest}, one + "Tests:       3 passed, 3 total\n", "1/0/0 3/0/0"},
		{[]string{pytest, "npm test"}, one, "1/0/0 none"},
		{[]string{goTest, goTest}, "ok  \ta\t0.1s\nok  \tb\t0.1s\n", "none none"},
	} {
		var got []string
		for _, c := range countRuns(tt.runners, output{text: tt.text}) {
			got = append(got, show(c))
		}
		if g := strings.Join(got, " "); g != tt.want {
			t.Errorf("%v of %q: %s, want %s", tt.runners, tt.text, g, tt.want)
		}
	}
}

func FuzzCounts(f *testing.F) {
	for _, text := range []string{"ok  \ta\t0.1s\n", "==== 1 failed, 2 passed in 0.01s ====", "Ran 4 tests in 0.003s\n\nFAILED (failures=9)", "Tests:       2 failed, 12 total",
		"5 tests completed, 9 failed", "100% tests passed, 3 tests failed out of 1", "Tests: 1, Assertions: 8, Errors: 7.", "ℹ tests 1\nℹ pass 1", "\x1b[", " 3 pass\nRan 1 test across 1 file."} {
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, partial bool) {
		for _, fam := range families {
			for _, c := range countRuns([]string{fam.name, "npm test"}, output{text: text, partial: partial}) {
				if c == nil {
					continue
				}
				for _, n := range []*int{c.Passed, c.Failed, c.Skipped, c.Errors, c.PackagesOK, c.PackagesFailed} {
					if n != nil && *n < 0 {
						t.Errorf("%s counts %d in %q", fam.name, *n, text)
					}
				}
			}
		}
	})
}

func FuzzLine(f *testing.F) {
	for _, line := range []string{"cd x && go test ./... | tail", "bash -c 'bash -c \"bash -c pytest\"'", "a <<X\nX", "if", "$(", "env", "timeout -k", "git -C", "for ((;;)); do rm x; done", "> f", "set -eo pipefail; rm a", "case x in y) npm test;; esac"} {
		f.Add(line, 0)
	}
	f.Fuzz(func(t *testing.T, line string, exit int) {
		all := parseLine(line, "/w", &exit)
		for _, c := range all {
			if len(c.args) != len(c.literal) {
				t.Fatalf("%q: %d words, %d marks", line, len(c.args), len(c.literal))
			}
			if c.ok && exit != 0 {
				t.Errorf("%q failed, and %v is said to have succeeded", line, c.args)
			}
			runnerOf(c)
		}
		shellChanges(all)
		gitRefs(all, output{text: line})
	})
}
