package flow

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "draw docs/flow.svg anew")

// The picture in the repository is that of its text.
func TestPictureAgreesWithItsText(t *testing.T) {
	text, err := os.ReadFile("../../docs/flow.txt")
	if err != nil {
		t.Fatal(err)
	}
	picture, err := Parse(string(text))
	if err != nil {
		t.Fatalf("docs/flow.txt: %v", err)
	}
	drawn := picture.SVG()
	if *update {
		if err := os.WriteFile("../../docs/flow.svg", []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile("../../docs/flow.svg")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(drawn, string(kept)); diff != "" {
		t.Errorf("docs/flow.svg is not what docs/flow.txt says (-text +picture); go test ./internal/flow -update draws it:\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	got, err := Parse("# a comment\n\n  box a  A & B |  does this\nbox b B | that\na -> b   one thing\nb -> a another\n")
	want := Picture{Boxes: []Box{{Title: "A & B", Does: "does this", ToRight: "one thing", FromRight: "another"}, {Title: "B", Does: "that"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestWhatIsRefused(t *testing.T) {
	const two = "box a A | x\nbox b B | x\nbox c C | x\n"
	for text, want := range map[string]string{
		"":                         "no box",
		"box a A":                  "line 1: box \"a\" needs",
		"box a | x":                "line 1: box \"a\" needs",
		"boxes":                    "line 1: \"boxes\" is neither",
		two + "box a A | x":        "line 4: there is a box \"a\" already",
		two + "a -> b":             "line 4: \"a -> b\" is neither",
		two + "a => b x":           "line 4: \"a => b x\" is neither",
		two + "a -> z x":           "no box \"z\"",
		two + "a -> c x":           "not side by side",
		two + "a -> a x":           "not side by side",
		two + "a -> b x\na -> b y": "line 5: there is an arrow",
		two + "box d D | x\nbox e E | x\nbox f F | x\nbox g G | x": "one more than the 6",
		"box a A | a\tb": "cannot be drawn",
		"box a A | \x00": "cannot be drawn",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Whatever parses draws a well-formed document with every word of it.
func FuzzParse(f *testing.F) {
	f.Add("box a A | x\nbox b <B> | y & z\na -> b one\nb -> a two\n")
	f.Add("box a A")
	f.Add("a -> b c")
	f.Fuzz(func(t *testing.T, text string) {
		picture, err := Parse(text)
		if err != nil {
			return
		}
		var said strings.Builder
		decoder := xml.NewDecoder(strings.NewReader(picture.SVG()))
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, picture.SVG())
			}
			if data, ok := token.(xml.CharData); ok {
				said.Write(data)
				said.WriteByte(' ')
			}
		}
		for _, box := range picture.Boxes {
			for _, word := range strings.Fields(box.Title + " " + box.Does + " " + box.ToRight + " " + box.FromRight) {
				if !strings.Contains(said.String(), word) {
					t.Fatalf("%q is not in the picture", word)
				}
			}
		}
	})
}
