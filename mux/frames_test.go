package mux

import (
	"cmp"
	"encoding/json"
	"fmt"

	"dsh-agentlink/internal/dsh"
)

// The frames of the wire.

func frameOf(kind dsh.FrameKind, session, rpcID string, payload map[string]any) dsh.Frame {
	payload["type"], payload["sessionId"] = string(kind), session
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	return dsh.Frame{Kind: kind, RPCID: rpcID, SessionID: session, Payload: raw}
}

func eventFrame(session string, ev dsh.Event) dsh.Frame {
	f := dsh.Frame{Kind: dsh.FrameEvent, RPCID: "r", SessionID: session, EventType: ev.Type, Seq: ev.Seq}
	if ev.Type != dsh.EventChunk {
		f.Payload = fmt.Appendf(nil, `{"type":"session/event","sessionId":%q,"event":{"type":%q,"seq":%d,"time":%d,"data":%s}}`,
			session, ev.Type, ev.Seq, ev.Time, cmp.Or(string(ev.Data), "{}"))
	}
	return f
}

func subscribedFrame(session string, last int64) dsh.Frame {
	f := frameOf(dsh.FrameSubscribed, session, "r", map[string]any{"lastSeq": last})
	f.Seq = last
	return f
}

func questionFrame(session, rpcID, text string) dsh.Frame {
	return frameOf(dsh.FrameQuestionRequested, session, rpcID, map[string]any{"questions": []any{map[string]any{"id": "q", "question": text}}})
}

func answeredFrame(session, rpcID string) dsh.Frame {
	return frameOf(dsh.FrameQuestionResolved, session, "r", map[string]any{"questionRpcId": rpcID, "outcome": "answered"})
}

func approvalFrame(session, rpcID, approvalID string) dsh.Frame {
	return frameOf(dsh.FrameApprovalRequested, session, rpcID, map[string]any{"approvalId": approvalID, "toolName": "bash", "callId": "c", "reason": "because"})
}

func decidedFrame(session, approvalID string) dsh.Frame {
	return frameOf(dsh.FrameApprovalResolved, session, "r", map[string]any{"approvalId": approvalID, "outcome": "allowed-once"})
}

func queueFrame(session string, ids ...string) dsh.Frame {
	items := []any{}
	for _, id := range ids {
		items = append(items, map[string]any{"id": id, "placement": "queued"})
	}
	return frameOf(dsh.FrameQueue, session, "r", map[string]any{"items": items})
}

func jobsFrame(session, status string) dsh.Frame {
	return frameOf(dsh.FrameJobs, session, "r", map[string]any{"jobs": []any{map[string]any{"id": "bash-1", "kind": "bash", "label": "a label", "status": status, "startedAt": 1}}})
}
