package sim

import (
	"context"
	"errors"
	"sync"
)

// errDead is what a killed process gets for everything it still tries.
var errDead = errors.New("the process was killed")

// process is one process of a bridge as the machine sees it: it can be killed at any moment, and from then on nothing it
// does reaches the disk or the host. What is left of it in memory is torn down without a trace.
type process struct {
	name string
	ctx  context.Context // ends with the process
	stop context.CancelFunc
	dice *dice

	mu   sync.Mutex
	dead bool
	fuse int // operations until the process dies in the middle of one; 0 for never
}

func newProcess(name string, seed uint64) *process {
	p := &process{name: name, dice: newDice(seed, "process", name)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead
}

// light makes the process die inside the operation that many operations ahead; with 0 it dies of none.
func (p *process) light(operations int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fuse = operations
}

// kill ends the process.
func (p *process) kill() {
	p.mu.Lock()
	p.dead = true
	p.mu.Unlock()
	p.stop()
}

// fate is how an operation of a process comes out.
type fate int

const (
	lives       fate = iota
	gone             // the process is dead, nothing happens
	diesBefore       // it dies before the operation had an effect
	diesWithin       // it dies while the operation is under way
	diesBehind       // it dies when the effect is there, before it learns of it
	fatesOfADie = 3
)

// enter begins an operation that has an effect outside of the process.
func (p *process) enter() fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return gone
	}
	if p.fuse == 0 {
		return lives
	}
	if p.fuse--; p.fuse > 0 {
		return lives
	}
	return diesBefore + fate(p.dice.upTo(fatesOfADie-1))
}
