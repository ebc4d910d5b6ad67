package outcome

import (
	"path"
	"slices"
	"strings"
)

// wrapper describes a command that runs another one.
type wrapper struct {
	// valued are its options that take the next word.
	valued []string
	// operands is how many words of its own stand before the other command.
	operands int
	// assigns: NAME=value may stand before the other command.
	assigns bool
	// words are what has to follow the name, for a wrapper with a subcommand.
	words []string
}

var wrappers = map[string][]wrapper{
	"env":       {{valued: []string{"-u", "--unset", "-C", "--chdir"}, assigns: true}},
	"cross-env": {{assigns: true}},
	"timeout":   {{valued: []string{"-k", "-s", "--kill-after", "--signal"}, operands: 1}},
	"gtimeout":  {{valued: []string{"-k", "-s", "--kill-after", "--signal"}, operands: 1}},
	"nice":      {{valued: []string{"-n", "--adjustment"}}},
	"ionice":    {{valued: []string{"-c", "-n", "--class", "--classdata"}}},
	"chrt":      {{operands: 1}},
	"taskset":   {{operands: 1}},
	"stdbuf":    {{valued: []string{"-i", "-o", "-e"}}},
	"sudo":      {{valued: []string{"-u", "-g", "-C", "-D", "--user", "--group", "--chdir"}, assigns: true}},
	"xvfb-run":  {{valued: []string{"-s", "-n", "--server-args", "--server-num"}}},
	"nohup":     {{}}, "setsid": {{}}, "command": {{}}, "builtin": {{}}, "exec": {{}}, "unbuffer": {{}}, "time": {{}},
	"npx":     {{valued: []string{"-p", "--package", "-w", "--workspace"}}},
	"bunx":    {{}},
	"pnpx":    {{}},
	"npm":     {{words: []string{"exec"}}, {words: []string{"x"}}},
	"pnpm":    {{words: []string{"exec"}}, {words: []string{"dlx"}}},
	"yarn":    {{words: []string{"exec"}}, {words: []string{"dlx"}}},
	"bun":     {{words: []string{"x"}}},
	"uv":      {{words: []string{"run"}, valued: []string{"--with", "--extra", "--group", "--python", "-p", "--project", "--directory", "--package", "--env-file", "--with-requirements", "--with-editable", "--index-url", "--only-group", "--no-group"}}},
	"uvx":     {{valued: []string{"--with", "--from", "--python", "-p"}}},
	"poetry":  {{words: []string{"run"}}},
	"pipenv":  {{words: []string{"run"}}},
	"pdm":     {{words: []string{"run"}}},
	"rye":     {{words: []string{"run"}}},
	"hatch":   {{words: []string{"run"}}},
	"pixi":    {{words: []string{"run"}, valued: []string{"-e", "--environment"}}},
	"conda":   {{words: []string{"run"}, valued: []string{"-n", "-p", "--name", "--prefix", "--cwd"}}},
	"mamba":   {{words: []string{"run"}, valued: []string{"-n", "-p", "--name", "--prefix", "--cwd"}}},
	"bundle":  {{words: []string{"exec"}}},
	"direnv":  {{words: []string{"exec"}, operands: 1}},
	"mise":    {{words: []string{"exec"}}},
	"dotenv":  {{words: []string{"run"}, valued: []string{"-f", "-e"}}, {valued: []string{"-f", "-e"}}},
	"c8":      {{valued: []string{"-r", "--reporter"}}},
	"nyc":     {{valued: []string{"--reporter"}}},
	"python":  {{words: []string{"-m", "coverage", "run"}, valued: []string{"--source", "--rcfile"}}},
	"python3": {{words: []string{"-m", "coverage", "run"}, valued: []string{"--source", "--rcfile"}}},
}

var assignment = lazily(`^[A-Za-z_][A-Za-z0-9_]*=`)

// unwrap takes away what merely runs another command, and the folder of the command's name.
func (c *simple) unwrap() {
	for range 8 {
		if len(c.args) == 0 || !c.literal[0] {
			return
		}
		c.args[0] = path.Base(c.args[0])
		if !slices.ContainsFunc(wrappers[c.args[0]], c.strip) {
			return
		}
	}
}

// strip takes one wrapper away; false when it does not fit, or when no command follows.
func (c *simple) strip(w wrapper) bool {
	i := 1 + len(w.words)
	if len(c.args) <= i || !slices.Equal(c.args[1:i], w.words) {
		return false
	}
	operands := w.operands
	for i < len(c.args) {
		a := c.args[i]
		switch {
		case !c.literal[i] && operands == 0:
			return false
		case a == "--":
		case c.args[0] == "command" && (a == "-v" || a == "-V"):
			return false // it only asks where the command is
		case strings.HasPrefix(a, "-") && len(a) > 1:
			if slices.Contains(w.valued, a) {
				i++
			}
		case w.assigns && assignment.MatchString(a):
		case operands > 0:
			operands--
		default:
			c.args, c.literal = c.args[i:], c.literal[i:]
			return true
		}
		i++
	}
	return false
}

// script is the text that a shell or eval was given to run.
func (c *simple) script() (string, bool) {
	switch c.args[0] {
	case "eval":
		for _, literal := range c.literal {
			if !literal {
				return "", false
			}
		}
		return strings.Join(c.args[1:], " "), len(c.args) > 1
	case "bash", "sh", "zsh", "dash", "ksh":
		for i := 1; i < len(c.args); i++ {
			a := c.args[i]
			switch {
			case !strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "+"):
				return "", false
			case !strings.HasPrefix(a, "--") && !strings.Contains(a, "c") && strings.ContainsAny(a[1:], "oO"):
				i++
			case !strings.HasPrefix(a, "--") && strings.Contains(a, "c"):
				for j := i + 1; j < len(c.args); j++ {
					if strings.HasPrefix(c.args[j], "-") {
						continue
					}
					return c.args[j], c.literal[j]
				}
				return "", false
			}
		}
	}
	return "", false
}
