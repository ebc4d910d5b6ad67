package ledger

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// stringFields lists every string that a value of the type can hold, by its name in JSON, with a function that puts
// one there.
func stringFields(t reflect.Type, name string, reach func(reflect.Value) reflect.Value) map[string]func(reflect.Value, string) {
	fields := map[string]func(reflect.Value, string){}
	switch t.Kind() {
	case reflect.String:
		fields[name] = func(v reflect.Value, s string) { reach(v).SetString(s) }
	case reflect.Pointer:
		return stringFields(t.Elem(), name, func(v reflect.Value) reflect.Value {
			p := reach(v)
			if p.IsNil() {
				p.Set(reflect.New(t.Elem()))
			}
			return p.Elem()
		})
	case reflect.Slice:
		return stringFields(t.Elem(), name, func(v reflect.Value) reflect.Value {
			list := reach(v)
			if list.Len() < 2 {
				list.Set(reflect.MakeSlice(t, 2, 2))
			}
			return list.Index(1)
		})
	case reflect.Map: // of lists, by strings
		fields[name] = func(v reflect.Value, s string) {
			m := reach(v)
			m.Set(reflect.MakeMap(t))
			m.SetMapIndex(reflect.ValueOf(s), reflect.Zero(t.Elem()))
		}
		elements := stringFields(t.Elem(), name, func(v reflect.Value) reflect.Value {
			m, list := reach(v), reflect.New(t.Elem()).Elem()
			list.Set(reflect.MakeSlice(t.Elem(), 2, 2))
			m.Set(reflect.MakeMap(t))
			m.SetMapIndex(reflect.ValueOf("key"), list)
			return list
		})
		for k, set := range elements {
			fields[k] = set
		}
	case reflect.Interface, reflect.Array:
		panic("a record has a field of a kind that this test does not look into: " + name)
	case reflect.Struct:
		for i := range t.NumField() {
			tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			full := strings.TrimPrefix(name+"."+tag, ".")
			for k, set := range stringFields(t.Field(i).Type, full, func(v reflect.Value) reflect.Value { return reach(v).Field(i) }) {
				fields[k] = set
			}
		}
	}
	return fields
}

// The files hold no content of a conversation. A sentence in any field whatever, one that is added later included, is
// refused before anything is written.
func TestNoFieldTakesASentence(t *testing.T) {
	fields := stringFields(reflect.TypeFor[Record](), "", func(v reflect.Value) reflect.Value { return v })
	if len(fields) < 19 {
		t.Fatalf("only %d fields were found", len(fields))
	}
	f := newFolder(t)
	l := f.open()
	appendAll(t, l, events(root, 0, 4)...)
	before, state := f.content(), stateOf(t, l)
	for name, set := range fields {
		for _, sentence := range []string{"please delete it", "Löschen", "a\nb", "two\x00", strings.Repeat("x", 129), "-x", `{"a":1}`} {
			t.Run(fmt.Sprintf("%s %.10q", name, sentence), func(t *testing.T) {
				e := other(TypeStreamError, Coordination{})
				set(reflect.ValueOf(&e.Record).Elem(), sentence)
				_, err := l.Append(t.Context(), []Entry{other(TypeStreamError, Coordination{}), e})
				if err == nil {
					t.Fatal("it was taken")
				}
				if !strings.Contains(err.Error(), name+" is not") {
					t.Errorf("the error does not name the field: %v", err)
				}
				if strings.Contains(err.Error(), sentence) {
					t.Errorf("the error carries the text: %v", err)
				}
			})
		}
	}
	if diff := cmp.Diff(before, f.content()); diff != "" {
		t.Errorf("something was written: %s", diff)
	}
	if diff := jsonDiff(state, stateOf(t, l)); diff != "" {
		t.Errorf("the state moved: %s", diff)
	}
}

func TestRecordsOfAnotherFormAreRefused(t *testing.T) {
	seq := func(n int64) *int64 { return &n }
	for name, tt := range map[string]struct {
		record Record
		want   string
	}{
		"no type":                {Record{}, "type is missing"},
		"an event without a seq": {Record{Type: TypeEvent, SourceSessionID: root}, "sourceSeq belongs to"},
		"a seq without an event": {Record{Type: TypeQueue, SourceSeq: seq(1)}, "sourceSeq belongs to"},
		"a negative seq":         {Record{Type: TypeEvent, SourceSessionID: root, SourceSeq: seq(-1)}, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newFolder(t).open()
			if _, err := l.Append(t.Context(), []Entry{{Record: tt.record}}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("append: %v, want %q", err, tt.want)
			}
		})
	}
}

func TestIsWord(t *testing.T) {
	for word, want := range map[string]bool{
		"": true, "a": true, "turn/start": true, "dsh_0123": true, "6ba7b810-9dad-11d1-80b4-00c04fd430c8": true, "a.b:c@d+e": true,
		strings.Repeat("x", 128): true, strings.Repeat("x", 129): false,
		" ": false, "a b": false, "/a": false, "_a": false, "a\t": false, "a\"": false, "a\\": false, "ä": false, "a,b": false, "a=b": false, "a?": false,
	} {
		if got := IsWord(word); got != want {
			t.Errorf("%q: %v", word, got)
		}
	}
}

func TestRecordsCarryTheTimeOfTheirBatch(t *testing.T) {
	f := newFolder(t)
	now := time.UnixMilli(5000)
	l := Open(Options{Dir: f.dir, TaskID: task, Root: root, Lock: f.lock, Disk: f.disk, Now: func() time.Time { return now }})
	defer l.Close()
	appendAll(t, l, events(root, 0, 1)...)
	now = now.Add(time.Second)
	appendAll(t, l, events(root, 2, 2)...)
	var got []int64
	for _, r := range read(t, l, 0, 10) {
		got = append(got, r.ObservedAt)
	}
	if diff := cmp.Diff([]int64{5000, 5000, 6000}, got); diff != "" {
		t.Error(diff)
	}
	if err := l.View(func(s *State) {
		if s.UpdatedAt != 6000 {
			t.Errorf("updated at %d", s.UpdatedAt)
		}
	}); err != nil {
		t.Error(err)
	}
}
