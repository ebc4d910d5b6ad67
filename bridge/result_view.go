package bridge

// resultAnswer is what a turn did. Every item names the event it was read from: seq, and sessionId where that is not
// the task's own session.
type resultAnswer struct {
	TaskID    string `json:"taskId"`
	Turn      int    `json:"turn,omitempty"`
	State     string `json:"state"`
	Starting  bool   `json:"starting,omitempty"` // a prompt was accepted that is no turn yet
	StartedAt string `json:"startedAt,omitempty"`
	// Millis is from the turn's start to its last event.
	Millis int64    `json:"ms,omitempty"`
	Steps  int      `json:"steps,omitempty"`
	Tokens *tokens  `json:"tokens,omitempty"`
	Seqs   []int64  `json:"seqs,omitempty"` // first and last event
	Final  *message `json:"finalMessage,omitempty"`

	Files     []resultFile    `json:"files,omitempty"`
	Commands  []resultCommand `json:"commands,omitempty"`
	Tests     []resultTest    `json:"tests,omitempty"`
	Git       []resultGit     `json:"git,omitempty"`
	Todos     *resultTodos    `json:"todos,omitempty"`
	Subagents []resultChild   `json:"subagents,omitempty"`
	Jobs      []resultJob     `json:"jobs,omitempty"`
	Warnings  []resultWarning `json:"warnings,omitempty"`

	Left               map[string]left `json:"left,omitempty"`
	ContentUnavailable string          `json:"contentUnavailable,omitempty"`

	root string // the task's own session
}

// pointer is the event an item was read from.
type pointer struct {
	Seq       int64  `json:"seq"`
	SessionID string `json:"sessionId,omitempty"`
}

type tokens struct {
	In         int64 `json:"in"`
	Out        int64 `json:"out"`
	CacheRead  int64 `json:"cacheRead,omitempty"`
	CacheWrite int64 `json:"cacheWrite,omitempty"`
}

type resultFile struct {
	Path   string `json:"path"`
	Change string `json:"change"`
	Tool   string `json:"tool"`
	Times  int    `json:"times,omitempty"` // when more than once
	pointer
}

type resultCommand struct {
	Command  string `json:"command"`
	Dir      string `json:"dir,omitempty"`
	Exit     *int   `json:"exit,omitempty"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timedOut,omitempty"`
	Job      string `json:"job,omitempty"`
	State    string `json:"state,omitempty"`
	Output   string `json:"output,omitempty"`
	Chars    int    `json:"chars,omitempty"` // full length of an output that was cut
	pointer
}

type resultTest struct {
	Runner   string `json:"runner"`
	Passed   *int   `json:"passed,omitempty"`
	Failed   *int   `json:"failed,omitempty"`
	Skipped  *int   `json:"skipped,omitempty"`
	Errors   *int   `json:"errors,omitempty"`
	PkgsOK   *int   `json:"packagesOk,omitempty"`
	PkgsFail *int   `json:"packagesFailed,omitempty"`
	Unsure   bool   `json:"unsure,omitempty"` // whether it ran is not told
	pointer
}

type resultGit struct {
	Kind   string `json:"kind"`
	Action string `json:"action"`
	Name   string `json:"name,omitempty"`
	Hash   string `json:"hash,omitempty"`
	Title  string `json:"title,omitempty"`
	pointer
}

type resultTodos struct {
	Completed int          `json:"completed"`
	Open      []resultTodo `json:"open,omitempty"`
	pointer
}

type resultTodo struct {
	Text   string `json:"text"`
	Status string `json:"status"`
}

// resultChild is a turn of a subagent; seq is its start in the subagent's own session.
type resultChild struct {
	SessionID string  `json:"sessionId"`
	Parent    string  `json:"parentSessionId,omitempty"`
	Label     string  `json:"label,omitempty"`
	Mode      string  `json:"mode,omitempty"`
	Turn      int     `json:"turn"`
	State     string  `json:"state"`
	Millis    int64   `json:"ms,omitempty"`
	Tokens    *tokens `json:"tokens,omitempty"`
	Seq       int64   `json:"seq"`
	FinalSeq  *int64  `json:"finalSeq,omitempty"`
}

type resultJob struct {
	ID    string `json:"id"`
	Label string `json:"label,omitempty"` // of a job that began before the turn
	// Seq is the call that started it, which is among the commands; absent for a job that began before the turn.
	Seq       *int64 `json:"seq,omitempty"`
	SessionID string `json:"sessionId,omitempty"`
}

type resultWarning struct {
	Kind    string  `json:"kind"`
	Tool    string  `json:"tool,omitempty"`
	Detail  string  `json:"detail,omitempty"`
	Failure string  `json:"message,omitempty"`
	Code    string  `json:"code,omitempty"`
	Status  int     `json:"status,omitempty"`
	Seqs    []int64 `json:"seqs,omitempty"`
	// SessionID is that of the seqs when it is not the task's own.
	SessionID string `json:"sessionId,omitempty"`
}

// left is what a list leaves out for want of room, with the range of its seqs in the task's own session.
type left struct {
	Count int   `json:"count"`
	From  int64 `json:"fromSeq,omitempty"`
	To    int64 `json:"toSeq,omitempty"`
}
