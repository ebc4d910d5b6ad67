package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/mark3labs/mcp-go/mcp"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/mux"
)

// Values of outcome.
const (
	outcomeAllow  = "allow_once"
	outcomeReject = "reject"
)

// maxConfirmed bounds the command of a confirmation, in bytes: what a person is asked about has to be readable whole.
const maxConfirmed = 16_000

type approvalArgs struct {
	TaskID           string `json:"taskId"`
	RequestID        string `json:"requestId"`
	Outcome          string `json:"outcome"`
	SinceCursor      *int64 `json:"sinceCursor"`
	ExpectedRevision string `json:"expectedRevision"`
}

// resolveApproval decides a pending approval. It is the only way in the program to allow anything, and what it allows
// is one call, once, that a person was shown where the client can show it.
func (b *Bridge) resolveApproval(ctx context.Context, raw json.RawMessage) (any, error) {
	var args approvalArgs
	if err := decodeArgs(raw, &args); err != nil {
		return nil, err
	}
	if err := checkSince(args.SinceCursor); err != nil {
		return nil, err
	}
	if err := checkRequestID(args.RequestID); err != nil {
		return nil, err
	}
	if err := checkChoice("outcome", args.Outcome, outcomeAllow, outcomeReject); err != nil {
		return nil, err
	}
	_, t, err := b.open(args.TaskID)
	if err != nil {
		return nil, err
	}
	if args.Outcome == outcomeAllow {
		if err := b.needClaim(t.ID); err != nil {
			return nil, err
		}
	}
	_, snap, err := b.fresh(ctx, t)
	if err != nil {
		return nil, err
	}
	request, err := b.pendingOf(t, snap, args.RequestID, typeApproval)
	if err != nil {
		return nil, err
	}
	if err := b.checkView(t, snap, args.SinceCursor, args.ExpectedRevision); err != nil {
		return nil, err
	}
	answer := dsh.Answer{RPCID: request.ID, SessionID: request.SessionID, Approval: &dsh.ApprovalAnswer{ApprovalID: request.Approval.ApprovalID}}
	if args.Outcome == outcomeReject {
		return b.respond(ctx, t, answer, "rejected")
	}
	if err := b.askPerson(ctx, t, snap, request); err != nil {
		return nil, err
	}
	answer.Approval.Allow = true
	return b.respond(ctx, t, answer, "allowed once")
}

// askPerson returns nil when the call may be allowed: a person was shown it and accepted, and it is still what was
// shown; or nobody has to be asked here.
func (b *Bridge) askPerson(ctx context.Context, t *mux.Task, snap mux.Snapshot, request mux.Request) error {
	canAsk := personOf(ctx).canAsk
	switch {
	case b.opts.ApprovalConfirm == ConfirmOff, b.opts.ApprovalConfirm != ConfirmRequired && !canAsk:
		return nil
	case !canAsk:
		return &Error{Code: CodeConfirmationUnavailable, Message: "DSH_APPROVAL_CONFIRM=required, and this client cannot ask a person; nothing was sent", Hint: confirmHint}
	}
	text, err := b.confirmation(ctx, t, snap, request)
	if err != nil {
		return err
	}
	action, err := b.confirm(ctx, text)
	if err != nil {
		return err
	}
	if action != mcp.ElicitationResponseActionAccept {
		return (&Error{Code: CodeConfirmationDeclined, Message: fmt.Sprintf("the client answered %s when it was asked to show the approval to a person; nothing was sent, the request stays pending", action),
			Hint: "If a person declined, leave it at that: reject it with outcome reject, or ask what to do instead. If nobody was asked: " + confirmHint}).with("action", action)
	}
	return b.stillShown(ctx, t, request)
}

// stillShown makes sure, after a person has thought about it, that what was shown is what would be allowed.
func (b *Bridge) stillShown(ctx context.Context, t *mux.Task, shown mux.Request) error {
	_, snap, err := b.fresh(ctx, t)
	if err != nil {
		return err
	}
	now, err := b.pendingOf(t, snap, shown.ID, typeApproval)
	if err != nil {
		return err
	}
	if now.SessionID != shown.SessionID || *now.Approval != *shown.Approval {
		return b.notPending(t, shown.ID)
	}
	return b.needClaim(t.ID)
}

// confirmation is the text that a person sees. The command is indented and its control characters are made visible, so
// that it cannot pass for a part of the bridge's own text.
func (b *Bridge) confirmation(ctx context.Context, t *mux.Task, snap mux.Snapshot, request mux.Request) (string, error) {
	command := ""
	for _, p := range b.pending(ctx, b.reader(t, mux.Snapshot{Subagents: snap.Subagents}), mux.Snapshot{Availability: snap.Availability, Requests: []mux.Request{request}}) {
		command = p.Command
		if p.Unavailable != "" {
			command = "(" + p.Unavailable + ")"
		}
	}
	if len(command) > maxConfirmed {
		return "", &Error{Code: CodeConfirmationUnavailable, Message: fmt.Sprintf("the command has %d bytes, more than a person can be shown whole; nothing was sent", len(command)),
			Hint: "A person can decide it in the DSH web UI; reject it here with outcome reject."}
	}
	claim, _, err := b.claims.Get(t.ID)
	if err != nil {
		return "", err
	}
	who := "the task's agent"
	if request.SessionID != t.Root {
		who = "subagent " + request.SessionID
	}
	var s strings.Builder
	s.WriteString("Allow this one call, once?\n\n")
	fmt.Fprintf(&s, "Task:      %s\n", t.ID)
	fmt.Fprintf(&s, "Asked by:  %s\n", who)
	fmt.Fprintf(&s, "Directory: %s\n", visible(claim.Cwd))
	fmt.Fprintf(&s, "Tool:      %s\n", visible(request.Approval.ToolName))
	fmt.Fprintf(&s, "Reason:    %s\n", indented(request.Approval.Reason))
	fmt.Fprintf(&s, "Command:\n  | %s\n", indented(command))
	return s.String(), nil
}

// indented puts every further line of a text behind a bar.
func indented(text string) string {
	return strings.ReplaceAll(visible(text), "\n", "\n  | ")
}

// visible spells out the characters that move the cursor, hide text or change its direction.
func visible(text string) string {
	var s strings.Builder
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
			fmt.Fprintf(&s, `\u%04x`, r)
			continue
		}
		s.WriteRune(r)
	}
	return s.String()
}
