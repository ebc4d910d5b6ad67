package bridge

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// Values of action.
const (
	goalGet      = "get"
	goalCreate   = "create"
	goalEdit     = "edit"
	goalPause    = "pause"
	goalResume   = "resume"
	goalComplete = "complete"
	goalClear    = "clear"
)

const (
	// maxObjective bounds an objective in bytes: the host repeats it in every round.
	maxObjective = 16 << 10
	maxRounds    = 10_000
)

type goalArgs struct {
	TaskID           string `json:"taskId"`
	Action           string `json:"action"`
	Objective        string `json:"objective"`
	MaxGoalRounds    *int   `json:"maxGoalRounds"`
	ExpectedRevision *int64 `json:"expectedRevision"`
	SinceCursor      *int64 `json:"sinceCursor"`
	RequestID        string `json:"requestId"`
}

func (a *goalArgs) check() error {
	a.Objective = strings.TrimSpace(a.Objective) // as the host does
	if err := checkTaskID(a.TaskID); err != nil {
		return err
	}
	if err := checkChoice("action", a.Action, goalGet, goalCreate, goalEdit, goalPause, goalResume, goalComplete, goalClear); err != nil {
		return err
	}
	if err := checkSince(a.SinceCursor); err != nil {
		return err
	}
	if err := checkID("requestId", a.RequestID); err != nil {
		return err
	}
	if err := a.checkContent(); err != nil {
		return err
	}
	switch {
	case a.ExpectedRevision == nil:
	case *a.ExpectedRevision < 1:
		return invalid("expectedRevision", *a.ExpectedRevision, "revisions begin with 1", "")
	case a.Action == goalCreate || a.Action == goalGet:
		return invalid("expectedRevision", *a.ExpectedRevision, "it does not go with action "+a.Action, "")
	}
	return nil
}

// checkContent checks objective and maxGoalRounds against the action.
func (a *goalArgs) checkContent() error {
	takes := a.Action == goalCreate || a.Action == goalEdit
	switch {
	case !takes && a.Objective != "":
		return invalid("objective", a.Objective, "it does not go with action "+a.Action, "")
	case !takes && a.MaxGoalRounds != nil:
		return invalid("maxGoalRounds", *a.MaxGoalRounds, "it does not go with action "+a.Action, "")
	case a.Action == goalEdit && a.Objective == "" && a.MaxGoalRounds == nil:
		return invalid("objective", "", "there is nothing to edit", "Give objective, maxGoalRounds or both.")
	case a.Action == goalCreate || a.Objective != "":
		if err := checkObjective("objective", a.Objective); err != nil {
			return err
		}
	}
	return checkRounds("maxGoalRounds", a.MaxGoalRounds)
}

func checkObjective(field, objective string) error {
	switch {
	case strings.TrimSpace(objective) == "":
		return invalid(field, objective, "it is blank", "Say what is to be reached, and how the agent can tell that it is.")
	case len(objective) > maxObjective:
		return &Error{Code: CodeInvalidArgument, Message: fmt.Sprintf("%s: %d bytes are more than %d", field, len(objective), maxObjective),
			Hint: "Put long material into a file of the workspace and name the file."}
	case !utf8.ValidString(objective):
		return &Error{Code: CodeInvalidArgument, Message: field + ": it is not valid UTF-8"}
	}
	return nil
}

func checkRounds(field string, rounds *int) error {
	if rounds == nil {
		return nil
	}
	return checkRange(field, *rounds, 1, maxRounds)
}

// begins reports whether the action sets the agent to work.
func (a *goalArgs) begins() bool {
	return a.Action == goalCreate || a.Action == goalEdit || a.Action == goalResume
}

// goalSpace is the namespace in which a caller's requestId becomes the id under which the ledger follows the change.
var goalSpace = uuid.MustParse("5d1f1c1e-8d0b-4a3c-9a57-0c4d6f1f7a52")

// write is the change as the ledger follows it.
func (a *goalArgs) write(sessionID string) (mux.Write, error) {
	w := mux.Write{RequestID: uuid.NewString(), SessionID: sessionID, Goal: &ledger.GoalChange{Operation: a.Action}}
	if a.RequestID == "" {
		return w, nil
	}
	asked := *a
	asked.SinceCursor = nil
	data, err := json.Marshal(asked)
	if err != nil {
		return w, err
	}
	w.RequestID = uuid.NewSHA1(goalSpace, []byte(a.TaskID+"\x00"+a.RequestID)).String()
	w.Fingerprint = tasks.NewRequest(a.RequestID, data).Fingerprint
	return w, nil
}
