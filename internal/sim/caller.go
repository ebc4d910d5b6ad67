package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// caller is one caller of a bridge's tools. It outlives the bridge: with the next one it goes on with the cursors that
// it has, and repeats the calls whose outcome it did not learn.
type caller struct {
	w     *World
	slot  int
	first bool // of its slot
	name  string
	dice  *dice

	cursors map[taskID]int64
	begun   map[taskID]bool // its delegations whose first prompt has gone out
	left    int             // prompts that it will still send
	repeat  *prompt         // one whose outcome it did not learn
}

func newCaller(w *World, slot, index int) *caller {
	return &caller{
		w: w, slot: slot, first: index == 0, name: fmt.Sprintf("%d-%d", slot, index), dice: newDice(w.Seed, "caller", slot, index),
		cursors: map[taskID]int64{}, begun: map[taskID]bool{}, left: 4,
	}
}

// callFor bounds a tool call; a common client gives up after a minute.
const callFor = 50 * time.Second

// use calls a bridge's tools until it dies or the world comes to rest.
func (c *caller) use(b *bridge) {
	for {
		timer := time.NewTimer(c.dice.between(0, 5*time.Second))
		select {
		case <-timer.C:
		case <-b.p.ctx.Done():
		case <-c.w.calm:
		}
		timer.Stop()
		select {
		case <-c.w.calm:
			return
		default:
		}
		if !b.p.alive() {
			return
		}
		c.callOnce(b)
	}
}

// callOnce makes one call.
func (c *caller) callOnce(b *bridge) {
	ctx, cancel := context.WithTimeout(b.p.ctx, callFor)
	defer cancel()
	i := c.dice.upTo(len(c.w.tasks) - 1)
	task := c.w.tasks[i]
	t := b.track(task)
	if c.first && i%len(c.w.slots) == c.slot && !c.begun[task] {
		c.delegate(ctx, b, task, t)
		return
	}
	switch n := c.dice.upTo(99); {
	case n < 20:
		_ = t.Current(ctx) // what is known is looked at whatever comes of it
		c.look(b, task, t)
	case n < 30:
		c.await(ctx, b, task, t)
	case n < 45:
		c.look(b, task, t)
	case n < 60:
		_, _, _ = t.Fresh(ctx)
		c.look(b, task, t)
	case n < 75:
		c.followup(ctx, b, task, t)
	case n < 92:
		c.answer(ctx, task, t)
	case n < 96:
		_ = t.Cancel(ctx)
	default:
		c.unqueue(ctx, b, task, t)
	}
}

// await waits for any change, for a while.
func (c *caller) await(ctx context.Context, b *bridge, task taskID, t *mux.Task) {
	defer t.Hurry()()
	_ = t.Current(ctx)
	changed := t.Changed()
	c.look(b, task, t)
	over := time.NewTimer(time.Duration(c.dice.upTo(3000)) * time.Millisecond)
	defer over.Stop()
	select {
	case <-changed:
		c.look(b, task, t)
	case <-over.C:
	case <-ctx.Done():
	}
}

// delegate makes the task's session and sends its first prompt, once.
func (c *caller) delegate(ctx context.Context, b *bridge, task taskID, t *mux.Task) {
	if err := b.mux.Connected(ctx); err != nil {
		return
	}
	if _, err := b.link.Create(ctx, dsh.CreateRequest{SessionID: task.root, Cwd: cwd}); err != nil {
		return // to be repeated: the id is known
	}
	c.begun[task] = true
	p := c.w.sent.prompt(task, "first-"+task.root, "")
	c.send(ctx, b, t, p, dsh.ModeQueue)
	c.look(b, task, t)
}

// look takes a snapshot and reads on from the caller's cursor, as every answer does, and makes sure that what it is told
// is on the disk.
func (c *caller) look(b *bridge, task taskID, t *mux.Task) {
	snap, err := t.Snapshot()
	if err != nil {
		c.undamaged(task, err)
		return
	}
	since := c.cursors[task]
	records, err := t.Ledger().Read(since, 1+c.dice.upTo(80))
	var outside *ledger.CursorError
	if errors.As(err, &outside) {
		if !outside.Expired() {
			c.w.fail("caller %s: cursor %d of %s, which it was given, is not in the ledger: %v", c.name, since, task.id, err)
			return
		}
		since = outside.Earliest - 1
		records, err = t.Ledger().Read(since, 1+c.dice.upTo(80))
	}
	if err == nil {
		err = t.Ledger().Sync()
	}
	if err != nil {
		c.undamaged(task, err)
		return
	}
	if !b.p.alive() {
		return
	}
	for i, r := range records {
		if r.Cursor != since+int64(i)+1 {
			c.w.fail("caller %s: behind cursor %d of %s comes %d", c.name, since+int64(i), task.id, r.Cursor)
		}
		c.w.books.tell(task.events(), r)
		c.cursors[task] = r.Cursor
	}
	c.w.books.reach(task.events(), snap.Cursor)
}

// undamaged complains of a ledger that is taken for damaged: nothing in a world damages one.
func (c *caller) undamaged(task taskID, err error) {
	var damaged *ledger.DamagedError
	if errors.As(err, &damaged) {
		c.w.fail("caller %s: the ledger of %s passes for damaged: %v", c.name, task.id, err)
	}
}

// followup sends another prompt, or repeats one whose outcome is not known, as the bridge does it: a prompt that is
// known to the ledger is not sent again unless the host refused it.
func (c *caller) followup(ctx context.Context, b *bridge, task taskID, t *mux.Task) {
	p := c.repeat
	switch {
	case p != nil && p.task != task:
		return
	case p == nil && c.left == 0:
		return
	case p == nil:
		c.left--
		fingerprint := ""
		if c.dice.chance(0.7) {
			fingerprint = "fingerprint"
		}
		p = c.w.sent.prompt(task, fmt.Sprintf("prompt-%s-%d", c.name, c.left), fingerprint)
	}
	if p.fingerprint != "" {
		c.repeat = p
	}
	if _, _, err := t.Fresh(ctx); err != nil {
		return
	}
	snap, err := t.Snapshot()
	if err != nil || snap.Availability != mux.Connected {
		return
	}
	if p.fingerprint != "" {
		issued, known, err := t.IssuedPrompt(p.id)
		if err != nil {
			return
		}
		if known && issued.Outcome != ledger.PromptRefused {
			if issued.Outcome == ledger.PromptAccepted {
				c.repeat = nil
			}
			return
		}
	}
	if c.send(ctx, b, t, p, one(c.dice, []dsh.Mode{dsh.ModeQueue, dsh.ModeQueue, dsh.ModeSteer})) == nil {
		c.repeat = nil
	}
	c.look(b, task, t)
}

// send hands a prompt to the host.
func (c *caller) send(ctx context.Context, b *bridge, t *mux.Task, p *prompt, mode dsh.Mode) error {
	c.w.sent.trying(p)
	healthy := c.w.disk.mended() && c.w.profile.locks == 0
	err := t.Prompt(ctx, dsh.PromptRequest{RPCID: p.id, SessionID: t.Root, Mode: mode, Text: "words"}, p.fingerprint)
	if b.p.alive() {
		c.w.sent.tried(p, err)
	} else {
		c.w.sent.tried(p, errDead) // nobody learned what came of it
	}
	if err != nil || !healthy || !c.w.disk.mended() || ctx.Err() != nil {
		return err
	}
	// From here on the task waits for the prompt's turn, and must not show how the last one ended.
	snap, serr := t.Snapshot()
	arrived, aerr := t.Arrived(p.id)
	if serr == nil && aerr == nil && snap.Execution.Terminal() && !arrived {
		c.w.fail("caller %s: %s was accepted and %s is %s", c.name, p.id, t.ID, snap.Execution)
	}
	return nil
}

// answer answers one of the requests that wait.
func (c *caller) answer(ctx context.Context, task taskID, t *mux.Task) {
	snap, err := t.Snapshot()
	if err != nil || len(snap.Requests) == 0 {
		return
	}
	r := one(c.dice, snap.Requests)
	a := dsh.Answer{RPCID: r.ID, SessionID: r.SessionID}
	switch {
	case r.Approval != nil:
		a.Approval = &dsh.ApprovalAnswer{ApprovalID: r.Approval.ApprovalID, Allow: c.dice.chance(0.5)}
	case r.Questions == nil:
		return // what it asks is not known
	case c.dice.chance(0.2):
		a.Cancel = true
	default:
		a.Questions = []dsh.QuestionAnswer{{ID: r.Questions[0].ID, Selected: []string{"yes"}}}
	}
	receipt, err := t.Respond(ctx, a)
	if err == nil && receipt.Reason == dsh.ReasonBadResponse {
		c.w.fail("caller %s: the answer to %s of %s does not fit what was shown", c.name, r.ID, task.id)
	}
}

// unqueue takes a message out of the queue.
func (c *caller) unqueue(ctx context.Context, b *bridge, task taskID, t *mux.Task) {
	snap, err := t.Snapshot()
	if err == nil && snap.Queue != nil && !snap.Queue.Stale && len(snap.Queue.Items) > 0 {
		_ = b.link.RemoveQueued(ctx, task.root, one(c.dice, snap.Queue.Items).ID) // it may have been taken
	}
}

// prompt is one prompt of a caller.
type prompt struct {
	id, fingerprint string
	task            taskID

	attempts int
	accepted bool // the host said that it has it
	possible bool // an attempt may have reached the host
}

// sent remembers all prompts.
type sent struct {
	mu      sync.Mutex
	prompts []*prompt
	persons int
}

func newSent() *sent { return &sent{} }

func (s *sent) prompt(task taskID, id, fingerprint string) *prompt {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &prompt{id: id, task: task, fingerprint: fingerprint}
	s.prompts = append(s.prompts, p)
	return p
}

func (s *sent) trying(p *prompt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.attempts++
}

func (s *sent) tried(p *prompt, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch kind := dsh.KindOf(err); {
	case err == nil:
		p.accepted, p.possible = true, true
	case kind == dsh.NotSent, kind == dsh.Refused, kind == 0 && !errors.Is(err, errDead): // the last is the ledger's
	default:
		p.possible = true
	}
}

// person makes the id of a prompt that a person sends.
func (s *sent) person() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.persons++
	return fmt.Sprintf("person-%d", s.persons)
}

// all returns the prompts; nobody sends any more.
func (s *sent) all() []*prompt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prompts
}
