package labmodel

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// stream writes one answer as server-sent chat.completion.chunk events.
type stream struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	model string
	id    string
}

type object = map[string]any

// play streams the step and ends the answer. A client that goes away ends it early.
func (s *stream) play(ctx context.Context, step Step) {
	if step.Tool != "" {
		s.send(object{
			"role": "assistant", "content": nil,
			"tool_calls": []object{{
				"index": 0, "id": fmt.Sprintf("call_%s_%d", s.id, time.Now().UnixMilli()), "type": "function",
				"function": object{"name": step.Tool, "arguments": step.Arguments()},
			}},
		}, nil, nil)
		s.finish("tool_calls")
		return
	}
	s.send(object{"role": "assistant", "content": ""}, nil, nil)
	for word := range step.Words() {
		s.send(object{"content": word}, nil, nil)
		if !pause(ctx, step.DelayMs) {
			return
		}
	}
	s.finish("stop")
}

func (s *stream) finish(reason string) {
	s.send(object{}, reason, object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
	fmt.Fprint(s.w, "data: [DONE]\n\n")
}

// send writes one chunk. A write that fails means the client is gone; the request's context says so at the next pause.
func (s *stream) send(delta object, finish any, usage object) {
	chunk := object{
		"id": s.id, "object": "chat.completion.chunk", "model": s.model,
		"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}},
	}
	if usage != nil {
		chunk["usage"] = usage
	}
	line, err := encode(chunk)
	if err != nil {
		return
	}
	fmt.Fprintf(s.w, "data: %s\n\n", line)
	s.flush.Flush()
}
