package outcome

import (
	"cmp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// Which test runs a command line starts, by its words alone.
func TestRunners(t *testing.T) {
	for _, tt := range []struct {
		line string
		want string // the runners, comma between
	}{
		{"go test ./...", "go test"},
		{"cd x && go test ./... | tail -5", "go test"},
		{"CGO_ENABLED=0 go test -race -count=1 ./internal/...", "go test"},
		{"env GOFLAGS=-mod=mod go test", "go test"},
		{"env -u HOME -i A=b go test", "go test"},
		{`bash -lc "go test ./..."`, "go test"},
		{`bash -euo pipefail -c 'cd x; go test ./...'`, "go test"},
		{`sh -c "timeout 60 go test ."`, "go test"},
		{"time go test ./...", "go test"},
		{"timeout --kill-after=5 -s INT 2m go test ./...", "go test"},
		{"nice -n 10 nohup go test ./...", "go test"},
		{"sudo -u nobody /usr/local/go/bin/go test .", "go test"},
		{"go vet ./... && go test ./... && echo fine", "go test"},
		{"go test ./a; go test ./b", "go test,go test"},
		{"(cd sub && go test .)", "go test"},
		{"if go test .; then echo y; fi", "go test"},
		{"for p in a b; do go test ./$p; done", "go test"},
		{"{ go test ./...; } 2>&1 | tee log", "go test"},
		{"! go test ./...", "go test"},
		{"go test ./... > out.txt 2>&1", "go test"},
		{"go run gotest.tools/gotestsum@latest ./...", "gotestsum"},
		{"gotestsum --format testname", "gotestsum"},
		{"pytest", "pytest"},
		{"timeout 60 pytest -x tests/", "pytest"},
		{"py.test -q", "pytest"},
		{"python -m pytest -q", "pytest"},
		{"python3.12 -X dev -m pytest", "pytest"},
		{".venv/bin/python -m pytest tests", "pytest"},
		{"./venv/bin/pytest", "pytest"},
		{"uv run pytest -q", "pytest"},
		{"uv run --with hypothesis --python 3.12 pytest", "pytest"},
		{"uv run python -m pytest", "pytest"},
		{"poetry run pytest", "pytest"},
		{"pipenv run python -m pytest", "pytest"},
		{"hatch run pytest", "pytest"},
		{"conda run -n env pytest", "pytest"},
		{"coverage run -m pytest", ""},
		{"python -m coverage run -m pytest", "pytest"},
		{"python -m unittest discover -v", "unittest"},
		{"python manage.py test app", "unittest"},
		{"tox -e py312", "tox"},
		{"nox -s tests", "nox"},
		{"npx jest --ci", "jest"},
		{"npx --yes jest", "jest"},
		{"npx -p jest jest src", "jest"},
		{"./node_modules/.bin/jest", "jest"},
		{"node node_modules/jest/bin/jest.js", "jest"},
		{"cross-env CI=1 jest", "jest"},
		{"npx cross-env CI=1 vitest run", "vitest"},
		{"pnpm vitest run", "vitest"},
		{"pnpm exec vitest run", "vitest"},
		{"yarn jest", "jest"},
		{"bunx vitest", "vitest"},
		{"npx mocha", "mocha"},
		{"node --test", "node --test"},
		{"node --import tsx --test src", "node --test"},
		{"npx playwright test --reporter=line", "playwright"},
		{"bun test", "bun test"},
		{"deno test -A", "deno test"},
		{"npm test", "npm test"},
		{"npm t", "npm test"},
		{"npm --prefix web test -- --ci", "npm test"},
		{"npm run test:unit", "npm test:unit"},
		{"npm run -s test", "npm test"},
		{"pnpm test", "pnpm test"},
		{"pnpm -r test", "pnpm test"},
		{"pnpm --filter web run test", "pnpm test"},
		{"yarn test", "yarn test"},
		{"yarn workspace web test", "yarn test"},
		{"cargo test --workspace", "cargo test"},
		{"cargo +nightly t", "cargo test"},
		{"RUST_BACKTRACE=1 cargo test -p core", "cargo test"},
		{"cargo nextest run", "cargo nextest"},
		{"mvn -q test", "mvn"},
		{"./mvnw verify -B", "mvn"},
		{"./gradlew test --info", "gradle"},
		{"gradle :app:testDebugUnitTest", "gradle"},
		{"dotnet test -c Release", "dotnet test"},
		{"ctest --output-on-failure", "ctest"},
		{"cd build && ctest -j8", "ctest"},
		{"make test", "make test"},
		{"make -C sub -j4 check", "make check"},
		{"make V=1 test-unit", "make test-unit"},
		{"bundle exec rspec", "rspec"},
		{"rake test", "rake test"},
		{"bin/rails test", "rails test"},
		{"vendor/bin/phpunit", "phpunit"},
		{"mix test", "mix test"},
		{"swift test", "swift test"},
		{"flutter test", "dart test"},
		{"bats test/", "bats"},
		{"eval 'pytest -q'", "pytest"},
		{"go test -run TestMain -v .", "go test"},
		{"cmake --build build --target test", "cmake test"},

		// What only looks like one.
		{`echo "go test ./... PASS"`, ""},
		{"echo go test", ""},
		{"grep -r pytest .", ""},
		{`git commit -m "go test"`, ""},
		{"cat test.log", ""},
		{"cat <<EOF\ngo test ./...\nEOF", ""},
		{"cat > run.sh <<'EOF'\npytest\nEOF", ""},
		{"# go test ./...", ""},
		{"ls tests && cat pytest.ini", ""},
		{"pip install pytest", ""},
		{"npm install jest", ""},
		{"npm run build", ""},
		{"npm run lint:test-files", ""},
		{"which pytest", ""},
		{"command -v pytest", ""},
		{"command pytest", "pytest"},
		{"cargo test -- --list", ""},
		{"npx vitest list", ""},
		{"pytest --version", ""},
		{"pytest --collect-only -q", ""},
		{"npx jest --listTests", ""},
		{"go test -c -o x.test .", ""},
		{"go test -list . ./...", ""},
		{"cargo test --no-run", ""},
		{"mvn package -DskipTests", ""},
		{"gradle build -x test", ""},
		{"make -n test", ""},
		{"make latest", ""},
		{"ctest -N", ""},
		{"go build ./... && ./test", ""},
		{"vim go test", ""},
		{"man pytest", ""},
		{"f() { go test ./...; }", ""},
		{"out=$(go test ./...)", ""},
		{`echo "$(pytest)"`, ""},
		{"$RUNNER test", ""},
		{"python script.py -m pytest", ""},
		{"python -c 'import pytest'", ""},
		{"node server.js --test", ""},
		{"xargs pytest < files", ""},
		{"rm -rf jest", ""},
		{"printf 'pytest: 3 passed'", ""},
		{"test -f go.mod", ""},
		{"[ -d tests ]", ""},
		{"go test ./... '", ""},
		{"bash test.sh", ""},
		{"bash -c", ""},
		{"timeout", ""},
		{"env A=b", ""},
		{"", ""},
	} {
		var got []string
		for _, c := range parseLine(tt.line, "", new(0)) {
			if r := runnerOf(c); r != "" {
				got = append(got, r)
			}
		}
		if g := strings.Join(got, ","); g != tt.want {
			t.Errorf("%q runs %q, want %q", tt.line, g, tt.want)
		}
	}
}

// What is certain of each command when the line succeeded, and when it did not: r ran, o succeeded, f filtered.
func TestCertainty(t *testing.T) {
	for _, tt := range []struct {
		line         string
		well, failed string
	}{
		{"a", "ro", "r"},
		{"a; b", "r ro", "r r"},
		{"a && b", "ro ro", "r -"},
		{"a && b; c", "r - ro", "r - r"},
		{"a || b", "r -", "r -"},
		{"a | b", "rf ro", "rf r"},
		{"a | tee log", "r ro", "r r"},
		{"a > f", "rof", "rf"},
		{"a 2>&1", "ro", "r"},
		{"a 2> f", "ro", "r"},
		{"! a", "r", "r"},
		{"a & b", "rf ro", "rf r"},
		{"if a; then b; fi", "- -", "- -"},
		{"while a; do b; done", "- -", "- -"},
		{"(a; b)", "r ro", "r r"},
		{"bash -c 'a && b'", "ro ro", "r -"},
		{"set -e; a; b", "r ro ro", "r - -"},
		{"set -euo pipefail; a | b", "r rof ro", "r f -"},
		{"exit 0; a", "r -", "r -"},
		{"a || exit 1; b", "r - -", "r - -"},
	} {
		for exit, want := range []string{tt.well, tt.failed} {
			var got []string
			for _, c := range parseLine(tt.line, "", &exit) {
				mark := ""
				for i, on := range []bool{c.ran, c.ok, c.filtered} {
					if on {
						mark += string("rof"[i])
					}
				}
				got = append(got, cmp.Or(mark, "-"))
			}
			if g := strings.Join(got, " "); g != want {
				t.Errorf("%q with exit %d: %q, want %q", tt.line, exit, g, want)
			}
		}
	}
}

func TestShellChanges(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []change
	}{
		{"rm a.txt", []change{{path: "/w/a.txt", kind: FileDeleted}}},
		{"rm -f a b/c", []change{{path: "/w/a", kind: FileGone}, {path: "/w/b/c", kind: FileGone}}},
		{"rm -- -x", []change{{path: "/w/-x", kind: FileDeleted}}},
		{"cd sub && rm a", []change{{path: "/w/sub/a", kind: FileDeleted}}},
		{"(cd sub; ls); rm a", []change{{path: "/w/a", kind: FileDeleted}}},
		{"cd $X && rm a", nil},
		{"rm *.txt", nil},
		{`rm "$X"`, nil},
		{"rm a; ls", nil},
		{"rm a || true", nil},
		{"echo x > out.txt", []change{{path: "/w/out.txt", kind: FileWritten}}},
		{"echo x >> /etc/hosts", []change{{path: "/etc/hosts", kind: FileWritten}}},
		{"ls > /dev/null", nil},
		{"ls 2> err", nil},
		{"cat > a.go <<'EOF'\nrm b\nEOF", []change{{path: "/w/a.go", kind: FileWritten}}},
		{"> empty", []change{{path: "/w/empty", kind: FileWritten}}},
		{"mv a b", []change{{path: "/w/a", kind: FileDeleted}}},
		{"mv -n a b", nil},
		{"git rm a.txt", []change{{path: "/w/a.txt", kind: FileDeleted}}},
		{"git rm --cached a.txt", nil},
		{"git -C x rm a.txt", nil},
		{"ls | tee log", []change{{path: "/w/log", kind: FileWritten}}},
		{"echo rm a", nil},
		{"echo 'x > y'", nil},
		{"rm ~/a", nil},
	} {
		got := shellChanges(parseLine(tt.line, "/w", new(0)))
		if diff := gocmp.Diff(tt.want, got, gocmp.AllowUnexported(change{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.line, diff)
		}
		if got := shellChanges(parseLine(tt.line, "/w", new(1))); len(got) > 0 {
			t.Errorf("%q failed and still is said to have changed %v", tt.line, got)
		}
	}
}

func TestGitRefs(t *testing.T) {
	const report = "[main 1a2b3c4] Add it\n 1 file changed\n"
	commit := GitRef{Kind: "commit", Action: "created", Name: "main", Hash: "1a2b3c4", Title: "Add it"}
	for _, tt := range []struct {
		line, text string
		want       []GitRef
	}{
		{"git commit -m 'Add it'", report, []GitRef{commit}},
		{"git add . && git -c user.name=x commit -am 'Add it'; git log", report, []GitRef{commit}},
		{"git commit -qm x", "", []GitRef{{Kind: "commit", Action: "created"}}},
		{"git commit -qm x; true", "", nil},
		{"git commit -qm x && cat log", report, []GitRef{{Kind: "commit", Action: "created"}}},
		{"git commit -m x && cat log", report + report, []GitRef{{Kind: "commit", Action: "created"}}},
		{"git commit -m 'Add it' && git commit -qm x", report, []GitRef{commit, {Kind: "commit", Action: "created"}}},
		{"git commit -m q --allow-empty", report, []GitRef{commit}},
		{"git merge topic", report, []GitRef{commit}},
		{"git commit --dry-run", "", nil},
		{"echo '[main 1a2b3c4] Add it'", report, nil},
		{"git log", report, nil},
		{"git commit --amend --no-edit", "[detached HEAD 1a2b3c4] Add it\n", []GitRef{{Kind: "commit", Action: "created", Name: "detached HEAD", Hash: "1a2b3c4", Title: "Add it"}}},
		{"git tag v1.0", "", []GitRef{{Kind: "tag", Action: "created", Name: "v1.0"}}},
		{"git tag -a v1 -m 'the first'", "", []GitRef{{Kind: "tag", Action: "created", Name: "v1"}}},
		{"git tag -d v1", "", []GitRef{{Kind: "tag", Action: "deleted", Name: "v1"}}},
		{"git tag", "v1", nil},
		{"git tag -l 'v*'", "v1", nil},
		{"git tag $V", "", nil},
		{"git checkout -b feat", "", []GitRef{{Kind: "branch", Action: "created", Name: "feat"}}},
		{"git checkout main", "", nil},
		{"git switch -c feat main", "", []GitRef{{Kind: "branch", Action: "created", Name: "feat"}}},
		{"git switch main", "", []GitRef{{Kind: "branch", Action: "switched", Name: "main"}}},
		{"git branch feat", "", []GitRef{{Kind: "branch", Action: "created", Name: "feat"}}},
		{"git branch", "", nil},
		{"git branch -a", "", nil},
		{"git branch -D feat", "", []GitRef{{Kind: "branch", Action: "deleted", Name: "feat"}}},
		{"git worktree add -b feat ../x", "", []GitRef{{Kind: "branch", Action: "created", Name: "feat"}}},
		{"git tag v1 || true", "", nil},
	} {
		got := gitRefs(parseLine(tt.line, "", new(0)), output{text: tt.text})
		if diff := gocmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.line, diff)
		}
	}
}
