package outcome

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const spill = "\n\n(Omitted 14296 bytes. Full formatted result stored at: /tmp/spill/bash.txt. Use read with offset/limit, or grep this path to search within it.)"

func TestConsole(t *testing.T) {
	for _, tt := range []struct {
		text string
		want console
	}{
		{"ok\n", console{text: "ok\n", exit: new(0)}},
		{"(no output)", console{exit: new(0)}},
		{"(no output)\n[exit code: 1]", console{exit: new(1)}},
		{"hi\n[stderr]\nerr\n[exit code: 3]", console{text: "hi\n[stderr]\nerr", exit: new(3)}},
		{"x\n\n[exit code: 2]", console{text: "x\n", exit: new(2)}},
		{"(no output)\n[timed out after 500ms]\n[killed by signal: SIGTERM]", console{signal: "SIGTERM", timedOut: true}},
		{"a\n[killed by signal: SIGKILL]", console{text: "a", signal: "SIGKILL"}},
		{"[stderr]\nno\n[sandbox: file access denied under workspace-write mode]\n[sandbox: escalation available]\n[exit code: 1]", console{text: "[stderr]\nno", exit: new(1)}},
		{"9\n10\n\n[output truncated; full output: /tmp/x.log]" + spill, console{text: "9\n10\n", exit: new(0), truncated: true}},
		{"9\n10\n\n[output truncated; full output: /tmp/x.log]\n[exit code: 2]" + spill, console{text: "9\n10\n", exit: new(2), truncated: true}},
		{"", console{exit: new(0)}},
		// What a command printed itself.
		{"[exit code: 7]", console{text: "[exit code: 7]", exit: new(0)}},
		{"[killed by signal: SIGTERM]", console{text: "[killed by signal: SIGTERM]", exit: new(0)}},
		{"a\n[exit code: 7]\n", console{text: "a\n[exit code: 7]\n", exit: new(0)}},
		{"a\n[exit code: 7]\nb", console{text: "a\n[exit code: 7]\nb", exit: new(0)}},
		{"a\n[exit code: 7] b", console{text: "a\n[exit code: 7] b", exit: new(0)}},
		{"a\n[timed out after 5ms]", console{text: "a\n[timed out after 5ms]", exit: new(0)}},
	} {
		if diff := cmp.Diff(tt.want, readConsole(tt.text), cmp.AllowUnexported(console{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.text, diff)
		}
	}
}

func TestJobReports(t *testing.T) {
	for _, tt := range []struct {
		text string
		want jobReport
		ok   bool
	}{
		{"bgout\n[status: completed, exit code: 4]", jobReport{text: "bgout", status: "completed", exit: new(4)}, true},
		{"(no new output)\n[status: running]", jobReport{status: "running"}, true},
		{"(no new output)\n[status: killed, signal: SIGTERM]", jobReport{status: "killed", signal: "SIGTERM"}, true},
		{"[status: running]", jobReport{status: "running"}, true},
		{"Error: unknown job bash-9", jobReport{}, false},
		{"[status: running]\nmore", jobReport{}, false},
	} {
		got, ok := readJob(tt.text)
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(jobReport{})); diff != "" || ok != tt.ok {
			t.Errorf("%q: %v (-want +got):\n%s", tt.text, ok, diff)
		}
	}
	id, got, ok := readNotice("background job bash-1 (bash: echo a\nexit 4) finished [status: completed, exit code: 4]. Read its output with job_output.")
	if diff := cmp.Diff(jobReport{status: "completed", exit: new(4)}, got, cmp.AllowUnexported(jobReport{})); diff != "" || id != "bash-1" || !ok {
		t.Errorf("the notice of %q: %v (-want +got):\n%s", id, ok, diff)
	}
	if _, _, ok := readNotice("background job"); ok {
		t.Error("half a notice is taken for one")
	}
}

func FuzzConsole(f *testing.F) {
	for _, text := range []string{"", "\n", "[exit code: 1]", "a\n[exit code: 99999999999]", "x" + spill, "(no output)\n[timed out after 5ms]\n[killed by signal: X]", "[status: a, exit code: 1, signal: B]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c := readConsole(text); (c.exit == nil) == (c.signal == "") || len(c.text) > len(text) {
			t.Errorf("%q gives %+v", text, c)
		}
		if r, ok := readJob(text); ok && (r.status == "" || len(r.text) > len(text)) {
			t.Errorf("%q gives %+v", text, r)
		}
		readNotice(text)
	})
}
