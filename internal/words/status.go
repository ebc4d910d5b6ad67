package words

import (
	"fmt"

	"dsh-agentlink/internal/operator"
	"dsh-agentlink/ledger"
)

// StatusTint is the colour of a task's status.
func StatusTint(status string) Tint {
	switch ledger.Execution(status) {
	case ledger.Starting, ledger.Running:
		return Bold
	case ledger.AwaitingApproval, ledger.AwaitingInput:
		return Asking
	case ledger.TurnCompleted:
		return Good
	case ledger.Failed, operator.StatusNoSession:
		return Bad
	case ledger.Canceled, ledger.Interrupted:
		return Careful
	}
	return Faint
}

// Status is a status in one word: with ? it is the last known one, with + the ledger is behind the host.
func Status(t operator.Task) string {
	switch {
	case t.Status == operator.StatusUnknown && t.Execution != "":
		return string(t.Execution) + "?"
	case t.Behind:
		return t.Status + "+"
	}
	return t.Status
}

// Standing says how a task stands, and whether that is only the last known of it.
func Standing(t operator.Tail) string {
	if t.Status == string(t.Execution) {
		return t.Status
	}
	return fmt.Sprintf("%s; last known: %s", t.Availability, t.Execution)
}
