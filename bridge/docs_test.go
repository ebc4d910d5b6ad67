package bridge

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// codes reads the codes of failures from the source, so that none can be forgotten.
func codes(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, value)
		return true
	})
	slices.Sort(list)
	return list
}

func TestErrorsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllSubmatch(doc, -1) {
		listed = append(listed, string(row[1]))
	}
	slices.Sort(listed)
	if diff := cmp.Diff(codes(t), listed); diff != "" {
		t.Errorf("docs/errors.md and errors.go differ (-code +doc):\n%s", diff)
	}
}

func TestToolsAreDocumented(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range new(Bridge).tools() {
		if name := tool.definition.Name; !regexp.MustCompile("`" + name + "`").Match(readme) {
			t.Errorf("README.md does not mention %s", name)
		}
	}
}
