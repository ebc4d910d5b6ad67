package dshtest

import (
	"path/filepath"
	"slices"
	"strings"
)

// methods are the unary calls. Each runs with the host's lock held. A method whose answer is long returns a
// func() json.RawMessage, which is called without the lock.
var methods = map[string]func(*Host, request) (any, *failure){
	"host.describe":        describe,
	"agentPreset.list":     presetList,
	"credentials.describe": credentials,
	"workspace.list":       workspaces,
	"llm.providers":        providers,
	"llm.models":           catalog,
	"session.list":         list,
	"session.create":       create,
	"session.models":       models,
	"session.rename":       rename,
	"session.prompt":       prompt,
	"session.cancel":       cancelTurn,
	"session.updateQueue":  updateQueue,
	"session.history":      history,
	"session.fork":         fork,
	"subagent.list":        subagentList,
	"subagent.history":     subagentHistory,
	"subagent.prompt":      subagentPrompt,
	"subagent.interrupt":   subagentInterrupt,
	"goal.create":          createGoal,
	"goal.edit":            editGoal,
	"goal.pause":           moveGoal("pause", goalPaused, goalActive),
	"goal.resume":          moveGoal("resume", goalActive, goalActive, goalPaused, goalBlocked),
	"goal.complete":        moveGoal("complete", goalComplete, goalActive, goalPaused, goalBlocked),
	"goal.clear":           clearGoal,
}

func describe(h *Host, _ request) (any, *failure) {
	return object{
		"version": "0.0.1", "cwd": h.opts.Cwd, "provider": provider, "model": model,
		"attachedSessions": len(h.life.attached), "home": h.opts.Cwd, "canOpenPath": false,
	}, nil
}

func presetList(h *Host, _ request) (any, *failure) {
	return object{"presets": h.presets, "authorable": true, "hasDocument": false}, nil
}

func credentials(h *Host, req request) (any, *failure) {
	refs := req.payload.list("refs")
	if f := req.invalid(); f != nil {
		return nil, f
	}
	views := object{}
	for _, raw := range refs {
		name := strings.Trim(string(raw), `"`)
		views[name] = object{"configured": false, "writable": true}
		if name == key && h.routable {
			views[name] = object{"configured": true, "source": "env", "writable": false}
		}
	}
	return object{"credentials": views}, nil
}

func providers(*Host, request) (any, *failure) {
	view := func(id string, active bool) object {
		return object{"provider": id, "displayName": id, "settingsNs": "llm-" + id, "settingsPath": []any{}, "active": active, "declared": false}
	}
	return object{"providers": []any{view(provider, true), view("another", false)}}, nil
}

func catalog(*Host, request) (any, *failure) {
	return object{"groups": []any{object{"id": provider, "name": provider, "models": []any{object{"id": model, "name": model}}}}, "failures": []any{}}, nil
}

func workspaces(*Host, request) (any, *failure) {
	return object{"items": []any{}, "archivedSessionIds": []any{}}, nil
}

// list shows every session, the newest first.
func list(h *Host, _ request) (any, *failure) {
	type row struct {
		item      object
		updatedAt int64
	}
	rows := make([]row, 0, len(h.order))
	for _, s := range h.order {
		item := object{"sessionId": s.id, "running": s.turn != nil, "blank": s.blank(), "cwd": s.cwd}
		if s.parent != "" {
			item["parentSessionId"] = s.parent
		}
		if s.subagent() {
			item["origin"] = s.origin
		}
		if s.preset != "" {
			item["agentPreset"] = s.preset
		}
		updated := s.updatedAt()
		if s.attached {
			item["projections"] = s.projections(s.lastSeq(), s.title, s.titled, s.goal)
		} else {
			// A cold session is known only as it was when a turn of it last ended.
			updated = s.createdAt
			if c := s.saved; c != nil {
				updated = c.updatedAt
				item["projections"] = s.projections(c.lastSeq, c.title, c.titled, c.goal)
			}
		}
		item["updatedAt"] = updated
		rows = append(rows, row{item, updated})
	}
	// The newest first; of two of the same millisecond, the one created later.
	slices.Reverse(rows)
	slices.SortStableFunc(rows, func(a, b row) int { return int(b.updatedAt - a.updatedAt) })
	items := make([]object, 0, len(rows))
	for _, r := range rows {
		items = append(items, r.item)
	}
	return object{"items": items}, nil
}

// projections is the host's view of a session as of an event.
func (s *session) projections(asOf int64, title string, titled bool, goal any) object {
	prompted := object{"blank": s.blank(), "lastPromptAt": nil}
	if s.promptedAt != 0 {
		prompted["lastPromptAt"] = s.promptedAt
	}
	values := object{"title": nil, "goal": goal, "sessionListMetadata": prompted}
	if titled {
		values["title"] = title
	}
	return object{"asOfSeq": asOf, "values": values}
}

// find finds a session by the member sessionId of a payload that is otherwise valid.
func (h *Host) find(req *request) (*session, *failure) {
	id := req.payload.name("sessionId", required)
	if f := req.invalid(); f != nil {
		return nil, f
	}
	s := h.sessions[id]
	if s == nil {
		return nil, sessionNotFound(id, "")
	}
	return s, nil
}

// create makes a session, or finds the one that was asked for before.
func create(h *Host, req request) (any, *failure) {
	id := req.payload.name("sessionId", optional)
	cwd := req.payload.name("cwd", optional)
	preset := req.payload.name("agentPreset", optional)
	if f := req.invalid(); f != nil {
		return nil, f
	}
	if cwd == "" {
		cwd = h.opts.Cwd
	}
	if s := h.sessions[id]; s != nil {
		if f := s.conflict(cwd, preset); f != nil {
			return nil, f
		}
		h.attach(s)
		return created(s), nil
	}
	if id == "" {
		id = "session-" + newID()
	}
	chosen, f := h.choosePreset(preset)
	if f != nil {
		return nil, f
	}
	if !filepath.IsAbs(cwd) {
		return nil, &failure{
			Code:    "internal",
			Message: "failed to create session " + quote(id) + ": Error: session header cwd must be an absolute path, got " + quote(cwd),
			Details: object{},
		}
	}
	s := h.newSession(id, cwd, chosen)
	h.emit(s, "permission/preset", object{"preset": sandboxWrite})
	h.emit(s, "sandbox/mode", object{"mode": sandboxWrite})
	h.emit(s, "approval/policy", object{"policy": "ask"})
	h.attach(s)
	return created(s), nil
}

func created(s *session) object {
	value := object{"sessionId": s.id}
	if s.preset != "" {
		value["agentPreset"] = s.preset
	}
	return value
}

// conflict says why an existing session cannot be the one that is asked for.
func (s *session) conflict(cwd, preset string) *failure {
	if preset != "" && preset != s.preset {
		return &failure{
			Code: "agent-preset-conflict",
			Message: "session " + quote(s.id) + " already runs agent preset " + quote(s.preset) + "; requested " + quote(preset) +
				". A session's preset is fixed at creation.",
			Details: object{"sessionId": s.id, "requestedPreset": preset, "existingPreset": s.preset},
		}
	}
	if cwd != s.cwd {
		return &failure{
			Code:    "session-conflict",
			Message: "session " + quote(s.id) + " already exists with cwd " + quote(s.cwd) + "; requested " + quote(cwd),
			Details: object{"sessionId": s.id, "requestedCwd": cwd, "existingCwd": s.cwd},
		}
	}
	return nil
}

// choosePreset finds the preset of a new session: the one asked for, or the default.
func (h *Host) choosePreset(id string) (string, *failure) {
	available := make([]string, 0, len(h.presets))
	for _, p := range h.presets {
		available = append(available, p.ID)
		if p.ID != id && (id != "" || !p.IsDefault) {
			continue
		}
		if p.Broken != "" {
			return "", &failure{
				Code: "agent-preset-invalid", Message: "agent-presets: preset " + quote(p.ID) + " cannot be used: " + p.Broken,
				Details: object{"agentPreset": p.ID, "reason": p.Broken},
			}
		}
		return p.ID, nil
	}
	if id == "" {
		return "", nil
	}
	return "", &failure{
		Code:    "agent-preset-not-found",
		Message: "agent-presets: preset " + quote(id) + " not found (available: " + strings.Join(available, ", ") + ")",
		Details: object{"agentPreset": id, "available": available},
	}
}

func models(h *Host, req request) (any, *failure) {
	s, f := h.find(&req)
	if f != nil {
		return nil, f
	}
	h.attach(s)
	current := object{"provider": provider, "model": model}
	if s.header {
		current["reasoningEffort"] = "high"
	}
	efforts := []object{}
	for _, name := range []string{"Off", "Low", "High", "Max"} {
		efforts = append(efforts, object{"id": strings.ToLower(name), "name": name})
	}
	known := []object{}
	for _, name := range []string{"DeepSeek-V4-Flash", "DeepSeek-V4-Pro"} {
		known = append(known, object{
			"id": strings.ToLower(name), "name": name, "reasoning": object{"efforts": efforts, "defaultEffort": "high"},
		})
	}
	return object{
		"current": current, "routable": h.routable,
		"groups":   []object{{"id": provider, "name": "DeepSeek", "models": known}},
		"failures": []any{},
	}, nil
}

func rename(h *Host, req request) (any, *failure) {
	title := req.payload.text("title", required)
	s, f := h.find(&req)
	if f != nil {
		return nil, f
	}
	if title = shorten(title, 0, 80); title == "" {
		return nil, &failure{
			Code: "title-invalid", Message: "session title must contain visible characters", Details: object{"sessionId": s.id},
		}
	}
	h.attach(s)
	s.titleOf = 0
	return object{"title": title, "seq": h.setTitle(s, title, []int64{}, object{"kind": "user"})}, nil
}
