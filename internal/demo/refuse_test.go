package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dsh-agentlink/internal/dshtest"
)

// A model of its own mind gets no answer and no permission from the demo.
func TestNothingIsAnsweredForAPerson(t *testing.T) {
	dir, err := prepare()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	host := dshtest.New(dshtest.Options{Cwd: dir, AllowWrites: dir})
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	s := &stage{ctx: t.Context(), opts: Options{Executable: self, Log: &log}, page: page{out: &out}, dir: dir, hostURL: host.URL()}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.bridge.end(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.delegate("read-only", "look", firstTurn("look")); err != nil {
		t.Fatal(err)
	}
	if err := s.ended(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, publishedFolder, chosenName)); err == nil {
		t.Error("a call was allowed")
	}
	if got := out.String(); strings.Count(got, "dsh_answer_question dismiss") != 1 || strings.Count(got, "dsh_resolve_approval reject") != 2 {
		t.Errorf("%s", got)
	}
}
