package dsh

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOutcomeBodies(t *testing.T) {
	for _, tt := range []struct {
		data string
		want Usage
		ok   bool
	}{
		{`{"usage":{"inputTokens":10,"outputTokens":5,"cacheReadTokens":3,"cacheWriteTokens":2}}`, Usage{10, 5, 3, 2}, true},
		{`{"usage":{"outputTokens":5}}`, Usage{Output: 5}, true},
		{`{"usage":{"inputTokens":-1,"outputTokens":"5"}}`, Usage{}, true},
		{`{"usage":null}`, Usage{}, false},
		{`{"usage":7}`, Usage{}, false},
		{`[]`, Usage{}, false},
		{``, Usage{}, false},
	} {
		if got, ok := UsageOf(Event{Data: json.RawMessage(tt.data)}); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %+v %v", tt.data, got, ok)
		}
	}
	todos := TodosOf(Event{Data: json.RawMessage(`{"todos":[{"content":"one","status":"completed"},7,{"status":"pending"}]}`)})
	if diff := cmp.Diff([]Todo{{"one", "completed"}, {}, {Status: "pending"}}, todos); diff != "" {
		t.Errorf("todos (-want +got):\n%s", diff)
	}
	if got := ToolErrorOf(Event{Data: json.RawMessage(`{"error":{"name":"FsError","code":"FS_NOT_FOUND"}}`)}); got != "FS_NOT_FOUND" {
		t.Errorf("the code is %q", got)
	}
	if got := ToolErrorOf(Event{Data: json.RawMessage(`{"error":"x"}`)}); got != "" {
		t.Errorf("the code is %q", got)
	}
}
