package outcome

import (
	"strconv"
	"strings"
)

// console is what a shell tool's result says of a command, taken apart.
type console struct {
	text      string // what the command printed
	exit      *int
	signal    string
	timedOut  bool
	truncated bool // the host left out a part of the output
}

// What the host's bash tool puts behind the output of a command, one a line and in this order.
var (
	spilled   = lazily(`\n\n\(Omitted \d+ bytes\. Full formatted result stored at: [^\n]*\)$`)
	exited    = lazily(`\n\[exit code: (\d{1,10})\]$`)
	killed    = lazily(`\n\[killed by signal: ([A-Z0-9]+)\]$`)
	timedOut  = lazily(`\n\[timed out after \d+ms\]$`)
	sandboxed = lazily(`\n\[sandbox: [^\n]*\]$`)
	shortened = lazily(`\n\[output truncated; full output: [^\n]*\]$`)
)

const noOutput = "(no output)"

// readConsole takes apart the text of a result that is no error. The host writes an exit status only when it is not 0,
// so a text without a mark is that of a command that succeeded.
func readConsole(text string) console {
	var c console
	text = "\n" + text // a mark can be all there is
	cut := func(mark pattern) []string {
		m := mark.FindStringSubmatch(text)
		if m != nil {
			text = text[:len(text)-len(m[0])]
		}
		return m
	}
	c.truncated = cut(spilled) != nil
	// A text that is nothing but the mark is output: the host would have written (no output) above it.
	alone := strings.Count(text, "\n") < 2
	if m := cut(exited); m != nil && !alone {
		if n, err := strconv.Atoi(m[1]); err == nil {
			c.exit = &n
		}
	} else if m != nil {
		text += m[0]
	} else if m := cut(killed); m != nil && !alone {
		c.signal = m[1]
	} else if m != nil {
		text += m[0]
	}
	if c.signal != "" || c.exit != nil {
		c.timedOut = cut(timedOut) != nil
		for cut(sandboxed) != nil {
		}
	}
	c.truncated = cut(shortened) != nil || c.truncated
	if c.exit == nil && c.signal == "" {
		c.exit = new(0)
	}
	c.text = strings.TrimPrefix(text, "\n")
	if c.text == noOutput {
		c.text = ""
	}
	return c
}

// jobReport is what the host says of a background job: by job_output, or in the notice of its end.
type jobReport struct {
	text   string // new output
	status string // "running", "completed", "killed", or as sent
	exit   *int
	signal string
	cut    bool
}

var (
	jobStatus  = lazily(`\n?\[status: ([a-z_-]+)(?:, exit code: (\d{1,10}))?(?:, signal: ([A-Z0-9]+))?[^\n\]]*\]$`)
	jobNotice  = lazily(`^background job (\S+) \((?s:.*)\) finished (\[status: [^\]]*\])\. Read its output with job_output\.$`)
	jobStarted = lazily(`^started background job (\S+)$`)
)

const noNewOutput = "(no new output)"

// readJob takes apart what job_output answers; false when it is something else.
func readJob(text string) (jobReport, bool) {
	var r jobReport
	if m := spilled.FindString(text); m != "" {
		text, r.cut = strings.TrimSuffix(text, m), true
	}
	m := jobStatus.FindStringSubmatchIndex(text)
	if m == nil {
		return r, false
	}
	group := func(i int) string {
		if m[2*i] < 0 {
			return ""
		}
		return text[m[2*i]:m[2*i+1]]
	}
	r.status, r.signal = group(1), group(3)
	if n, err := strconv.Atoi(group(2)); err == nil {
		r.exit = &n
	}
	r.text = text[:m[0]]
	if strings.Contains(r.text, "[output truncated; full output: ") {
		r.cut = true
	}
	if r.text == noNewOutput {
		r.text = ""
	}
	return r, true
}

// readNotice takes apart the message by which a finished job makes itself known.
func readNotice(text string) (id string, r jobReport, ok bool) {
	m := jobNotice.FindStringSubmatch(text)
	if m == nil {
		return "", r, false
	}
	r, ok = readJob(m[2])
	return m[1], r, ok
}
