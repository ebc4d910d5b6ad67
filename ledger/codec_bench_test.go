package ledger

import (
	"bytes"
	"encoding/json"
	"testing"
)

// BenchmarkCodec writes and reads one record, and beside it what encoding/json takes for the same.
func BenchmarkCodec(b *testing.B) {
	record := events(root, 7, 7)[0].Record
	record.Cursor, record.ObservedAt = 8, 1_796_059_200_453
	line, err := json.Marshal(&record)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			if buf, err = record.encode(buf[:0]); err != nil {
				b.Fatal(err)
			}
		}
		if !bytes.Equal(bytes.TrimSpace(buf), line) {
			b.Fatalf("%s", buf)
		}
	})
	b.Run("encode/encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(&record); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		var d decoder
		var r Record
		for b.Loop() {
			r = Record{}
			if err := d.decode(line, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode/encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		var r Record
		for b.Loop() {
			r = Record{}
			if err := json.Unmarshal(line, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
}
