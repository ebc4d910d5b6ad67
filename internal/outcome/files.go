package outcome

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Changes of a file.
const (
	FileCreated = "created"
	FileChanged = "changed"
	FileWritten = "written" // created or changed: a redirection or a copy does not tell which
	FileDeleted = "deleted"
	FileGone    = "gone" // rm -f or rm -r went through: it is not there, whether it was is not told
)

// File is what became of one file.
type File struct {
	// Ref points at the result of the call that changed it last.
	Ref
	Path   string // relative to the session's directory where it lies below it
	Change string // a File… constant
	Tool   string // that changed it last
	Times  int    // how often it was changed
}

// nullDevices are written to without any file being changed.
var nullDevices = []string{"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"}

var fileResult = lazily(`^<path>([^\n]+)</path>\n<type>file</type>\n<content>\n(Created|Updated) file\n</content>$`)

var editResult = lazily(`^The file ([^\n]+) has been updated successfully\.`)

// change is one change of one file. given is the path as the call has it.
type change struct {
	path, given, kind string
}

// toolChange reads what a file tool reports of a call that succeeded. It goes by the report, since only it tells whether
// the file was there before.
func toolChange(tool, arguments, text string) (change, bool) {
	given := gjson.Get(arguments, "file_path").Str
	switch tool {
	case "write":
		if m := fileResult.FindStringSubmatch(text); m != nil {
			kind := FileChanged
			if m[2] == "Created" {
				kind = FileCreated
			}
			return change{path: m[1], given: given, kind: kind}, true
		}
	case "edit":
		if m := editResult.FindStringSubmatch(text); m != nil {
			return change{path: m[1], given: given, kind: FileChanged}, true
		}
	}
	return change{}, false
}

// shellChanges reads from a command line which files its commands changed for certain.
func shellChanges(all []simple) (list []change) {
	put := func(c simple, p, kind string) {
		if full := join(c.dir, p); p != "" && full != unknownDir && !slices.Contains(nullDevices, full) {
			list = append(list, change{path: full, kind: kind})
		}
	}
	for _, c := range all {
		if !c.ok {
			continue
		}
		for _, p := range c.writes {
			put(c, p, FileWritten)
		}
		if len(c.args) == 0 {
			continue
		}
		args, literal, name := c.args[1:], c.literal[1:], c.args[0]
		if name == "git" {
			verb, rest, lit := gitVerb(c)
			if (verb != "rm" && verb != "mv") || slices.Contains(c.args, "-C") {
				continue
			}
			name, args, literal = verb, rest, lit
			if hasFlag(args, "--cached", "-n", "--dry-run") {
				continue
			}
		}
		switch name {
		case "rm", "unlink":
			kind := FileDeleted
			if slices.ContainsFunc(args, func(a string) bool {
				return a == "--force" || a == "--recursive" || a == "--ignore-unmatch" || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.ContainsAny(a, "frR")
			}) {
				kind = FileGone
			}
			for _, p := range operands(args, literal) {
				put(c, p, kind)
			}
		case "mv":
			// The target can be a directory, and so names no file.
			if names := operands(args, literal, "-t", "--target-directory", "-S"); len(names) == 2 && !hasFlag(args, "-n", "--no-clobber", "-u", "--update", "-i", "-t", "--target-directory") {
				put(c, names[0], FileDeleted)
			}
		case "tee":
			for _, p := range operands(args, literal) {
				put(c, p, FileWritten)
			}
		}
	}
	return list
}

// directory finds the directory of a session in what its file tools report: they are given relative paths and report
// absolute ones. Empty when no call tells.
func directory(c change) string {
	given := strings.TrimPrefix(c.given, "./")
	if given == "" || strings.HasPrefix(given, "/") || strings.HasPrefix(given, "~") || strings.Contains(given, "..") {
		return ""
	}
	if dir, ok := strings.CutSuffix(c.path, "/"+given); ok && strings.HasPrefix(dir, "/") {
		return dir
	}
	return ""
}

// merge folds the changes of a turn into one entry a file, in the order of their last change.
func merge(dir string, changes []File) []File {
	var list []File
	for _, f := range changes {
		f.Path = below(dir, f.Path)
		i := slices.IndexFunc(list, func(old File) bool { return old.Path == f.Path })
		f.Times = 1
		if i >= 0 {
			old := list[i]
			f.Times += old.Times
			f.Change = after(old.Change, f.Change)
			list = slices.Delete(list, i, i+1)
		}
		list = append(list, f)
	}
	return list
}

// after is what two changes of a file come to.
func after(old, next string) string {
	gone := old == FileDeleted || old == FileGone
	switch next {
	case FileChanged:
		if !gone {
			return old // still created, or written
		}
	case FileWritten:
		if old == FileCreated || old == FileChanged {
			return old
		}
	case FileCreated:
		if old == FileDeleted {
			return FileChanged // it was there before the turn
		}
	}
	return next
}

// below makes a path relative to a directory that it lies in.
func below(dir, p string) string {
	if rest, ok := strings.CutPrefix(p, dir+"/"); ok && dir != "" {
		return rest
	}
	return p
}
