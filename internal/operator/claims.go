package operator

import (
	"context"
	"errors"
	"os"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/tasks"
)

// What the host says of a session.
const (
	SessionThere   = "there"
	SessionGone    = "gone"
	SessionUnknown = "unknown" // the host cannot be asked
)

// Claim is one workspace claim of the home.
type Claim struct {
	TaskID    string      `json:"taskId"`
	SessionID string      `json:"sessionId,omitempty"`
	Cwd       string      `json:"cwd,omitempty"`
	Mode      claims.Mode `json:"mode,omitempty"`
	CreatedAt string      `json:"createdAt,omitempty"`
	// Session is what the host says of the task's session, one of the Session… words.
	Session string `json:"session,omitempty"`
	Running bool   `json:"running,omitempty"` // a turn runs there
	// CwdMissing is set when there is no such folder on this machine.
	CwdMissing bool   `json:"cwdMissing,omitempty"`
	Problem    string `json:"problem,omitempty"`
	Help       string `json:"help,omitempty"`
}

// ClaimsAnswer is what `claims` shows.
type ClaimsAnswer struct {
	Claims []Claim `json:"claims"`
	// HostUnreachable says why nothing is known of the sessions.
	HostUnreachable string `json:"hostUnreachable,omitempty"`
	Problems        int    `json:"problems"`
}

// Claims lists the claims, oldest first, those that cannot be read last.
func (o *Operator) Claims(ctx context.Context) (ClaimsAnswer, error) {
	return o.claimsOn(o.lookAtHost(ctx))
}

func (o *Operator) claimsOn(host hostView) (ClaimsAnswer, error) {
	answer := ClaimsAnswer{Claims: []Claim{}, HostUnreachable: host.describe(o.opts.HostURL)}
	all, err := o.claims.List()
	bad := fileErrors(err)
	if err != nil && len(bad) == 0 {
		return answer, err
	}
	for _, c := range all {
		answer.Claims = append(answer.Claims, o.judgeClaim(c, host))
	}
	for _, e := range bad {
		answer.Claims = append(answer.Claims, Claim{TaskID: e.TaskID, Problem: "its file " + e.Path + " cannot be read: " + e.Err.Error(),
			Help: Program + " claims release " + e.TaskID})
	}
	for _, c := range answer.Claims {
		if c.Problem != "" {
			answer.Problems++
		}
	}
	return answer, nil
}

// fileErrors takes the claims that cannot be read out of a joined error; nil when err is something else.
func fileErrors(err error) []*claims.FileError {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var list []*claims.FileError
	for _, e := range joined.Unwrap() {
		bad, ok := errors.AsType[*claims.FileError](e)
		if !ok {
			return nil
		}
		list = append(list, bad)
	}
	return list
}

func (o *Operator) judgeClaim(c claims.Claim, host hostView) Claim {
	view := Claim{TaskID: c.TaskID, SessionID: c.SessionID, Cwd: c.Cwd, Mode: c.Mode, CreatedAt: stamp(c.CreatedAt), Session: SessionUnknown}
	if info, err := os.Stat(c.Cwd); err != nil || !info.IsDir() {
		view.CwdMissing = true
	}
	release := Program + " claims release " + c.TaskID
	if host.up() {
		row, there := host.sessions[c.SessionID]
		view.Session, view.Running = SessionThere, row.Running
		if !there {
			view.Session = SessionGone
			view.Problem, view.Help = "the host does not know its session, so nothing will end it", release
		}
	}
	if _, err := o.tasks.Load(c.TaskID); errors.Is(err, tasks.ErrNotFound) {
		view.Problem, view.Help = "there is no such task in this home, so nothing will end it", release
	}
	return view
}
