package ledger

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// checkCodec holds a record's line against encoding/json, both ways.
func checkCodec(t interface {
	Fatalf(string, ...any)
	Helper()
}, r *Record) {
	t.Helper()
	want, err := json.Marshal(r)
	if err != nil {
		t.Fatalf("%v", err)
	}
	line, err := r.encode([]byte("before"))
	if err != nil || string(line) != "before"+string(want)+"\n" {
		t.Fatalf("encoded %s, %v\nwant    %s", line, err, want)
	}
	var slow, quick Record
	if err := json.Unmarshal(want, &slow); err != nil {
		t.Fatalf("%v", err)
	}
	if (&decoder{}).quick(want, &quick) {
		if diff := cmp.Diff(slow, quick); diff != "" {
			t.Fatalf("%s decodes to\n%s", want, diff)
		}
	}
}

// fill sets every field that a value can hold, however deep, but the one that is left out.
func fill(v reflect.Value, n *int, leave int) {
	*n++
	if *n == leave {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("word-" + string(rune('a'+*n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(1000 + *n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n, leave)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n, leave)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n, leave)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		element := reflect.New(v.Type().Elem()).Elem()
		fill(element, n, leave)
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), element)
	}
}

// A field that somebody adds to a record and forgets in the codec fails here.
func TestEveryFieldIsWrittenAndRead(t *testing.T) {
	var whole Record
	fields := 0
	fill(reflect.ValueOf(&whole).Elem(), &fields, 0)
	checkCodec(t, &whole)
	line, _ := whole.encode(nil)
	var back Record
	if !(&decoder{}).quick(bytes.TrimSuffix(line, []byte("\n")), &back) {
		t.Fatalf("not quick: %s", line)
	}
	if diff := cmp.Diff(whole, back); diff != "" {
		t.Fatal(diff)
	}
	for leave := 2; leave <= fields; leave++ {
		var r Record
		n := 0
		fill(reflect.ValueOf(&r).Elem(), &n, leave)
		checkCodec(t, &r)
	}
}

func TestCodecProperty(t *testing.T) {
	text := rapid.OneOf(rapid.StringMatching(`[a-z][a-z0-9./:-]{0,20}`), rapid.String(), rapid.Just(""))
	rapid.Check(t, func(t *rapid.T) {
		r := Record{
			Cursor: rapid.Int64().Draw(t, "cursor"), ObservedAt: rapid.Int64().Draw(t, "observedAt"),
			SourceSessionID: text.Draw(t, "session"), ParentSessionID: text.Draw(t, "parent"), Origin: text.Draw(t, "origin"),
			Type: Type(text.Draw(t, "type")),
			Coordination: Coordination{Event: text.Draw(t, "event"), Time: rapid.Int64().Draw(t, "time"), Turn: rapid.Int().Draw(t, "turn"),
				Text: rapid.Bool().Draw(t, "text"), RequestID: text.Draw(t, "request"), From: rapid.Int64().Draw(t, "from")},
		}
		if rapid.Bool().Draw(t, "event") {
			r.SourceSeq = new(rapid.Int64().Draw(t, "seq"))
		}
		if rapid.Bool().Draw(t, "inbox") {
			r.Coordination.Inbox = &InboxChange{Target: text.Draw(t, "target"), Inserted: []InboxItem{{ID: text.Draw(t, "item")}}}
		}
		checkCodec(t, &r)
	})
}

// Whatever the quick way takes, encoding/json takes as well, and makes the same of it.
func FuzzQuickDecode(f *testing.F) {
	var whole Record
	n := 0
	fill(reflect.ValueOf(&whole).Elem(), &n, 0)
	line, _ := whole.encode(nil)
	f.Add(bytes.TrimSuffix(line, []byte("\n")))
	f.Add([]byte(`{"cursor":1,"observedAt":2,"sourceSessionId":"s","sourceSeq":0,"origin":"root","type":"session/event","coordination":{"event":"turn/start","turn":1}}`))
	f.Add([]byte(`{"cursor":01,"observedAt":2,"origin":"root","type":"x","coordination":{"event":"","event":"a"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var slow, quick Record
		if !(&decoder{}).quick(line, &quick) {
			return
		}
		if err := json.Unmarshal(line, &slow); err != nil {
			t.Fatalf("%q was taken, but %v", line, err)
		}
		if diff := cmp.Diff(slow, quick); diff != "" {
			t.Fatalf("%q:\n%s", line, diff)
		}
	})
}
