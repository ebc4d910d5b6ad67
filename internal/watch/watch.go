package watch

import (
	"context"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"dsh-agentlink/internal/dsh"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/operator"
)

// Options is what a watch shows, and where.
type Options struct {
	Operator *operator.Operator
	Host     dsh.Host
	HostURL  string // as shown
	Home     *home.Home
	// In and Out are a terminal's.
	In  io.Reader
	Out io.Writer
	// Now is the clock of ages; nil means time.Now.
	Now func() time.Time
}

// Run shows the watch until its user quits or ctx ends, neither of which is an error, and leaves the terminal as it was.
func Run(ctx context.Context, opts Options) error {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	// The caller's context takes care of signals.
	return run(ctx, opts, usualPace, tea.WithInput(opts.In), tea.WithOutput(opts.Out), tea.WithoutSignalHandler())
}

func run(ctx context.Context, opts Options, pace pace, screen ...tea.ProgramOption) error {
	watching, stop := context.WithCancel(ctx)
	r := &runner{ctx: watching, opts: opts, looks: newLooks(opts, pace)}
	program := tea.NewProgram(newModel(r, opts), screen...)
	// It is told to quit, and not given the context: a program whose context ends closes its input while it still reads
	// from it (charmbracelet/bubbletea#1599).
	defer context.AfterFunc(ctx, program.Quit)()
	r.send = program.Send
	r.tasks.Go(func() { r.looks.run(watching, program.Send) })
	r.tasks.Go(func() { r.looks.listen(watching) })
	_, err := program.Run()
	stop()
	r.tasks.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// runner does for the model what takes time. Its methods return at once, and are called by the program's goroutine only.
type runner struct {
	ctx   context.Context
	opts  Options
	looks *looks
	send  func(tea.Msg)
	tasks sync.WaitGroup
	shut  context.CancelFunc // ends the tail that is open; nil when none is
}

var _ actions = (*runner)(nil)

// refresh has the tasks looked at now.
func (r *runner) refresh() { r.looks.wake(r.looks.asked) }

// openTail begins to follow a task; its messages carry the number.
func (r *runner) openTail(taskID string, number int) {
	r.closeTail()
	ctx, cancel := context.WithCancel(r.ctx)
	r.shut = cancel
	r.tasks.Go(func() {
		err := follow(ctx, r.opts.Operator, taskID, func(t operator.Tail) { r.send(tailMsg{number, t}) })
		if ctx.Err() == nil {
			r.send(tailEndMsg{number, err})
		}
	})
}

// closeTail ends what openTail began.
func (r *runner) closeTail() {
	if r.shut != nil {
		r.shut()
		r.shut = nil
	}
}

// tailEvents is how many events a tail begins with.
const tailEvents = 200

// follow shows a task's events until ctx ends.
func follow(ctx context.Context, o *operator.Operator, taskID string, show func(operator.Tail)) (err error) {
	feed, err := o.Feed(ctx, taskID, nil, tailEvents)
	if err != nil {
		return err
	}
	defer func() {
		if e := feed.Close(); err == nil {
			err = e
		}
	}()
	return feed.Follow(ctx, func(t operator.Tail) error {
		show(t)
		return nil
	})
}
