package lifetime

import (
	"os"

	"golang.org/x/sys/unix"
)

// process is a handle of a process, which can be read when that one has ended (Linux 5.3 and later). A bridge that rests
// is not woken for it, where looking again and again costs more than all the rest of its idleness.
type process struct{ file *os.File }

func openProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	// Only with this the runtime waits for it without a thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &process{os.NewFile(uintptr(fd), "pidfd")}, nil
}

// wait waits for the end of the process; it returns false when close came before, or when there is no waiting for it.
func (p *process) wait() bool {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return false
	}
	return conn.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && n > 0
	}) == nil
}

func (p *process) close() { _ = p.file.Close() }
