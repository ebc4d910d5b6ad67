package bridge

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"dsh-agentlink/internal/dsh"
)

type sessionsArgs struct {
	Cwd   string `json:"cwd"`
	Query string `json:"query"`
	Limit int    `json:"limit"`
}

type sessionRow struct {
	SessionID string `json:"sessionId"`
	TaskID    string `json:"taskId,omitempty"`
	Title     string `json:"title,omitempty"`
	Cwd       string `json:"cwd,omitempty"`
	Running   bool   `json:"running,omitempty"`
	ForkOf    string `json:"forkOf,omitempty"`
	UpdatedAt string `json:"updatedAt"`
}

type sessionsAnswer struct {
	Sessions []sessionRow `json:"sessions"`
	// More counts the sessions that the limit left out.
	More int `json:"more,omitempty"`
}

const (
	defaultSessions = 20
	maxSessions     = 200
)

// sessions lists the host's root sessions, latest first, and which of them are tasks.
func (b *Bridge) sessions(ctx context.Context, raw json.RawMessage) (any, error) {
	args := sessionsArgs{Limit: defaultSessions}
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := checkRange("limit", args.Limit, 1, maxSessions); err != nil {
		return nil, err
	}
	match, err := args.matcher()
	if err != nil {
		return nil, err
	}
	if err := b.mux.Connected(ctx); err != nil {
		return nil, err
	}
	list, err := b.mux.List(ctx)
	if err != nil {
		return nil, err
	}
	all, _, err := b.tasks.List()
	if err != nil {
		return nil, err
	}
	taskOf := make(map[string]string, len(all))
	for _, t := range all {
		taskOf[t.SessionID] = t.TaskID
	}
	answer := sessionsAnswer{Sessions: []sessionRow{}}
	for _, s := range list {
		if s.Origin == dsh.OriginSubagent || s.Blank || !match(s) {
			continue
		}
		if len(answer.Sessions) == args.Limit {
			answer.More++
			continue
		}
		answer.Sessions = append(answer.Sessions, sessionRow{SessionID: s.ID, TaskID: taskOf[s.ID], Title: s.Title, Cwd: s.Cwd, Running: s.Running,
			ForkOf: s.ParentSessionID, UpdatedAt: stamp(s.UpdatedAt)})
	}
	return answer, nil
}

// matcher chooses sessions: those in a directory or below it, and those with a text in title or directory.
func (a *sessionsArgs) matcher() (func(dsh.Session) bool, error) {
	dir := ""
	if a.Cwd != "" {
		if !filepath.IsAbs(a.Cwd) {
			return nil, invalid("cwd", a.Cwd, "it is no absolute path", "Give the full path of a directory.")
		}
		dir = filepath.Clean(a.Cwd)
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			dir = resolved // as a task names it; the host may have a directory that is not on this machine
		}
	}
	query := strings.ToLower(a.Query)
	return func(s dsh.Session) bool {
		in := dir == "" || s.Cwd == dir || strings.HasPrefix(s.Cwd, strings.TrimSuffix(dir, "/")+"/")
		return in && (strings.Contains(strings.ToLower(s.Title), query) || strings.Contains(strings.ToLower(s.Cwd), query))
	}, nil
}
