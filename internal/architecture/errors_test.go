package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Every code of a failure is led to by a test that asks for it by name.
func TestEveryCodeIsReached(t *testing.T) {
	source, err := os.ReadFile("../../bridge/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\t(Code\w+)\s+Code = "(\w+)"$`).FindAllSubmatch(source, -1)
	if len(codes) < 30 {
		t.Fatalf("%d codes were found in bridge/errors.go", len(codes))
	}
	var tests []byte
	for _, dir := range []string{"bridge", "internal/scenario", "internal/stdio"} {
		files, err := filepath.Glob("../../" + dir + "/*_test.go")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tests = append(tests, data...)
		}
	}
	for _, code := range codes {
		asked := regexp.MustCompile(`(?:fails|mustFail|failed|fail)\((?:r\.t, |t, )?(?:` + string(code[1]) + `\b|"` + string(code[2]) + `")|code != "` + string(code[2]) + `"|code == "` + string(code[2]) +
			`"|\b` + string(code[1]) + `\b|"error\.code": "` + string(code[2]) + `"`)
		if !asked.Match(tests) {
			t.Errorf("no test leads to %s", code[2])
		}
	}
}
