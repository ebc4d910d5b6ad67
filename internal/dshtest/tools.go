package dshtest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// toolCall is one call of a tool by the scripted model.
type toolCall struct {
	t               *turn
	id              string
	name, arguments string
	seq             int64 // of its tool/call event
}

// result is what a tool answers the model.
type result struct {
	text    string
	isError bool
	// errorName and errorCode classify a failure of the call itself, as opposed to one of the tool's work.
	errorName, errorCode string
	view                 object
	meta                 object
}

// failed is the result of a call that went wrong.
func failedCall(text, name, code string) result {
	return result{text: "Error: " + text, isError: true, errorName: name, errorCode: code}
}

// refused is the result of a shell command that was not run.
func refused(text string) result {
	r := failedCall(text, "", "")
	r.view = console(r.text)
	return r
}

// console is the presentation of a text as terminal output.
func console(text string) object {
	return object{"card": "generic", "content": textBlocks("```console\n" + text + "\n```")}
}

// run runs the tool and records its result.
func (c *toolCall) run() ending {
	var r result
	how := goesOn
	switch c.name {
	case "bash":
		r, how = c.bash()
	case "ask_user_question":
		r, how = c.ask()
	case "subagent":
		r, how = c.delegate()
	case "write":
		r = c.writeFile()
	case "edit":
		r = c.editFile()
	case "todo_write":
		r, how = c.writeTodos()
	default:
		r = failedCall("unknown tool "+quote(c.name), "ToolNotFoundError", "UNKNOWN_TOOL")
	}
	if how == vanished || !c.t.locked(func() { c.record(r) }) {
		return vanished
	}
	return how
}

func (c *toolCall) record(r result) {
	data := c.t.at()
	data["message"] = object{
		"source": object{"kind": "tool", "callId": c.id},
		"content": []object{{
			"type": "tool-result", "toolCallId": c.id, "content": textBlocks(r.text), "isError": r.isError,
		}},
		"role": "user", "id": newID(),
	}
	if r.errorName != "" {
		data["error"] = object{"name": r.errorName, "code": r.errorCode}
	}
	if r.meta != nil {
		data["meta"] = r.meta
	}
	var view any
	if r.view != nil {
		view = object{"for": "result", "view": r.view}
	}
	c.t.h.emitMessage(c.t.s, eventToolResult, data, []int64{c.seq}, view)
	c.t.s.conversation.ToolResult(r.text)
}

// read decodes the call's arguments into args. The members named in required have to be there, and be no empty
// strings; what is wrong is a result for the model.
func (c *toolCall) read(args any, required ...string) (result, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(c.arguments), &members) != nil || json.Unmarshal([]byte(c.arguments), args) != nil {
		return invalidArguments("not an object of the expected types"), false
	}
	var missing []string
	for _, name := range required {
		if len(members[name]) == 0 {
			missing = append(missing, "missing required property "+quote(name))
		}
	}
	if len(missing) > 0 {
		return invalidArguments(strings.Join(missing, "; ")), false
	}
	return result{}, true
}

func invalidArguments(what string) result {
	return failedCall("invalid arguments: "+what, "ToolArgsError", "INVALID_ARGS")
}

// view is the presentation of the call, or nil.
func (c *toolCall) view() any {
	var args bashArgs
	if c.name != "bash" {
		return nil
	}
	if _, ok := c.read(&args, "command", "description"); !ok || args.badSandbox() {
		return nil
	}
	card := object{"card": "terminal", "title": args.Command, "description": args.Description}
	if args.Background {
		card = object{
			"card": "generic", "title": args.Command, "kind": "execute", "rawInput": args.Command,
			"content": textBlocks(args.Description),
		}
	}
	return object{"for": "call", "view": card}
}

// bashArgs are the arguments of the bash tool.
type bashArgs struct {
	Command       string `json:"command"`
	Description   string `json:"description"`
	Sandbox       string `json:"sandbox_permissions"`
	Justification string `json:"justification"`
	Background    bool   `json:"run_in_background"`
}

const (
	sandboxWrite = "workspace-write"
	sandboxFull  = "danger-full-access"
)

func (a bashArgs) badSandbox() bool {
	return a.Sandbox != "" && a.Sandbox != sandboxWrite && a.Sandbox != sandboxFull
}

// bash pretends to run a command.
func (c *toolCall) bash() (result, ending) {
	var args bashArgs
	if r, ok := c.read(&args, "command", "description"); !ok {
		return r, goesOn
	}
	switch {
	case args.badSandbox():
		return invalidArguments(`"sandbox_permissions" must be one of ["workspace-write","danger-full-access"]`), goesOn
	case args.Sandbox != "" && args.Justification == "":
		return refused("invalid escalation: sandbox_permissions requires a justification"), goesOn
	case args.Sandbox == sandboxWrite:
		return refused(`sandbox escalation to "workspace-write" is not strictly wider than this call's current "workspace-write" mode`), goesOn
	case args.Sandbox == sandboxFull:
		if r, how, allowed := c.approve(args); !allowed {
			return r, how
		}
	}
	if args.Background {
		return c.startJob(args.Command)
	}
	out, ok := c.t.h.shell(c.t.ctx, c.t.s.cwd, args.Command)
	if !ok {
		r := failedCall("tool call aborted", "AbortError", "ABORTED")
		r.view = console(r.text)
		return r, c.t.stopped()
	}
	text := out.text
	if text == "" {
		text = "(no output)"
	}
	if out.exit == 0 {
		return result{text: text, view: object{"card": "terminal", "output": text, "exitCode": 0}}, goesOn
	}
	text = strings.TrimSuffix(text, "\n")
	return result{
		text: fmt.Sprintf("%s\n[exit code: %d]", text, out.exit),
		view: object{"card": "terminal", "output": text, "exitCode": out.exit},
	}, goesOn
}
