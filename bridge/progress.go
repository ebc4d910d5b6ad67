package bridge

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"dsh-agentlink/ledger"
	"dsh-agentlink/mux"
)

// progressEvery is the shortest time between two notifications of progress.
const progressEvery = 500 * time.Millisecond

// progressAlive is how long a wait may be silent while nothing changes.
const progressAlive = 5 * time.Second

// progress tells a client that wants to know how a wait goes on.
type progress struct {
	send  func(params map[string]any)
	began time.Time
	said  string    // what was told last
	at    time.Time // when
}

type progressKey struct{}

// withProgress makes the client of a request reachable for progress, if it has asked for that.
func withProgress(ctx context.Context, request mcp.CallToolRequest) context.Context {
	s := server.ServerFromContext(ctx)
	if s == nil || request.Params.Meta == nil || request.Params.Meta.ProgressToken == nil {
		return ctx
	}
	token := request.Params.Meta.ProgressToken
	return context.WithValue(ctx, progressKey{}, func(params map[string]any) {
		params["progressToken"] = token
		// A client that does not read its notifications must not hold up the call.
		_ = s.SendNotificationToClient(ctx, "notifications/progress", params)
	})
}

// progressOf returns how to tell the client of a call; nil when it does not want to know.
func progressOf(ctx context.Context, now time.Time) *progress {
	send, ok := ctx.Value(progressKey{}).(func(map[string]any))
	if !ok {
		return nil
	}
	return &progress{send: send, began: now}
}

// tell says how the tasks stand, when that has changed or has not been said for a while. Its progress is the time that
// has passed, of the time that the call waits.
func (p *progress) tell(watched []*watch, total time.Duration, now time.Time) {
	said := standing(watched)
	if said == p.said && now.Sub(p.at) < progressAlive {
		return
	}
	p.said, p.at = said, now
	elapsed := now.Sub(p.began).Round(time.Second / 10)
	p.send(map[string]any{"progress": elapsed.Seconds(), "total": total.Seconds(), "message": fmt.Sprintf("%s, %s", said, elapsed.Round(time.Second))})
}

// standing is where one task is, or how many of several are where.
func standing(watched []*watch) string {
	if len(watched) == 1 {
		return doing(watched[0].snap, watched[0].t.Doing())
	}
	counts := map[ledger.Execution]int{}
	var order []ledger.Execution
	for _, w := range watched {
		if counts[w.snap.Execution] == 0 {
			order = append(order, w.snap.Execution)
		}
		counts[w.snap.Execution]++
	}
	parts := make([]string, 0, len(order))
	for _, e := range order {
		parts = append(parts, fmt.Sprintf("%d %s", counts[e], e))
	}
	return strings.Join(parts, ", ")
}

func doing(snap mux.Snapshot, now mux.Doing) string {
	said := string(snap.Execution)
	if snap.Turn.Number > 0 {
		said += fmt.Sprintf(", turn %d", snap.Turn.Number)
	}
	if snap.Turn.Open() && now.Step > 0 {
		said += fmt.Sprintf(", step %d", now.Step)
	}
	if snap.Turn.Open() && now.Tool != "" {
		said += ", " + now.Tool
	}
	return said
}
