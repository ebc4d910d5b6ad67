package dshtest

import "fmt"

// job is a command that runs in the background, as session/jobs shows it.
type job struct {
	ID         string `json:"id"`
	Kind       string `json:"kind"`
	Label      string `json:"label"`
	Status     string `json:"status"`
	Detail     string `json:"detail,omitempty"`
	StartedAt  int64  `json:"startedAt"`
	FinishedAt int64  `json:"finishedAt,omitempty"`
}

// startJob runs a command in the background. The tool is done at once; the job's end comes as a message.
func (c *toolCall) startJob(command string) (result, ending) {
	t := c.t
	j := &job{Kind: "bash", Label: command, Status: "running"}
	ok := t.locked(func() {
		t.life.jobs++
		j.ID, j.StartedAt = fmt.Sprintf("bash-%d", t.life.jobs), now()
		t.s.jobs = append(t.s.jobs, j)
		t.h.showJobs(t.s)
		t.life.wait.Go(func() { t.h.runJob(t.life, t.s, j) })
	})
	if !ok {
		return result{}, vanished
	}
	text := "started background job " + j.ID
	return result{text: text, view: console(text)}, goesOn
}

func (h *Host) showJobs(s *session) {
	h.notify()
	h.frame(kindJobs, object{"sessionId": s.id, "jobs": s.jobs})
}

func (h *Host) runJob(l *life, s *session, j *job) {
	out, ok := h.shell(l.ctx, s.cwd, j.Label)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !ok || h.life != l {
		return
	}
	j.Status, j.Detail, j.FinishedAt = "completed", fmt.Sprintf("exit code: %d", out.exit), now()
	h.showJobs(s)
	state := fmt.Sprintf("[status: completed, %s]", j.Detail)
	h.deliver(s, newMessage(
		textBlocks(fmt.Sprintf("background job %s (bash: %s) finished %s. Read its output with job_output.", j.ID, j.Label, state)),
		object{"kind": "plugin", "plugin": "tool-jobs", "form": "notice", "summary": "bash " + j.Label + " " + state},
	))
}
