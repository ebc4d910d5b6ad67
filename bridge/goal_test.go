package bridge

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/dshtest"
	"dsh-agentlink/internal/labmodel"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// words is a prompt after which every turn, rounds included, takes a while.
func words() string {
	return "Talk. " + dshtest.Script(labmodel.Step{Say: "one two three four five six seven eight", DelayMs: 100})
}

// event waits for the n-th event of a type in a session.
func (r *rig) event(sessionID, kind string, n int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	if _, err := r.host.WaitEvent(ctx, sessionID, kind, n); err != nil {
		r.t.Fatal(err)
	}
}

// goalSeen is what the tests look at in an answer with a goal.
type goalSeen struct {
	Action, Execution string
	Repeated          bool
	Cursor            int64
	Goal              *goalView
}

func (r *rig) goal(taskID, action string, more args) (g goalSeen) {
	r.t.Helper()
	call := args{"taskId": taskID, "action": action}
	for name, value := range more {
		call[name] = value
	}
	r.call("dsh_goal", call, &g)
	return g
}

func TestGoalArguments(t *testing.T) {
	r := newRig(t)
	task := r.delegate("Work.")
	before := r.host.Calls("session.list")
	for _, c := range []struct {
		field string
		call  args
	}{
		{"taskId", args{"taskId": "dsh_1", "action": "get"}},
		{"action", args{"action": ""}},
		{"action", args{"action": "stop"}},
		{"objective", args{"action": "create"}},
		{"objective", args{"action": "create", "objective": " \n"}},
		{"objective", args{"action": "create", "objective": strings.Repeat("x", maxObjective+1)}},
		{"objective", args{"action": "edit"}},
		{"objective", args{"action": "edit", "objective": "\t"}},
		{"objective", args{"action": "pause", "objective": "x"}},
		{"maxGoalRounds", args{"action": "create", "objective": "x", "maxGoalRounds": 0}},
		{"maxGoalRounds", args{"action": "edit", "maxGoalRounds": maxRounds + 1}},
		{"maxGoalRounds", args{"action": "resume", "maxGoalRounds": 3}},
		{"maxGoalRounds", args{"action": "edit", "maxGoalRounds": "3"}},
		{"expectedRevision", args{"action": "edit", "maxGoalRounds": 3, "expectedRevision": 0}},
		{"expectedRevision", args{"action": "create", "objective": "x", "expectedRevision": 1}},
		{"expectedRevision", args{"action": "get", "expectedRevision": 1}},
		{"sinceCursor", args{"action": "pause", "sinceCursor": -1}},
		{"requestId", args{"action": "pause", "requestId": strings.Repeat("r", maxID+1)}},
		{"reason", args{"action": "pause", "reason": "x"}},
	} {
		if c.call["taskId"] == nil {
			c.call["taskId"] = task.TaskID
		}
		if failed := r.fails(CodeInvalidArgument, "dsh_goal", c.call); !strings.Contains(failed.Message, c.field) {
			t.Errorf("%v: the failure does not name %s: %s", c.call, c.field, failed.Message)
		}
	}
	if r.host.Calls("session.list") != before {
		t.Error("the host was asked before the arguments were checked")
	}
}

// The answers of a task with a goal, whole.
func TestGoalAnswers(t *testing.T) {
	r := newRig(t)
	var task seen
	r.call("dsh_delegate", args{"prompt": "Greet.", "cwd": r.workspace("project"), "waitSeconds": 20}, &task)
	r.event(task.SessionID, "session/title", 2)
	id := task.TaskID
	golden(t, "answers/goal_none.json", r.stable(r.call("dsh_goal", args{"taskId": id, "action": "get"}, nil)))
	created := r.goal(id, "create", args{"objective": "All tests pass.", "maxGoalRounds": 2})
	golden(t, "answers/goal_wait.json", r.stable(r.call("dsh_wait", args{"taskId": id, "sinceCursor": created.Cursor, "until": "attention"}, nil)))
	golden(t, "answers/goal_status.json", r.stable(r.call("dsh_status", args{"taskId": id}, nil)))
	golden(t, "answers/goal_edit.json", r.stable(r.call("dsh_goal", args{"taskId": id, "action": "edit", "objective": "All tests pass, twice."}, nil)))
	golden(t, "answers/goal_clear.json", r.stable(r.call("dsh_goal", args{"taskId": id, "action": "clear"}, nil)))
}

// A change of which the answer was lost is not made twice, and a repetition finds out whether it was made at all.
func TestGoalAnswerLost(t *testing.T) {
	for _, c := range []struct {
		action string
		more   args
	}{
		{"create", args{"objective": "Another.", "maxGoalRounds": 1}},
		{"edit", args{"objective": "Otherwise."}},
		{"resume", nil},
		{"complete", nil},
		{"clear", nil},
	} {
		for _, made := range []bool{true, false} {
			name := c.action + " not made"
			if made {
				name = c.action + " made"
			}
			t.Run(name, func(t *testing.T) {
				r := newRig(t)
				task := r.delegate(words())
				if c.action != "create" {
					r.goal(task.TaskID, "create", args{"objective": "One."})
					r.goal(task.TaskID, "pause", nil)
				}
				call := args{"taskId": task.TaskID, "action": c.action, "requestId": "once"}
				for name, value := range c.more {
					call[name] = value
				}
				method := "goal." + c.action
				calls := r.host.Calls(method)
				if made {
					r.host.BreakAfter(method)
				} else {
					r.host.FailNext(method, 500, 1)
				}
				if failed := r.fails(CodeHostUnreachable, "dsh_goal", call); failed.Details["outcome"] != "unknown" {
					t.Errorf("the failure says %v", failed.Details)
				}
				var again goalSeen
				r.call("dsh_goal", call, &again)
				want := calls + 2
				if made {
					want = calls + 1
				}
				if again.Repeated != made || r.host.Calls(method) != want {
					t.Errorf("the repetition answers %+v after %d calls, want %d", again, r.host.Calls(method), want)
				}
				var third goalSeen
				if r.call("dsh_goal", call, &third); !third.Repeated || r.host.Calls(method) != want {
					t.Errorf("the second repetition answers %+v after %d calls, want %d", third, r.host.Calls(method), want)
				}
			})
		}
	}
}

// A create whose place another caller's took is not taken for it.
func TestGoalCreatedByAnother(t *testing.T) {
	r := newRig(t)
	task := r.delegate(words())
	call := args{"taskId": task.TaskID, "action": "create", "objective": "Mine.", "requestId": "mine"}
	r.host.FailNext("goal.create", 500, 1)
	r.fails(CodeHostUnreachable, "dsh_goal", call)
	r.goal(task.TaskID, "create", args{"objective": "Theirs."})
	failed := r.fails(CodeGoalInvalid, "dsh_goal", call)
	if g, ok := failed.Details["goal"].(*goalView); !ok || g.Objective != "Theirs." || failed.Details["hostCode"] != dsh.GoalAlreadyExists {
		t.Errorf("the failure says %v", failed.Details)
	}
}

// The host's own refusals become the bridge's.
func TestGoalRefusals(t *testing.T) {
	r := newRig(t)
	task := r.delegate("Work.")
	_, watched, err := r.b.open(task.TaskID)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(code string) error {
		return &dsh.Error{Kind: dsh.Refused, Method: "goal.edit", Code: dsh.CodeInternal, Message: "GoalError: words", Details: json.RawMessage(`{"goalCode":"` + code + `"}`)}
	}
	for code, want := range map[string]Code{
		dsh.GoalStaleRevision: CodeRevisionConflict, dsh.GoalInvalidTransition: CodeGoalInvalid, dsh.GoalNotFound: CodeGoalInvalid, "GOAL_OF_TOMORROW": CodeGoalInvalid,
	} {
		if e := asError(r.b.goalRefused(t.Context(), watched, refused(code)), ""); e.Code != want || strings.Contains(e.Message, "GoalError") {
			t.Errorf("%s becomes %v", code, e)
		}
	}
	r.host.SetRoutable(false)
	r.fails(CodeModelUnroutable, "dsh_goal", args{"taskId": task.TaskID, "action": "create", "objective": "x"})
	if r.host.Calls("goal.create") != 0 {
		t.Error("a goal was created that nothing can work on")
	}
}

// A pause stops the running turn; when that fails, the goal is paused all the same and the failure says so.
func TestGoalPause(t *testing.T) {
	r := newRig(t)
	task := r.delegate(words())
	r.goal(task.TaskID, "create", args{"objective": "One."})
	r.host.FailNext("session.cancel", 500, 1)
	failed := r.fails(CodeHostUnreachable, "dsh_goal", args{"taskId": task.TaskID, "action": "pause"})
	if !strings.Contains(failed.Message, "is paused") {
		t.Errorf("the failure says %s", failed.Message)
	}
	if g := r.goal(task.TaskID, "get", nil); g.Goal.Phase != "paused" {
		t.Errorf("the goal is %+v", g.Goal)
	}
	r.goal(task.TaskID, "resume", nil)
	if g := r.goal(task.TaskID, "pause", nil); g.Goal.Phase != "paused" || g.Execution == string(ledger.Running) {
		t.Errorf("after the pause: %+v %+v", g, g.Goal)
	}
	if running := r.host.Sessions()[0].Running; running {
		t.Error("the turn runs on")
	}
}

func TestRoundDue(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	ended := func(e ledger.Execution, goal ledger.Goal, recorded time.Duration) mux.Snapshot {
		return mux.Snapshot{Execution: e, Turn: ledger.Turn{Number: 1, Ended: true, EndedAt: 500}, Goal: &goal, UpdatedAt: now.Add(-recorded)}
	}
	active := ledger.Goal{Phase: ledger.GoalActive, ChangedAt: 100}
	started := ledger.Goal{Phase: ledger.GoalActive, ChangedAt: 600}
	for _, tt := range []struct {
		name string
		snap mux.Snapshot
		want bool
	}{
		{"no goal", mux.Snapshot{Execution: ledger.TurnCompleted, UpdatedAt: now}, false},
		{"between two rounds", ended(ledger.TurnCompleted, active, 0), true},
		{"for too long", ended(ledger.TurnCompleted, active, reportGrace), false},
		{"in a round", ended(ledger.Running, active, 0), false},
		{"behind a turn that failed", ended(ledger.Failed, active, 0), false},
		{"behind one that was canceled", ended(ledger.Canceled, active, 0), false},
		{"set going behind one that failed", ended(ledger.Failed, started, 0), true},
		{"paused", ended(ledger.TurnCompleted, ledger.Goal{Phase: ledger.GoalPaused, ChangedAt: 600}, 0), false},
	} {
		if got := roundDue(tt.snap, now); got != tt.want {
			t.Errorf("%s: due %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A launch with a goal can break off in front of the goal, too.
func TestLaunchWithGoalBreaksOff(t *testing.T) {
	for _, c := range []struct {
		name    string
		prompt  string
		made    bool
		sent    tasks.Sent // of the prompt
		settled bool
	}{
		{"the goal behind a prompt is taken and the answer lost", "Work.", true, tasks.SentYes, true},
		{"the goal behind a prompt is not taken and nobody says so", "Work.", false, tasks.SentYes, false},
		{"the goal alone is taken and the answer lost", "", true, tasks.SentUnknown, true},
		{"the goal alone is not taken and nobody says so", "", false, tasks.SentUnknown, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			call := args{"cwd": r.workspace("project"), "requestId": "launch-1", "goal": args{"objective": "All is well.", "maxGoalRounds": 1}}
			if c.prompt != "" {
				call["prompt"] = c.prompt
			}
			r.call("dsh_host_status", args{}, nil)
			if c.made {
				r.host.BreakAfter("goal.create")
			} else {
				r.host.FailNext("goal.create", 500, 1)
			}
			failed := r.fails(CodeDelegationIncomplete, "dsh_delegate", call)
			if failed.Details["promptSent"] != c.sent || failed.Details["goalSent"] != tasks.SentUnknown || !strings.Contains(failed.Hint, "dsh_goal") {
				t.Errorf("the failure says %v: %s", failed.Details, failed.Hint)
			}
			taskID, _ := failed.Details["taskId"].(string)
			var status seen
			r.call("dsh_status", args{"taskId": taskID}, &status)
			if (status.Delegation == nil) != c.settled {
				t.Errorf("dsh_status explains %+v", status.Delegation)
			}
			var again struct {
				seen
				Goal *goalView
			}
			r.call("dsh_delegate", call, &again)
			if again.TaskID != taskID || !again.Accepted || !again.Repeated || again.Goal == nil {
				t.Errorf("the repeated call answers %+v", again)
			}
			prompts, goals := 0, 0
			for _, ev := range r.host.Events(r.host.Sessions()[0].ID) {
				if ev.Type == "user/message" && strings.Contains(string(ev.Data), `"rpcId"`) {
					prompts++
				}
				if ev.Type == "goal/change" && strings.Contains(string(ev.Data), `"create"`) {
					goals++
				}
			}
			if want := min(len(c.prompt), 1); prompts != want || goals != 1 || len(r.host.Sessions()) != 1 {
				t.Errorf("%d sessions, %d prompts and %d goals were made", len(r.host.Sessions()), prompts, goals)
			}
			r.call("dsh_status", args{"taskId": taskID}, &status)
			if status.Delegation != nil && !c.settled {
				var once seen
				if r.call("dsh_status", args{"taskId": taskID}, &once); once.Delegation != nil {
					t.Errorf("dsh_status still explains %+v", once.Delegation)
				}
			}
		})
	}
}

// What a caller does by hand completes a launch that broke off in front of its goal.
func TestLaunchCompletedByHand(t *testing.T) {
	r := newRig(t)
	r.call("dsh_host_status", args{}, nil)
	r.host.FailNext("goal.create", 500, 1)
	failed := r.fails(CodeDelegationIncomplete, "dsh_delegate", args{"cwd": r.workspace("project"), "goal": args{"objective": "x", "maxGoalRounds": 1}})
	taskID, _ := failed.Details["taskId"].(string)
	var status seen
	r.call("dsh_status", args{"taskId": taskID}, &status)
	if status.Delegation == nil || !strings.Contains(status.Delegation.Next, "dsh_goal") {
		t.Fatalf("dsh_status explains %+v", status.Delegation)
	}
	r.goal(taskID, "create", args{"objective": "x", "maxGoalRounds": 1})
	status = seen{}
	if r.call("dsh_status", args{"taskId": taskID}, &status); status.Delegation != nil {
		t.Errorf("dsh_status still explains %+v", status.Delegation)
	}
}
