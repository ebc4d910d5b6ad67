package dsh

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// longHistory is the answer to session.history with that many events of about size bytes each.
func longHistory(events, size int) string {
	var b strings.Builder
	b.WriteString(`{"type":"server-response","rpcId":"r","result":{"ok":true,"value":{"events":[`)
	text := strings.Repeat(`a \"quoted\" word, `, size/20)
	for seq := range events {
		if seq > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"event":{"type":"tool/result","seq":%d,"time":1796059200453,"data":{"turn":1,"step":%d,`+
			`"message":{"source":{"kind":"tool","callId":"call_%d"},"content":[{"type":"tool-result","toolCallId":"call_%d",`+
			`"content":[{"type":"text","text":"%s"}],"isError":false}],"role":"user","id":"m-%d"}},"surfaceOp":"append"},`+
			`"view":{"for":"result","view":{"card":"terminal","exitCode":0}}}`, seq, seq, seq, seq, text, seq)
	}
	b.WriteString(`],"hasMore":false}}}`)
	return b.String()
}

// BenchmarkHistory decodes 30,000 events (about 30 MB), and beside it what one pass of encoding/json over the same
// bytes costs.
func BenchmarkHistory(b *testing.B) {
	answer := longHistory(30_000, 640)
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(answer)))
		b.ReportAllocs()
		for b.Loop() {
			value, err := openEnvelope("session.history", "r", answer)
			if err != nil {
				b.Fatal(err)
			}
			page, bad := decodeHistory(value)
			if bad != "" || len(page.Events) != 30_000 {
				b.Fatal(bad, len(page.Events))
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		data := []byte(answer)
		b.SetBytes(int64(len(answer)))
		b.ReportAllocs()
		for b.Loop() {
			var v struct {
				Result struct {
					Value struct {
						Events []struct{ Event Event }
					}
				}
			}
			if err := json.Unmarshal(data, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("valid", func(b *testing.B) {
		b.SetBytes(int64(len(answer)))
		for b.Loop() {
			gjson.Valid(answer)
		}
	})
	b.Run("nesting", func(b *testing.B) {
		b.SetBytes(int64(len(answer)))
		for b.Loop() {
			nesting(answer)
		}
	})
}

func BenchmarkFrame(b *testing.B) {
	frames := map[string]string{
		"chunk": `{"type":"server-request","rpcId":"2f9a1c7d-f6bc-4d97-84d1-d39f027e1868","method":"session/event","payload":{"type":"session/event","sessionId":"session-bcea6cb2-cd13-4a4a-adaa-56c18d724022","event":{"type":"assistant/chunk","seq":14,"time":1796059200417,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"word "}}}}}`,
		"event": `{"type":"server-request","rpcId":"2f9a1c7d-f6bc-4d97-84d1-d39f027e1868","method":"session/event","payload":{"type":"session/event","sessionId":"session-bcea6cb2-cd13-4a4a-adaa-56c18d724022","event":{"type":"turn/start","seq":4,"time":1796059200372,"data":{"turn":1}}}}`,
	}
	frames["large"] = strings.Replace(frames["event"], `{"turn":1}`, `{"turn":1,"text":"`+strings.Repeat("a word ", 1<<17)+`"}`, 1)
	for _, name := range []string{"chunk", "event", "large"} {
		b.Run(name, func(b *testing.B) {
			data := []byte(frames[name])
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, bad := decodeFrame(data); bad != "" {
					b.Fatal(bad)
				}
			}
		})
	}
}
