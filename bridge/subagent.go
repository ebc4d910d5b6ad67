package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/requests"
	"dsh-agentlink/internal/tasks"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// Values of action.
const (
	subagentPrompt    = "prompt"
	subagentInterrupt = "interrupt"
)

type subagentArgs struct {
	TaskID            string `json:"taskId"`
	SubagentSessionID string `json:"subagentSessionId"`
	Action            string `json:"action"`
	Prompt            string `json:"prompt"`
	SinceCursor       *int64 `json:"sinceCursor"`
	RequestID         string `json:"requestId"`
}

type subagentAnswer struct {
	TaskID            string `json:"taskId"`
	SubagentSessionID string `json:"subagentSessionId"`
	Action            string `json:"action"`
	Accepted          bool   `json:"accepted"`
	// Repeated is set when a call with the same requestId had done this before.
	Repeated bool `json:"repeated,omitempty"`
	// WasRunning says, of an interrupt, whether a turn of the subagent ran.
	WasRunning bool `json:"wasRunning,omitempty"`
	// State is that after an interrupt, and of the subagent that takes a message; its turn comes behind the cursor.
	State string `json:"state"`
	// Cursor is that before a message, so that all it brings about lies behind it; that after an interrupt.
	Cursor int64 `json:"cursor"`
}

func (a *subagentArgs) check() error {
	if err := checkTaskID(a.TaskID); err != nil {
		return err
	}
	if !dsh.ValidID(a.SubagentSessionID) {
		return invalid("subagentSessionId", a.SubagentSessionID, "it is no id of a session", "dsh_status lists the task's subagents.")
	}
	if err := checkChoice("action", a.Action, subagentPrompt, subagentInterrupt); err != nil {
		return err
	}
	if err := checkSince(a.SinceCursor); err != nil {
		return err
	}
	if err := checkID("requestId", a.RequestID); err != nil {
		return err
	}
	if a.Action == subagentPrompt {
		return checkPrompt(a.Prompt)
	}
	if a.Prompt != "" {
		return invalid("prompt", a.Prompt, "it does not go with action interrupt", "")
	}
	return nil
}

// subagent sends a message to one of a task's subagents, or stops its turn.
func (b *Bridge) subagent(ctx context.Context, raw json.RawMessage) (any, error) {
	var args subagentArgs
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := args.check(); err != nil {
		return nil, err
	}
	_, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	asked := args
	asked.SinceCursor, asked.RequestID = nil, ""
	call := onceCall{again: true, Call: requests.Call{Tool: "dsh_subagent", TaskID: t.ID, RequestID: args.RequestID, Arguments: asked}}
	do := b.promptSubagent
	if args.Action == subagentInterrupt {
		do = b.interruptSubagent
	}
	answer, repeated, err := once(ctx, b, call, func(a subagentAnswer) subagentAnswer { return a }, func() (subagentAnswer, error) { return do(ctx, t, args) })
	if err != nil {
		return nil, err
	}
	answer.Repeated = answer.Repeated || repeated
	return answer, b.settled(t)
}

// freshSubagent finds a continuable subagent of a task that was brought up to date.
func (b *Bridge) freshSubagent(ctx context.Context, t *mux.Task, args subagentArgs) (mux.Subagent, mux.Snapshot, error) {
	_, snap, err := b.fresh(ctx, t)
	if err != nil {
		return mux.Subagent{}, snap, err
	}
	i := slices.IndexFunc(snap.Subagents, func(s mux.Subagent) bool { return s.SessionID == args.SubagentSessionID })
	if i < 0 {
		return mux.Subagent{}, snap, subagentNotFound(args.SubagentSessionID)
	}
	child := snap.Subagents[i]
	if child.Mode != dsh.SubagentContinuable {
		return child, snap, (&Error{Code: CodeSubagentNotContinuable, Message: fmt.Sprintf("%s is a %s subagent: it takes no messages, and only its parent stops it", child.SessionID, cmpOr(child.Mode, "strange")),
			Hint: "Steer the task with dsh_followup, or stop its turn with dsh_cancel."}).with("mode", child.Mode)
	}
	return child, snap, nil
}

func subagentNotFound(id string) *Error {
	return &Error{Code: CodeSubagentNotFound, Message: "the task has no subagent " + id, Hint: "dsh_status lists its subagents."}
}

// subagentSpace is the namespace in which a caller's requestId becomes the rpcId of its message to a subagent.
var subagentSpace = uuid.MustParse("c2f6d2a0-5f0e-4c8e-8a53-3f5c1f6f0b19")

// promptSubagent hands a message to a subagent, whose history tells whether an earlier call did so.
func (b *Bridge) promptSubagent(ctx context.Context, t *mux.Task, args subagentArgs) (answer subagentAnswer, err error) {
	answer = subagentAnswer{TaskID: t.ID, SubagentSessionID: args.SubagentSessionID, Action: args.Action}
	if err := b.needClaim(t.ID); err != nil {
		return answer, err
	}
	child, snap, err := b.freshSubagent(ctx, t, args)
	if err != nil {
		return answer, err
	}
	answer.State, answer.Cursor = subagentState(child), snap.Cursor
	write := mux.Write{RequestID: uuid.NewString(), SessionID: child.SessionID}
	if args.RequestID != "" {
		key := t.ID + "\x00" + child.SessionID + "\x00" + args.RequestID
		write.RequestID = uuid.NewSHA1(subagentSpace, []byte(key)).String()
	}
	write.Fingerprint = tasks.NewRequest(write.RequestID, []byte(args.Prompt)).Fingerprint
	done, err := b.subagentPrompted(t, write)
	if err != nil || done {
		answer.Accepted, answer.Repeated = done, done
		return answer, err
	}
	if err := b.checkView(t, snap, args.SinceCursor, ""); err != nil {
		return answer, err
	}
	err = t.Issue(ctx, write, func() error {
		return b.host.PromptSubagent(ctx, dsh.SubagentPrompt{RPCID: write.RequestID, ParentSessionID: child.Parent, SessionID: child.SessionID, Text: args.Prompt})
	})
	if dsh.IsCode(err, dsh.CodeSubagentNotFound) {
		return answer, subagentNotFound(child.SessionID)
	}
	answer.Accepted = err == nil
	return answer, err
}

// subagentPrompted reports whether an earlier call sent the message. One that was sent and did not show up since is not
// sent again.
func (b *Bridge) subagentPrompted(t *mux.Task, write mux.Write) (bool, error) {
	arrived, err := t.Arrived(write.RequestID)
	if err != nil || arrived {
		return arrived, err
	}
	issued, known, err := t.IssuedPrompt(write.RequestID)
	switch {
	case err != nil || !known || issued.Outcome == ledger.PromptRefused:
		return false, err
	case issued.Outcome == ledger.PromptAccepted:
		return true, nil
	}
	return false, (&Error{Code: CodeHostUnreachable, Message: "this message was sent before, and whether the host got it is still not known; it was not sent again",
		Hint: "dsh_tail shows whether it arrived. To send it again all the same, use a new requestId."}).with("outcome", "unknown")
}

// interruptSubagent stops a subagent's turn. It needs no claim: stopping is always allowed.
func (b *Bridge) interruptSubagent(ctx context.Context, t *mux.Task, args subagentArgs) (answer subagentAnswer, err error) {
	answer = subagentAnswer{TaskID: t.ID, SubagentSessionID: args.SubagentSessionID, Action: args.Action}
	child, snap, err := b.freshSubagent(ctx, t, args)
	if err != nil {
		return answer, err
	}
	if err := b.checkView(t, snap, args.SinceCursor, ""); err != nil {
		return answer, err
	}
	answer.WasRunning = child.Turn.Open()
	err = b.host.InterruptSubagent(ctx, child.Parent, child.SessionID)
	if dsh.IsCode(err, dsh.CodeSubagentNotFound) {
		return answer, subagentNotFound(child.SessionID)
	}
	if err != nil {
		return answer, err
	}
	now := func(snap mux.Snapshot) mux.Subagent {
		for _, s := range snap.Subagents {
			if s.SessionID == child.SessionID {
				return s
			}
		}
		return child
	}
	if answer.WasRunning {
		b.until(ctx, t, cancelSettles, func(snap mux.Snapshot) bool {
			s := now(snap)
			return !s.Turn.Open() || s.Turn.Number != child.Turn.Number
		})
	}
	if snap, err = t.Snapshot(); err != nil {
		return answer, err
	}
	answer.Accepted, answer.State, answer.Cursor = true, subagentState(now(snap)), snap.Cursor
	return answer, nil
}
