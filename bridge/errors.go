package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"dsh-agentlink/claims"
	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// Code names a failure of a tool. Codes are part of the contract with callers; docs/errors.md lists them.
type Code string

// The codes of failures.
const (
	CodeInvalidArgument         Code = "invalid_argument"
	CodeTaskNotFound            Code = "task_not_found"
	CodeHostUnreachable         Code = "host_unreachable"
	CodeHostIncompatible        Code = "host_incompatible"
	CodeHostError               Code = "host_error"
	CodeSessionNotFound         Code = "session_not_found"
	CodeModelUnroutable         Code = "model_unroutable"
	CodePresetNotFound          Code = "preset_not_found"
	CodePresetBroken            Code = "preset_broken"
	CodePresetMismatch          Code = "preset_mismatch"
	CodeWorkspaceConflict       Code = "workspace_conflict"
	CodeWorkspaceClaimMissing   Code = "workspace_claim_missing"
	CodeStaleView               Code = "stale_view"
	CodeCursorExpired           Code = "cursor_expired"
	CodeInvalidCursor           Code = "invalid_cursor"
	CodeLedgerDamaged           Code = "ledger_damaged"
	CodeLockTimeout             Code = "lock_timeout"
	CodeQueueUnknown            Code = "queue_unknown"
	CodeRequestIDConflict       Code = "request_id_conflict"
	CodeRevisionConflict        Code = "revision_conflict"
	CodeGoalInvalid             Code = "goal_invalid"
	CodeForkUnavailable         Code = "fork_unavailable"
	CodeSubagentNotFound        Code = "subagent_not_found"
	CodeSubagentNotContinuable  Code = "subagent_not_continuable"
	CodeDelegationIncomplete    Code = "delegation_incomplete"
	CodeNotPending              Code = "not_pending"
	CodeWrongType               Code = "wrong_type"
	CodeWrongTask               Code = "wrong_task"
	CodeInvalidAnswer           Code = "invalid_answer"
	CodeBadResponse             Code = "bad_response"
	CodeConfirmationDeclined    Code = "confirmation_declined"
	CodeConfirmationUnavailable Code = "confirmation_unavailable"
	CodeDiskFault               Code = "disk_fault"
	CodeInternal                Code = "internal"
)

// Error is a failure as a caller gets it: what happened, and what to do next.
type Error struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
	Hint    string         `json:"hint,omitempty"`
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

func (e *Error) with(key string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[key] = value
	return e
}

func invalid(field string, value any, problem, hint string) *Error {
	shown, err := json.Marshal(value)
	if err != nil || len(shown) > 80 {
		shown = []byte(fmt.Sprintf("a value of %d bytes", len(shown)))
	}
	return &Error{Code: CodeInvalidArgument, Message: fmt.Sprintf("%s: %s (got %s)", field, problem, shown), Hint: hint}
}

// asError turns any failure below the tools into one that a caller can act on. hostURL is named where a host is missing.
func asError(err error, hostURL string) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var host *dsh.Error
	if errors.As(err, &host) {
		return fromHost(host, hostURL)
	}
	var conflict *claims.ConflictError
	if errors.As(err, &conflict) {
		return (&Error{Code: CodeWorkspaceConflict,
			Message: fmt.Sprintf("%s overlaps %s, which task %s holds as %s", conflict.Requested.Cwd, conflict.Holder.Cwd, conflict.Holder.TaskID, conflict.Holder.Mode),
			Hint:    "Wait for that task, delegate into another directory (a git worktree of its own is best), or end the claim with dsh_release_workspace when that task is really done."}).
			with("holder", claimOf(conflict.Holder))
	}
	var cursor *ledger.CursorError
	if errors.As(err, &cursor) {
		if cursor.Expired() {
			return (&Error{Code: CodeCursorExpired, Message: cursor.Error(),
				Hint: "Call dsh_status for the present state, and go on from earliestCursor-1 or from its cursor."}).
				with("earliestCursor", cursor.Earliest).with("cursor", cursor.Last)
		}
		return (&Error{Code: CodeInvalidCursor, Message: cursor.Error(), Hint: "Use a cursor that this bridge gave for this task; dsh_status tells the present one."}).
			with("earliestCursor", cursor.Earliest).with("cursor", cursor.Last)
	}
	switch {
	case errors.Is(err, mux.ErrClosed), errors.Is(err, context.Canceled):
		return &Error{Code: CodeInternal, Message: "the call was cancelled"}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: CodeHostUnreachable, Message: "the host did not answer in time", Hint: startHint(hostURL)}
	}
	return fromDisk(err, hostURL)
}

func fromHost(err *dsh.Error, hostURL string) *Error {
	switch err.Kind {
	case dsh.NotSent:
		return &Error{Code: CodeHostUnreachable, Message: "no DSH host answers at " + hostURL, Hint: startHint(hostURL)}
	case dsh.Incompatible:
		return &Error{Code: CodeHostIncompatible, Message: err.Message,
			Hint: "Ask the person which host runs there (dsh --version). This bridge speaks to DSH " + dsh.SpokenVersions + "; docs/troubleshooting.md says how to install such a host. Or point DSH_HOST_URL at one."}
	case dsh.OutcomeUnknown:
		if !changes(err.Method) {
			return &Error{Code: CodeHostUnreachable, Message: "the connection to the DSH host at " + hostURL + " is lost", Hint: startHint(hostURL)}
		}
		return (&Error{Code: CodeHostUnreachable, Message: fmt.Sprintf("the connection broke during %s: whether the host did it is not known", err.Method),
			Hint: "Call dsh_status before you repeat anything."}).with("outcome", "unknown")
	case dsh.Refused:
		switch err.Code {
		case dsh.CodeSessionNotFound:
			return &Error{Code: CodeSessionNotFound, Message: "the host does not know the task's session",
				Hint: "Another host may run under this address, or its data were removed. The task stays here; dsh_release_workspace frees its directory."}
		case dsh.CodePresetNotFound:
			return (&Error{Code: CodePresetNotFound, Message: err.Message, Hint: "Use one of the presets that dsh_host_status lists."}).with("host", err.Details)
		case dsh.CodePresetConflict:
			return &Error{Code: CodePresetMismatch, Message: err.Message, Hint: "A session keeps the preset it was created with; delegate a new task for another."}
		case dsh.CodeModelUnavailable:
			return &Error{Code: CodeModelUnroutable, Message: err.Message, Hint: routeHint}
		}
		e := (&Error{Code: CodeHostError, Message: fmt.Sprintf("the host refused %s: %s", err.Method, err.Message)}).with("hostCode", err.Code)
		if len(err.Details) > 0 && string(err.Details) != "{}" {
			e.with("host", err.Details)
		}
		return e
	}
	return &Error{Code: CodeHostError, Message: err.Error(), Hint: "What answers there does not behave like a DSH host of " + dsh.SpokenVersions + "; dsh_host_status tells more."}
}

// changes reports whether a call of the wire does something on the host. One that only reads leaves nothing unknown
// when it breaks off.
func changes(method string) bool {
	switch method {
	case "session.create", "session.prompt", "session.rename", "session.cancel", "session.updateQueue", "respond",
		"session.fork", "subagent.prompt", "subagent.interrupt",
		"goal.create", "goal.edit", "goal.pause", "goal.resume", "goal.complete", "goal.clear":
		return true
	}
	return false
}

const routeHint = "The host cannot reach that model. A person sets its credentials or another default model in the DSH web UI; then use dsh_followup on this task."

// startHint tells how a host is started on the address the bridge expects it at.
func startHint(hostURL string) string {
	port := "3080"
	if i := strings.LastIndexByte(hostURL, ':'); i > len("https:") {
		port = hostURL[i+1:]
	}
	return "Ask the person to start one: dsh web --port " + port + " (or set DSH_HOST_URL to where it runs). The task goes on where it was as soon as the host is back."
}
