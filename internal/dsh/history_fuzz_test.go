package dsh

import (
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"
)

// A page that is taken is a run of events without a hole, each of which can be read. Seeds are in testdata.
func FuzzHistoryPage(f *testing.F) {
	for _, line := range readCapture(f, "testdata/captures/subagent.jsonl") {
		if line.Method == "session.history" || line.Method == "subagent.history" {
			f.Add(gjson.GetBytes(line.Response, "result.value").Raw)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !validJSON(text) {
			return // no answer gets this far
		}
		page, bad := decodeHistory(gjson.Parse(text))
		if bad != "" {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("took %q", text)
		}
		checkEvents(t, nil, page.Events...)
		for i, e := range page.Events {
			if e.Seq != page.Events[0].Seq+int64(i) {
				t.Fatalf("seq %d at %d", e.Seq, i)
			}
		}
	})
}
