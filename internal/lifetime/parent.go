package lifetime

import (
	"os"
	"time"
)

// parent is who started this process, read before that one can have had time to die.
var parent = os.Getppid()

// parentPoll is the time between two looks at who the parent is, where nothing tells of its end.
const parentPoll = 1500 * time.Millisecond

// notice opens something that tells of the end of a process; a variable for tests.
var notice = openProcess

// parentGone returns a channel that is closed when the process that started this one is gone. stop ends the watch and
// waits for that.
func parentGone() (gone <-chan struct{}, stop func()) {
	over, stopped, watched := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p, err := notice(parent)
	go func() {
		defer close(watched)
		// One that died before it was opened has left its number to somebody else.
		if err == nil && os.Getppid() == parent && p.wait() {
			close(over)
			return
		}
		tick := time.NewTicker(parentPoll)
		defer tick.Stop()
		for os.Getppid() == parent {
			select {
			case <-tick.C:
			case <-stopped:
				return
			}
		}
		close(over)
	}()
	return over, func() {
		close(stopped)
		if err == nil {
			p.close()
		}
		<-watched
	}
}
