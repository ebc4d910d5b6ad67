package dsh

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// BenchmarkSessions decodes a list of 1,000 sessions.
func BenchmarkSessions(b *testing.B) {
	var list strings.Builder
	list.WriteString(`{"items":[`)
	for n := range 1000 {
		if n > 0 {
			list.WriteByte(',')
		}
		fmt.Fprintf(&list, `{"sessionId":"session-%032d","updatedAt":1796059200453,"running":false,"blank":false,"cwd":"/home/dev/work",`+
			`"agentPreset":"standard","projections":{"asOfSeq":%d,"values":{"title":"Task number %d","todos":[],"tokenUsage":{"inputTokens":10,"outputTokens":5}}}}`, n, n, n)
	}
	list.WriteString(`]}`)
	text := list.String()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if sessions, bad := decodeSessions(gjson.Parse(text)); bad != "" || len(sessions) != 1000 {
			b.Fatal(bad, len(sessions))
		}
	}
}
