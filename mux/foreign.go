package mux

import (
	"slices"

	"dsh-agentlink/internal/dsh"
)

// foreign keeps the requests that wait in sessions which are no task's of this process: another process of the home may
// have a task there, and somebody may ask for it here, long after the burst that brought its requests. Nothing of them
// is decoded as long as nobody answers.
type foreign struct {
	asked  map[string][]dsh.Frame // by session, oldest first
	count  int
	forgot bool // some could not be kept
}

// maxForeign bounds the requests that are kept of other people's sessions: each waits for a person.
const maxForeign = 1024

func newForeign() foreign { return foreign{asked: map[string][]dsh.Frame{}} }

// keep looks at a frame of a session that belongs to nobody here.
func (f *foreign) keep(frame dsh.Frame) {
	switch frame.Kind {
	case dsh.FrameQuestionRequested, dsh.FrameApprovalRequested:
		if f.count >= maxForeign {
			f.forgot = true
			return
		}
		f.asked[frame.SessionID] = append(f.asked[frame.SessionID], frame)
		f.count++
	case dsh.FrameQuestionResolved, dsh.FrameApprovalResolved:
		f.settle(frame)
	}
}

// settle drops the request that a frame resolves.
func (f *foreign) settle(frame dsh.Frame) {
	asked := f.asked[frame.SessionID]
	if len(asked) == 0 {
		return
	}
	resolution, err := frame.Resolution()
	if err != nil {
		return
	}
	left := slices.DeleteFunc(asked, func(request dsh.Frame) bool {
		if frame.Kind == dsh.FrameQuestionResolved {
			return request.RPCID == resolution.RequestRPCID
		}
		approval, err := request.Approval()
		return request.Kind == dsh.FrameApprovalRequested && err == nil && approval.ApprovalID == resolution.ApprovalID
	})
	f.count -= len(asked) - len(left)
	f.asked[frame.SessionID] = left
	if len(left) == 0 {
		delete(f.asked, frame.SessionID)
	}
}

// release returns what was kept of a session, and forgets it.
func (f *foreign) release(session string) []dsh.Frame {
	frames := f.asked[session]
	f.count -= len(frames)
	delete(f.asked, session)
	return frames
}
