package bridge

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// routine is what a supervising agent does with one task, from the first look to the last.
const routine = `Supervise one task that a DeepSeek agent (DSH) does for your user.

1. dsh_host_status: is a host there, can it run the model? dsh_list: does another task hold the directory?
2. Write the prompt as for somebody who knows nothing of this conversation: the goal, what must not change, how to verify, what to report. dsh_delegate it with a requestId, into a directory (best a git worktree) that nobody else edits meanwhile.
3. dsh_wait {taskId, sinceCursor: nextCursor, until: "attention"} again and again. Between waits, dsh_tail shows what it does. When it goes astray, dsh_followup with mode "steer"; when it must not go on, dsh_cancel.
4. A question: show it whole to your user, and pass their words on with dsh_answer_question. An approval: show the exact command, and pass their decision on with dsh_resolve_approval. Never decide either yourself, not even when the answer seems plain.
5. "terminal": read the final message and dsh_result, then look at the files and run the checks yourself. What the agent says of its work is no proof. Jobs or subagents that still run start another turn: wait on.
6. Not good yet: dsh_followup says what is missing. Good: tell your user what was done and what you checked, then dsh_release_workspace.

A failure has a hint that says what to do. "outcome":"unknown" means that a write may have arrived: look before you repeat it, or repeat it with its requestId. status "unknown" means that the host is away; the task is not lost.`

func (b *Bridge) registerPrompts(s *server.MCPServer) {
	s.AddPrompt(mcp.NewPrompt("supervise",
		mcp.WithPromptDescription("How to hand a task to a DeepSeek agent and stay in charge of it."),
		mcp.WithArgument("task", mcp.ArgumentDescription("What is to be done.")),
		mcp.WithArgument("cwd", mcp.ArgumentDescription("The directory to work in.")),
	), func(_ context.Context, request mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text := routine
		if task := request.Params.Arguments["task"]; task != "" {
			text += "\n\nThe task: " + task
		}
		if cwd := request.Params.Arguments["cwd"]; cwd != "" {
			text += fmt.Sprintf("\n\nThe directory: %s", cwd)
		}
		return mcp.NewGetPromptResult("Supervise a delegated task", []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text))}), nil
	})
}
