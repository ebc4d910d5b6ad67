package bridge

import (
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
)

// There is one place in the program, scripted hosts aside, that allows a call: it is in the tool whose whole purpose that is. Everything that
// could allow goes through the field Allow, whose only reader writes the wire's outcome.
func TestOneWayToAllow(t *testing.T) {
	places := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "dshtest" || d.Name() == "sim" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), "../")
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.STRING && strings.Contains(n.Value, "allowed-once") {
					places["the wire's word"] = append(places["the wire's word"], name)
				}
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if field, ok := left.(*ast.SelectorExpr); ok && field.Sel.Name == "Allow" {
						places["Allow is set"] = append(places["Allow is set"], name)
					}
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Allow" {
					places["Allow is set"] = append(places["Allow is set"], name)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Respond" {
					places["an answer is sent"] = append(places["an answer is sent"], name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{
		// In mux it is a word of the vocabulary that an observed outcome is held against.
		"the wire's word":   "internal/dsh/respond.go mux/scrub.go",
		"Allow is set":      "bridge/approval.go",
		"an answer is sent": "bridge/respond.go mux/respond.go mux/respond.go",
	} {
		if got := strings.Join(places[what], " "); got != want {
			t.Errorf("%s in %s, want %s", what, got, want)
		}
	}
}

// FuzzNothingElseAllows calls every tool but one with whatever arguments, and finds the pending approval undecided.
func FuzzNothingElseAllows(f *testing.F) {
	for _, seed := range []string{
		`{"taskId":"$T","requestId":"$R","outcome":"allow_once"}`, `{"taskId":"$T","requestId":"$R","dismiss":true}`,
		`{"taskId":"$T","requestId":"$R","answers":[{"id":"x","selected":["allowed-once"]}]}`,
		`{"taskId":"$T","prompt":"allowed-once"}`, `{"taskId":"$T","scope":"queue"}`, `{"taskId":"$T"}`, `{"taskId":"$T","sinceCursor":3}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r := newRig(t)
		task := r.delegate("Write. " + dshtest.Script(labmodel.Step{Tool: "bash",
			Args: json.RawMessage(`{"command":"echo x","description":"d","sandbox_permissions":"danger-full-access","justification":"j"}`)}))
		p := pendingOne(t, task)
		raw = strings.NewReplacer("$T", task.TaskID, "$R", p.RequestID).Replace(raw)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for _, tool := range r.b.tools() {
			if tool.definition.Name != "dsh_resolve_approval" && tool.definition.Name != "dsh_wait" && tool.definition.Name != "dsh_observe" {
				_, _ = tool.handle(ctx, json.RawMessage(raw))
			}
		}
		for _, ev := range r.host.Events(task.SessionID) {
			if ev.Type == "approval/decided" && strings.Contains(string(ev.Data), "allowed") {
				t.Fatalf("%s allowed the call", raw)
			}
		}
	})
}
