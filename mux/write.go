package mux

import (
	"context"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
)

// recordTimeout bounds how long the outcome of a write is tried to be recorded after the caller is gone.
const recordTimeout = 10 * time.Second

// Prompt hands a message to the task's session, once. It is recorded before and after, so that the message can be told
// from those of others and a task that waits for it is not mistaken for one that is done. The error is the host's
// (see [dsh.Kind]: with OutcomeUnknown the host may have it), or the disk's when nothing was sent.
//
// fingerprint is the digest of the caller's arguments when the caller may repeat the call, and empty otherwise.
func (t *Task) Prompt(ctx context.Context, req dsh.PromptRequest, fingerprint string) error {
	root := source{id: t.Root, origin: ledger.OriginRoot}
	issued := func(outcome string) []ledger.Entry {
		return []ledger.Entry{record(ledger.TypePromptIssued, root, ledger.Coordination{RequestID: req.RPCID, Mode: string(req.Mode), Outcome: outcome, Fingerprint: fingerprint})}
	}
	return t.issue(ctx, issued, false, func() error { return t.m.opts.Host.Prompt(ctx, req) })
}

// issue makes a call that is recorded before and after. again says that it may be made although it was made before.
func (t *Task) issue(ctx context.Context, issued func(outcome string) []ledger.Entry, again bool, call func() error) error {
	epoch := t.currentEpoch()
	// What became of an earlier one decides whether this one may be made.
	if err := t.resend(ctx); err != nil {
		return err
	}
	batch := issued(ledger.PromptSending)
	if again {
		batch = append(issued(ledger.PromptRefused), batch...)
	}
	if _, err := t.ledger.Append(ctx, batch); err != nil {
		return err
	}
	// What may be repeated must be known to have been sent, whatever happens to the machine.
	if err := t.ledger.Sync(); err != nil {
		t.recordOutcome(ctx, issued(ledger.PromptRefused)) // it does not leave
		return err
	}
	err := call()
	t.recordOutcome(ctx, issued(outcomeOf(err)))
	t.overtake(epoch)
	return err
}

// Write is another write that its caller may repeat, see [Task.Issue].
type Write struct {
	RequestID   string // of the write, as its repetition finds it
	Fingerprint string // the digest of the caller's arguments
	SessionID   string // the session that it goes to, the root or one below it
	// Goal is the change of the root's goal that the write makes, with the revision that it is to follow; nil for a
	// message to a subagent, whose rpcId is the RequestID.
	Goal *ledger.GoalChange
	// Again says that the write may be made although an earlier one with this RequestID was, since it has no effect
	// twice.
	Again bool
}

// Issue makes a write, once: it is recorded before and after, so that a repetition can find out from the history what
// became of it. The error is the call's (see [dsh.Kind]), a *[ledger.IssuedError] when it was made before, or the disk's
// when nothing was sent.
func (t *Task) Issue(ctx context.Context, w Write, call func() error) error {
	t.mu.Lock()
	s := source{id: w.SessionID, origin: ledger.OriginRoot}
	if known := t.sessions[w.SessionID]; known != nil {
		s = *known
	}
	t.mu.Unlock()
	issued := func(outcome string) []ledger.Entry {
		return []ledger.Entry{record(ledger.TypeWriteIssued, s, ledger.Coordination{RequestID: w.RequestID, Outcome: outcome, Fingerprint: w.Fingerprint, Goal: w.Goal})}
	}
	return t.issue(ctx, issued, w.Again, call)
}

// outcomeOf is what is known of a write after its call.
func outcomeOf(err error) string {
	switch dsh.KindOf(err) {
	case 0:
		if err == nil {
			return ledger.PromptAccepted
		}
	case dsh.NotSent, dsh.Refused, dsh.Incompatible:
		return ledger.PromptRefused
	}
	return ledger.PromptUnknown
}

// recordOutcome records what became of a write. The caller may be gone; what it did has to be on record all the same.
func (t *Task) recordOutcome(ctx context.Context, outcome []ledger.Entry) {
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := t.append(after, t.currentEpoch(), outcome); err != nil {
		// The entry is kept and written as soon as the disk takes it.
		t.log.Warn("the outcome of a prompt is not recorded yet", "err", err)
		t.wake()
	}
}

// overtake has the worker look at what has become of a write that began on that connection, if there is another by now:
// it may have gone to a host that has died since, and nothing else tells of it.
func (t *Task) overtake(epoch int) {
	if t.currentEpoch() != epoch {
		t.recheck()
	}
}

func (t *Task) currentEpoch() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.epoch
}

// Cancel aborts the root's running turn, once. Queued messages stay queued.
func (t *Task) Cancel(ctx context.Context) error {
	return t.m.opts.Host.Cancel(ctx, t.Root)
}
