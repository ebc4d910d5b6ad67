//go:build !linux

package lifetime

import "errors"

// process is a handle of a process; there is none here.
type process struct{}

func openProcess(int) (*process, error) { return nil, errors.ErrUnsupported }

func (*process) wait() bool { return false }

func (*process) close() {}
