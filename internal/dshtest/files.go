package dshtest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// fileArgs are the arguments of the write and edit tools.
type fileArgs struct {
	Path    string  `json:"file_path"`
	Content *string `json:"content"`
	Old     string  `json:"old_string"`
	New     string  `json:"new_string"`
}

// fileResult is what write answers; the last %s is Created or Updated.
const fileResult = "<path>%s</path>\n<type>file</type>\n<content>\n%s file\n</content>"

// fileFailed is the result of a file operation that the file system refused.
func fileFailed(code, format string, args ...any) result {
	return failedCall(fmt.Sprintf(format, args...), "FsError", code)
}

// writeFile pretends to create or replace a file. Files are what the session's log says of them.
func (c *toolCall) writeFile() result {
	var args fileArgs
	if r, ok := c.read(&args, "file_path", "content"); !ok {
		return r
	}
	path, text, there := c.file(args.Path)
	verb, diffs := "Created", []object{}
	if there {
		verb = "Updated"
		if text != *args.Content {
			diffs = []object{diff(args.Path, text, *args.Content)}
		}
	}
	shown := diffs
	if len(shown) == 0 {
		shown = []object{{"path": args.Path, "oldText": nil, "newText": *args.Content}}
	}
	return result{text: fmt.Sprintf(fileResult, path, verb), meta: object{"diffs": diffs},
		view: object{"card": "diff", "title": "Write " + args.Path, "diffs": shown}}
}

// editFile pretends to replace a text in a file.
func (c *toolCall) editFile() result {
	var args fileArgs
	if r, ok := c.read(&args, "file_path", "old_string", "new_string"); !ok {
		return r
	}
	path, text, there := c.file(args.Path)
	switch {
	case args.Old == args.New:
		return failedCall("old_string and new_string must differ", "", "")
	case !there:
		return fileFailed("FS_NOT_OBSERVED", "edit requires reading %s first — read the file, then retry", quote(path))
	case !strings.Contains(text, args.Old):
		return fileFailed("FS_EDIT_NOT_FOUND", "old_string was not found in %s", quote(path))
	}
	diffs := []object{diff(args.Path, args.Old, args.New)}
	return result{text: "The file " + path + " has been updated successfully.", meta: object{"diffs": diffs},
		view: object{"card": "diff", "title": "Edit " + args.Path, "diffs": diffs}}
}

func diff(path, before, after string) object {
	return object{"path": path, "oldText": strings.TrimSuffix(before, "\n"), "newText": strings.TrimSuffix(after, "\n")}
}

// file is a file as the calls of write and edit in the session's log have left it.
func (c *toolCall) file(name string) (path, text string, there bool) {
	absolute := func(name string) string {
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.t.s.cwd, name)
		}
		return filepath.Clean(name)
	}
	path = absolute(name)
	c.t.locked(func() {
		for _, r := range c.t.s.records {
			if r.kind != eventToolCall || r.seq >= c.seq {
				continue
			}
			var call struct{ Name, Arguments string }
			var args fileArgs
			if json.Unmarshal(r.data, &call) != nil || json.Unmarshal([]byte(call.Arguments), &args) != nil || absolute(args.Path) != path {
				continue
			}
			switch {
			case call.Name == "write" && args.Content != nil:
				text, there = *args.Content, true
			case call.Name == "edit" && there:
				text = strings.Replace(text, args.Old, args.New, 1)
			}
		}
	})
	return path, text, there
}

// todo is one entry of the list of todo_write.
type todo struct {
	Content string `json:"content"`
	Status  string `json:"status"`
}

// writeTodos replaces the list of what is to be done.
func (c *toolCall) writeTodos() (result, ending) {
	var args struct {
		Todos []todo `json:"todos"`
	}
	if r, ok := c.read(&args, "todos"); !ok {
		return r, goesOn
	}
	count := map[string]int{}
	for i, t := range args.Todos {
		if t.Status != "pending" && t.Status != "in_progress" && t.Status != "completed" {
			return invalidArguments(fmt.Sprintf(`"todos[%d].status" must be one of ["pending","in_progress","completed"]`, i)), goesOn
		}
		count[t.Status]++
	}
	if !c.t.locked(func() { c.t.h.emit(c.t.s, "todo/write", object{"todos": args.Todos}) }) {
		return result{}, vanished
	}
	return result{text: fmt.Sprintf("Updated todo list: %d pending, %d in progress, %d completed.",
		count["pending"], count["in_progress"], count["completed"])}, goesOn
}
