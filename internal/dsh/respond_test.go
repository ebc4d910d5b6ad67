package dsh

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnswersOnTheWire(t *testing.T) {
	tests := map[string]struct {
		answer Answer
		want   string
	}{
		"a question": {
			Answer{Questions: []QuestionAnswer{{ID: "a", Selected: []string{"red"}}, {ID: "b", Custom: "free"}}},
			`{"ok":true,"value":{"sessionId":"s-1","answer":{"answers":[{"id":"a","selected":["red"]},` +
				`{"id":"b","selected":[],"custom":"free"}]}}}`,
		},
		"allow":   {Answer{Approval: &ApprovalAnswer{"a-1", true}}, `{"ok":true,"value":{"sessionId":"s-1","approvalId":"a-1","outcome":"allowed-once"}}`},
		"reject":  {Answer{Approval: &ApprovalAnswer{"a-1", false}}, `{"ok":true,"value":{"sessionId":"s-1","approvalId":"a-1","outcome":"rejected"}}`},
		"dismiss": {Answer{Cancel: true}, `{"ok":false,"error":{"code":"cancelled","message":"dismissed","details":{}}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.answer.RPCID, test.answer.SessionID = "r-1", "s-1"
			c := clientOf(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				got := readRequest(t, r)
				if r.URL.Path != "/api/respond" || got.Type != "client-response" || got.RPCID != "r-1" {
					t.Errorf("%s: %+v", r.URL, got)
				}
				if diff := cmp.Diff(anyOf(t, []byte(test.want)), anyOf(t, got.Result)); diff != "" {
					t.Error(diff)
				}
				page("application/json", `{"accepted":true,"new":1}`)(w, r)
			})
			if receipt, err := c.Respond(t.Context(), test.answer); err != nil || !receipt.Accepted {
				t.Error(receipt, err)
			}
		})
	}
}

// The caller's slice is not touched when an empty list is put in for null.
func TestAnswersAreNotChanged(t *testing.T) {
	c := clientOf(t, Options{}, page("application/json", `{"accepted":true}`))
	answers := []QuestionAnswer{{ID: "a"}}
	if _, err := c.Respond(t.Context(), Answer{RPCID: "r-1", Questions: answers}); err != nil || answers[0].Selected != nil {
		t.Error(answers, err)
	}
}

func TestAmbiguousAnswersAreNotSent(t *testing.T) {
	allow := &ApprovalAnswer{"a-1", true}
	questions := []QuestionAnswer{{ID: "a"}}
	c := clientAt(t, closedAddress(t), Options{})
	for _, answer := range []Answer{
		{},
		{RPCID: "r-1"},
		{Cancel: true},
		{RPCID: "r-1", Questions: []QuestionAnswer{}},
		{RPCID: "r-1", Questions: questions, Approval: allow},
		{RPCID: "r-1", Questions: questions, Cancel: true},
		{RPCID: "r-1", Approval: allow, Cancel: true},
	} {
		_, err := c.Respond(t.Context(), answer)
		if KindOf(err) != NotSent || strings.Contains(err.Error(), "cannot reach") {
			t.Errorf("%+v: %v", answer, err)
		}
	}
}

func TestReceipts(t *testing.T) {
	tests := map[string]struct {
		answer http.HandlerFunc
		want   Receipt
		kind   Kind
	}{
		"gone":         {page("application/json", `{"accepted":false,"reason":"not-pending"}`), Receipt{Reason: "not-pending"}, 0},
		"bad":          {page("application/json", `{"accepted":false,"reason":"bad-response"}`), Receipt{Reason: "bad-response"}, 0},
		"no reason":    {page("application/json", `{"accepted":false}`), Receipt{}, Malformed},
		"no verdict":   {page("application/json", `{}`), Receipt{}, Malformed},
		"another type": {page("application/json", `{"accepted":"true"}`), Receipt{}, Malformed},
		"broken":       {page("application/json", `{"accepted":`), Receipt{}, Malformed},
		"unknown path": {status(404), Receipt{}, Incompatible},
		"crash":        {status(500), Receipt{}, OutcomeUnknown},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := clientOf(t, Options{}, test.answer)
			got, err := c.Respond(t.Context(), Answer{RPCID: "r-1", Cancel: true})
			if got != test.want || KindOf(err) != test.kind {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// Allowing is said in one place only: the place that writes an ApprovalAnswer whose Allow is set.
func TestAllowingIsSaidOnce(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(text, "allowed") {
					places = append(places, set.Position(lit.Pos()).String()+" "+text)
				}
			}
			return true
		})
	}
	if len(places) != 1 || !strings.HasPrefix(places[0], "respond.go:") || !strings.HasSuffix(places[0], " allowed-once") {
		t.Errorf("allowing is said at %q", places)
	}
}
