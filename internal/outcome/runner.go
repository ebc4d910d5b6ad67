package outcome

import (
	"slices"
	"strings"
)

// Names of runners that have a summary of their own to be read. The name of any other runner is the command it was
// started with, such as "npm test" or "make check", and any summary in its output counts.
const (
	goTest     = "go test"
	gotestsum  = "gotestsum"
	pytest     = "pytest"
	unittest   = "unittest"
	jest       = "jest"
	vitest     = "vitest"
	mocha      = "mocha"
	nodeTest   = "node --test"
	bunTest    = "bun test"
	denoTest   = "deno test"
	playwright = "playwright"
	cargoTest  = "cargo test"
	nextest    = "cargo nextest"
	maven      = "mvn"
	gradle     = "gradle"
	dotnetTest = "dotnet test"
	ctest      = "ctest"
	rspec      = "rspec"
	minitest   = "minitest"
	phpunit    = "phpunit"
	mixTest    = "mix test"
	swiftTest  = "swift test"
	bats       = "bats"
	dartTest   = "dart test"
)

// runnerOf names the test runner that a command starts; empty when it starts none, or only asks it for something else
// than a run.
func runnerOf(c simple) string {
	if len(c.args) == 0 || !c.literal[0] {
		return ""
	}
	name, rest := c.args[0], c.args[1:]
	if name == "python" || name == "python2" || strings.HasPrefix(name, "python3") {
		name, rest = pythonModule(rest)
	}
	if asksOnly(name, rest) {
		return ""
	}
	switch name {
	case "go":
		if first(rest) == "test" && !hasFlag(rest, "-c", "--c", "-list", "--list", "-n") {
			return goTest
		}
		if first(rest) == "run" && len(rest) > 1 && strings.HasPrefix(rest[1], "gotest.tools/gotestsum") {
			return gotestsum
		}
	case gotestsum, jest, vitest, mocha, ctest, rspec, phpunit, bats:
		return name
	case "_mocha":
		return mocha
	case "jest.js", "vitest.mjs":
		return strings.TrimSuffix(strings.TrimSuffix(name, ".js"), ".mjs")
	case "pytest", "py.test":
		return pytest
	case unittest:
		return unittest
	case "pest":
		return phpunit
	case "tox", "nox", "ava", "jasmine", "prove":
		return name
	case "manage.py":
		if first(rest) == "test" {
			return unittest
		}
	case "node":
		return nodeRunner(rest)
	case "bun", "deno", "npm", "pnpm", "yarn":
		return scriptRunner(name, rest)
	case "playwright":
		return ifFirst(rest, "test", playwright)
	case "cypress":
		return ifFirst(rest, "run", "cypress run")
	case "cargo":
		return cargoRunner(rest)
	case "mvn", "mvnw", "mvnd":
		return mavenRunner(rest)
	case "gradle", "gradlew":
		return gradleRunner(rest)
	case "dotnet":
		return ifFirst(rest, "test", dotnetTest)
	case "make", "gmake", "ninja", "just", "task", "rake", "rails":
		return targetRunner(name, rest)
	case "cmake":
		if i := slices.Index(rest, "--target"); i >= 0 && i+1 < len(rest) && rest[i+1] == "test" {
			return "cmake test"
		}
	case "mix":
		return ifFirst(rest, "test", mixTest)
	case "swift":
		return ifFirst(rest, "test", swiftTest)
	case "dart", "flutter":
		return ifFirst(rest, "test", dartTest)
	case "bazel", "bazelisk", "sbt", "composer", "stack", "cabal", "zig":
		if first(rest) == "test" || name == "zig" && first(rest) == "build" && slices.Contains(rest, "test") {
			return name + " test"
		}
	}
	return ""
}

// pythonModule is what an interpreter runs: a module by name, or a script.
func pythonModule(args []string) (name string, rest []string) {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-m" && i+1 < len(args):
			return args[i+1], args[i+2:]
		case a == "-W" || a == "-X":
			i++
		case a == "-c" || !strings.HasPrefix(a, "-"):
			if strings.HasSuffix(a, "manage.py") {
				return "manage.py", args[i+1:]
			}
			return "", nil
		}
	}
	return "", nil
}

// asksOnly reports whether the options ask for help, a version or a list instead of a run.
func asksOnly(name string, args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		switch a {
		case "--help", "--version", "--collect-only", "--co", "--listTests", "--fixtures", "--no-run", "--list-tests", "--show-only", "--dry-run", "--showConfig", "--clearCache", "--init":
			return true
		case "-h":
			return name != "ctest"
		case "-N":
			return name == "ctest"
		case "--list":
			return name == "playwright" || name == "vitest" || name == "tox" || name == "nox"
		case "list":
			return name == "vitest"
		case "-m":
			return name == "gradle" || name == "gradlew"
		case "-n":
			return name == "make" || name == "gmake" || name == "ninja"
		}
	}
	return false
}

func nodeRunner(args []string) string {
	for i, a := range args {
		switch {
		case i > 0 && slices.Contains([]string{"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions"}, args[i-1]):
		case a == "--test":
			return nodeTest
		case !strings.HasPrefix(a, "-"):
			switch {
			case strings.HasSuffix(a, "/bin/jest.js") || strings.HasSuffix(a, ".bin/jest"):
				return jest
			case strings.HasSuffix(a, "/vitest.mjs") || strings.HasSuffix(a, ".bin/vitest"):
				return vitest
			case strings.HasSuffix(a, "/mocha.js") || strings.HasSuffix(a, ".bin/mocha"):
				return mocha
			}
			return ""
		}
	}
	return ""
}

// scriptRunner names what a package manager runs: a runner of its own, a package's script, or a package's program.
func scriptRunner(name string, args []string) string {
	args = afterOptions(args, "--prefix", "-C", "--dir", "--filter", "-F", "--cwd", "-w", "--workspace")
	if len(args) == 0 {
		return ""
	}
	script := args[0]
	switch {
	case script == "test" && (name == "bun" || name == "deno"):
		return name + " test"
	case name == "yarn" && script == "workspace" && len(args) > 2:
		return scriptRunner(name, args[2:])
	case name == "yarn" && script == "workspaces" && slices.Contains(args, "test"):
		return "yarn test"
	case script == "run" || script == "run-script" || script == "task":
		rest := afterOptions(args[1:], "--filter", "-w", "--workspace")
		if len(rest) == 0 {
			return ""
		}
		script = rest[0]
	case script == "t" || script == "tst" || script == "it":
		if name == "npm" || name == "pnpm" && script == "t" {
			return name + " test"
		}
		return ""
	case script != "test" && (name == "pnpm" || name == "yarn"):
		// Both run a script or a program of the package by its bare name.
		switch script {
		case jest, vitest, mocha, "playwright":
			return runnerOf(literal(args))
		}
	case name == "npm" && script != "test":
		return ""
	}
	if script == "test" || strings.HasPrefix(script, "test:") {
		return name + " " + script
	}
	return ""
}

func cargoRunner(args []string) string {
	if len(args) > 0 && strings.HasPrefix(args[0], "+") {
		args = args[1:]
	}
	switch args = afterOptions(args, "--manifest-path", "--config", "--color", "-Z"); {
	case len(args) == 0, slices.Contains(args, "--list"):
	case args[0] == "test" || args[0] == "t":
		return cargoTest
	case args[0] == "nextest" && len(args) > 1 && (args[1] == "run" || args[1] == "r"):
		return nextest
	}
	return ""
}

func mavenRunner(args []string) string {
	runs := false
	for _, a := range args {
		switch {
		case a == "-DskipTests" || a == "-DskipTests=true" || a == "-Dmaven.test.skip=true" || a == "-Dmaven.test.skip":
			return ""
		case slices.Contains([]string{"test", "integration-test", "verify", "package", "install", "deploy", "surefire:test", "failsafe:verify", "failsafe:integration-test"}, a):
			runs = true
		}
	}
	if runs {
		return maven
	}
	return ""
}

func gradleRunner(args []string) string {
	runs := false
	for i, a := range args {
		if i > 0 && (args[i-1] == "-x" || args[i-1] == "--exclude-task") {
			if a == "test" || a == "check" {
				return ""
			}
			continue
		}
		task := a[strings.LastIndex(a, ":")+1:]
		if !strings.HasPrefix(a, "-") && (task == "test" || task == "check" || task == "build" || task == "integrationTest" ||
			strings.HasPrefix(task, "test") && strings.HasSuffix(task, "UnitTest")) {
			runs = true
		}
	}
	if runs {
		return gradle
	}
	return ""
}

// targetRunner names a run of a target that is called test or check, or test of something.
func targetRunner(name string, args []string) string {
	skip := false
	for _, a := range args {
		switch {
		case skip:
			skip = false
		case a == "-C" || a == "-f" || a == "-I" || a == "-t" || a == "-d" && name != "make":
			skip = true
		case strings.HasPrefix(a, "-") || strings.Contains(a, "="):
		case a == "test" || a == "tests" || a == "check" || a == "spec" || strings.HasPrefix(a, "test:") || strings.HasPrefix(a, "test-") || strings.HasPrefix(a, "test_") || strings.HasSuffix(a, "-test"):
			return name + " " + a
		}
	}
	return ""
}

// afterOptions drops the options before the first word; those in valued take the next word.
func afterOptions(args []string, valued ...string) []string {
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			return args[i:]
		}
		if slices.Contains(valued, args[i]) {
			i++
		}
	}
	return nil
}

func literal(args []string) simple {
	c := simple{args: args}
	for range args {
		c.literal = append(c.literal, true)
	}
	return c
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func ifFirst(args []string, want, name string) string {
	if first(args) == want {
		return name
	}
	return ""
}

func hasFlag(args []string, flags ...string) bool {
	for _, a := range args {
		if a == "-args" || a == "--args" {
			return false
		}
		name, _, _ := strings.Cut(a, "=")
		if slices.Contains(flags, name) {
			return true
		}
	}
	return false
}
