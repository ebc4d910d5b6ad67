package mux

import "dsh-agentlink/internal/dsh"

// Doing is what the root's agent was last seen at, by the stream of this connection alone. It lives in memory: the name
// of a tool is content.
type Doing struct {
	Step int    // of the turn; 0 when none was seen
	Tool string // the tool call that runs; empty for none
}

// maxTool bounds the name of a tool, which a model may make up.
const maxTool = 64

// see follows what the root's agent does. t.mu is held.
func (t *Task) see(ev dsh.Event, session string) {
	if session != t.Root {
		return
	}
	switch ev.Type {
	case "turn/start", "turn/end":
		t.doing = Doing{}
	case "step/start":
		t.doing = Doing{Step: dsh.TurnOf(ev).Step}
	case "tool/call":
		name := []rune(dsh.ToolCallOf(ev).Name)
		t.doing.Tool = string(name[:min(len(name), maxTool)])
	case "tool/result":
		t.doing.Tool = ""
	}
}

// Doing is what the root's agent was last seen at.
func (t *Task) Doing() Doing {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doing
}
