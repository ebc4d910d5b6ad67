package bridge

import (
	"context"
	"encoding/json"

	"dsh-agentlink/internal/requests"
	"dsh-agentlink/internal/tasks"
)

// claimRequest makes sure that a requestId makes one task, whatever number of calls and processes bring it, and that
// one of them at a time works on its launch. It returns the task that an earlier call made, or the fresh one.
func (b *Bridge) claimRequest(ctx context.Context, fresh tasks.Task, requestID string, args any) (task tasks.Task, known bool, release func(), err error) {
	data, err := json.Marshal(args)
	if err != nil {
		return fresh, false, nil, err
	}
	request := tasks.NewRequest(requestID, data)
	release, err = b.launchLock(ctx, requestID)
	if err != nil {
		return fresh, false, nil, err
	}
	task, known, err = b.earlier(fresh, requestID, request)
	if err != nil {
		release()
		return fresh, false, nil, err
	}
	return task, known, release, nil
}

// launchLock makes sure that one call at a time, of all processes, works on what the key names.
func (b *Bridge) launchLock(ctx context.Context, key string) (release func(), err error) {
	unlock, err := b.requests.lock(ctx, key)
	if err != nil {
		return nil, err
	}
	// One of 256 files, since a lock file is never removed.
	launching := b.opts.Home.Lock(b.opts.Home.LaunchLock(tasks.NewRequest(key, nil).ID))
	if err := launching.Acquire(ctx, b.opts.LockTimeout); err != nil {
		unlock()
		return nil, err
	}
	return func() {
		if err := launching.Release(); err != nil {
			b.log.Error("release a lock", "path", launching.Path(), "err", err)
		}
		unlock()
	}, nil
}

// earlier returns the task that a call with this requestId made before, or the fresh one with the request noted in it.
func (b *Bridge) earlier(fresh tasks.Task, requestID string, request tasks.Request) (tasks.Task, bool, error) {
	before, found, err := b.tasks.FindRequest(requestID, b.now().Add(-requests.Lifetime))
	if err != nil {
		return fresh, false, err
	}
	if !found {
		fresh.Request = &request
		return fresh, false, nil
	}
	if before.Request == nil || *before.Request != request {
		return fresh, false, (&Error{Code: CodeRequestIDConflict, Message: "this requestId was used for a delegation with other arguments",
			Hint: "Use a new requestId for a new delegation."}).with("taskId", before.TaskID)
	}
	return before, true, nil
}
