package main

import (
	"context"
	"encoding/json"

	"github.com/tidwall/gjson"

	"dsh-agentlink/bench/internal/plain"
)

// event is what the floor takes of an event.
type event struct {
	kind      string
	seq, time int64
	data      string
}

// parsed fetches a session's whole history and parses every event of it, the body left as it is.
func parsed(ctx context.Context, host *plain.Reader, sessionID string) ([]event, error) {
	answer, err := wholeHistory(ctx, host, sessionID)
	if err != nil {
		return nil, err
	}
	var events []event
	gjson.Get(answer, "result.value.events").ForEach(func(_, entry gjson.Result) bool {
		var e event
		entry.Get("event").ForEach(func(key, value gjson.Result) bool {
			switch key.Str {
			case "type":
				e.kind = value.Str
			case "seq":
				e.seq = value.Int()
			case "time":
				e.time = value.Int()
			case "data":
				e.data = value.Raw
			}
			return true
		})
		events = append(events, e)
		return true
	})
	return events, nil
}

// decoded is the same with encoding/json, for comparison.
func decoded(ctx context.Context, host *plain.Reader, sessionID string) (int, error) {
	answer, err := wholeHistory(ctx, host, sessionID)
	if err != nil {
		return 0, err
	}
	var page struct {
		Result struct {
			Value struct {
				Events []struct {
					Event struct {
						Type string
						Seq  int64
						Time int64
						Data json.RawMessage
					}
				}
			}
		}
	}
	err = json.Unmarshal([]byte(answer), &page)
	return len(page.Result.Value.Events), err
}

func wholeHistory(ctx context.Context, host *plain.Reader, sessionID string) (string, error) {
	call, err := plain.NewCall("session.history", map[string]any{"sessionId": sessionID, "maxMessages": 100_000})
	if err != nil {
		return "", err
	}
	return host.Post(ctx, call)
}
