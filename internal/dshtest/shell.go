package dshtest

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// output is what a pretended command leaves.
type output struct {
	text string
	exit int
}

// shell pretends to run a command line. It knows echo, sleep, true, false, exit and touch, joined by ; and &&,
// ./pytest, a test run in which one of three tests fails, and "until [ -e FILE ]; do ...; done", which waits for the
// file; any other command succeeds silently. It reports false when ctx ended first.
//
// The only trace it can leave on the machine is an empty file of touch below Options.AllowWrites.
func (h *Host) shell(ctx context.Context, cwd, line string) (output, bool) {
	var out output
	for _, command := range commands(line) {
		if command.onlyIfOK && out.exit != 0 {
			continue
		}
		out.exit = 0
		words := command.words
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "echo":
			out.text += strings.Join(words[1:], " ") + "\n"
		case "false":
			out.exit = 1
		case "./pytest":
			out.text += "==== 1 failed, 2 passed in 0.01s ====\n"
			out.exit = 1
		case "exit":
			out.exit, _ = strconv.Atoi(strings.Join(words[1:], "")) // not a number exits 0
			return out, ctx.Err() == nil
		case "sleep":
			// Anything but a number sleeps not at all, a number of any size until ctx ends at the latest.
			seconds, _ := strconv.ParseFloat(strings.Join(words[1:], ""), 64)
			const day = 86400
			if !h.pace(ctx, asleep, time.Duration(min(seconds, day)*float64(time.Second))) {
				return out, false
			}
		case "until":
			if len(words) == 5 && !appears(ctx, cwd, words[3]) {
				return out, false
			}
		case "touch":
			for _, path := range words[1:] {
				h.touch(cwd, path)
			}
		}
	}
	return out, ctx.Err() == nil
}

// appears waits until there is a file, and reports false when ctx ended first.
func appears(ctx context.Context, cwd, path string) bool {
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	for {
		if _, err := os.Stat(path); err == nil {
			return true
		}
		if !pause(ctx, 20*time.Millisecond) {
			return false
		}
	}
}

// touch makes an empty file where Options.AllowWrites allows it, and nowhere else.
func (h *Host) touch(cwd, path string) {
	if h.opts.AllowWrites == "" {
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	relative, err := filepath.Rel(h.opts.AllowWrites, path)
	if err != nil {
		return
	}
	// The root refuses every path out of it, also one through a symbolic link.
	root, err := os.OpenRoot(h.opts.AllowWrites)
	if err != nil {
		return
	}
	defer root.Close()
	if f, err := root.OpenFile(relative, os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		f.Close()
	}
}

// command is one command of a line.
type command struct {
	words    []string
	onlyIfOK bool // it comes behind &&
}

// commands splits a line at ; and && and into words, minding quotes.
func commands(line string) []command {
	all := []command{{}}
	var word strings.Builder
	inWord, quoted := false, rune(0)
	flush := func() {
		if inWord {
			last := &all[len(all)-1]
			last.words = append(last.words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for i, c := range line {
		switch {
		case quoted != 0 && c == quoted:
			quoted = 0
		case quoted != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quoted, inWord = c, true
		case c == ';':
			flush()
			all = append(all, command{})
		case c == '&' && strings.HasPrefix(line[i:], "&&"):
			flush()
			all = append(all, command{onlyIfOK: true})
		case c == '&':
			flush()
		case c == ' ' || c == '\t' || c == '\n':
			flush()
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	flush()
	return all
}
