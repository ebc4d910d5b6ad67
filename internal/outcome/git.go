package outcome

import (
	"slices"
	"strings"
)

// GitRef is a commit, a tag or a branch that a command made or went to.
type GitRef struct {
	Ref
	Kind   string // "commit", "tag" or "branch"
	Action string // "created", "deleted", or "switched" (to a branch)
	Name   string // of a tag or a branch; of a commit, the branch it went to
	Hash   string // of a commit, as git shortened it
	Title  string // first line of a commit's message
}

// committed is the line by which git reports a commit.
var committed = lazily(`(?m)^\[(\S+|detached HEAD)(?: \(root-commit\))? ([0-9a-f]{4,64})\] (.*)$`)

// gitRefs reads what git commands of a line made. Reports of commits in the output count only beside a command that makes
// some.
func gitRefs(all []simple, o output) (refs []GitRef) {
	// done are the commits that a success proves, told those that git reports; several counts no more.
	several, done, told := false, 0, 0
	for _, c := range all {
		if len(c.args) == 0 || c.args[0] != "git" {
			continue
		}
		verb, args, literal := gitVerb(c)
		switch verb {
		case "commit":
			if hasFlag(args, "--dry-run") {
				continue
			}
			if c.ok {
				done++
			}
			if !isQuiet(args) {
				told++
			}
		case "cherry-pick", "revert", "merge", "am":
			several = true
		case "tag":
			refs = append(refs, tagOf(c, args, literal)...)
		case "branch", "checkout", "switch", "worktree":
			refs = append(refs, branchOf(c, verb, args, literal)...)
		}
	}
	var reported [][]string
	if several || told > 0 {
		reported = committed.FindAllStringSubmatch(o.text, -1)
	}
	if !several && len(reported) > told {
		reported = nil // something else printed such lines, too
	}
	for _, m := range reported {
		refs = append(refs, GitRef{Kind: "commit", Action: "created", Name: m[1], Hash: m[2], Title: strings.TrimSpace(m[3])})
	}
	// Of those that git does not report, because it was told to be quiet or its output was filtered, a success proves
	// that they are there.
	for range done - len(reported) {
		refs = append(refs, GitRef{Kind: "commit", Action: "created"})
	}
	return refs
}

// isQuiet reports whether git was told to print nothing.
func isQuiet(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		if a == "--quiet" {
			return true
		}
		letters, _, _ := strings.Cut(a, "m") // behind -m stands the message
		return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(letters, "q")
	})
}

// gitVerb is git's subcommand and what follows it, git's own options left out.
func gitVerb(c simple) (verb string, args []string, literal []bool) {
	for i := 1; i < len(c.args); i++ {
		switch a := c.args[i]; {
		case slices.Contains([]string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"}, a):
			i++
		case strings.HasPrefix(a, "-"):
		case c.literal[i]:
			return a, c.args[i+1:], c.literal[i+1:]
		default:
			return "", nil, nil
		}
	}
	return "", nil, nil
}

func tagOf(c simple, args []string, literal []bool) []GitRef {
	if !c.ok || hasFlag(args, "-l", "--list", "-v", "--verify", "-n", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--sort", "--format") {
		return nil
	}
	names := operands(args, literal, "-m", "--message", "-F", "--file", "-u", "--local-user", "--cleanup")
	switch {
	case len(names) == 0:
		return nil
	case hasFlag(args, "-d", "--delete"):
		return named("tag", "deleted", names)
	}
	return named("tag", "created", names[:1])
}

func branchOf(c simple, verb string, args []string, literal []bool) []GitRef {
	if !c.ok {
		return nil
	}
	names := operands(args, literal)
	if len(names) == 0 {
		return nil
	}
	switch verb {
	case "branch":
		switch {
		case hasFlag(args, "-d", "-D", "--delete"):
			return named("branch", "deleted", names)
		case slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "-") && a != "-f" && a != "--force" && a != "-q" && a != "--quiet" && a != "-t" && a != "--track" && a != "--no-track"
		}):
			return nil
		}
		return named("branch", "created", names[:1])
	case "checkout":
		if hasFlag(args, "-b", "-B", "--orphan") {
			return named("branch", "created", names[:1])
		}
		return nil // a file or a branch, which the line does not tell
	case "switch":
		switch {
		case hasFlag(args, "-c", "-C", "--create", "--force-create", "--orphan"):
			return named("branch", "created", names[:1])
		case hasFlag(args, "-d", "--detach"):
			return nil
		}
		return named("branch", "switched", names[:1])
	}
	if names[0] == "add" && hasFlag(args, "-b", "-B") {
		for i, a := range args {
			if (a == "-b" || a == "-B") && i+1 < len(args) && literal[i+1] {
				return named("branch", "created", args[i+1:i+2])
			}
		}
	}
	return nil
}

// operands are the words that are no options; nil when one of them is not literal, since the shell can make any number
// of words of it. Options named in valued take the next word.
func operands(args []string, literal []bool, valued ...string) (list []string) {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case !literal[i]:
			if i > 0 && slices.Contains(valued, args[i-1]) {
				continue
			}
			return nil
		case slices.Contains(valued, a):
			i++
		case a == "--":
			for j := i + 1; j < len(args); j++ {
				if !literal[j] {
					return nil
				}
				list = append(list, args[j])
			}
			return list
		case strings.HasPrefix(a, "-") && a != "-":
		default:
			list = append(list, a)
		}
	}
	return list
}

func named(kind, action string, names []string) (refs []GitRef) {
	for _, n := range names {
		refs = append(refs, GitRef{Kind: kind, Action: action, Name: n})
	}
	return refs
}
