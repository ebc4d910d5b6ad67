//go:build callers

package callers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// responses answers as OpenAI's Responses API does, as far as Codex listens.
func (s *story) responses(w http.ResponseWriter, request gjson.Result) {
	var results []string
	for _, item := range request.Get("input").Array() {
		if strings.HasSuffix(item.Get("type").String(), "_output") {
			results = append(results, flat(item.Get("output")))
		}
	}
	var tools []string
	spaces := map[string]string{} // tool -> the namespace that Codex offers it in
	for _, tool := range request.Get("tools").Array() {
		if tool.Get("type").String() != "namespace" {
			tools = append(tools, tool.Get("name").String())
			continue
		}
		for _, inner := range tool.Get("tools").Array() {
			name := inner.Get("name").String()
			tools = append(tools, name)
			spaces[name] = tool.Get("name").String()
		}
	}
	id := fmt.Sprintf("resp_%d", len(results))
	item := map[string]any{"type": "message", "role": "assistant", "id": "msg", "content": []any{map[string]any{"type": "output_text", "text": s.say}}}
	if next, args := s.next(results, tools); next != nil {
		item = map[string]any{"type": "function_call", "id": fmt.Sprintf("fc_%d", len(results)), "call_id": fmt.Sprintf("call_%d", len(results)),
			"name": next.tool, "arguments": string(encode(args))}
		if space, ok := spaces[next.tool]; ok {
			item["namespace"] = space
		}
	}
	w.Header().Set("content-type", "text/event-stream")
	event(w, "response.created", map[string]any{"response": map[string]any{"id": id}})
	event(w, "response.output_item.done", map[string]any{"output_index": 0, "item": item})
	event(w, "response.completed", map[string]any{"response": map[string]any{"id": id, "usage": map[string]any{
		"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": 2}}})
}

// messages answers as Anthropic's Messages API does, as far as Claude Code listens.
func (s *story) messages(w http.ResponseWriter, request gjson.Result) {
	var results []string
	for _, message := range request.Get("messages").Array() {
		for _, block := range message.Get("content").Array() {
			if block.Get("type").String() == "tool_result" {
				results = append(results, flat(block.Get("content")))
			}
		}
	}
	var tools []string
	prefix := "mcp__" + server + "__"
	for _, tool := range request.Get("tools").Array() {
		tools = append(tools, strings.TrimPrefix(tool.Get("name").String(), prefix))
	}
	block := map[string]any{"type": "text", "text": s.say}
	stop := "end_turn"
	if next, args := s.next(results, tools); next != nil {
		block = map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", len(results)), "name": prefix + next.tool, "input": args}
		stop = "tool_use"
	}
	usage := map[string]any{"input_tokens": 1, "output_tokens": 1}
	message := map[string]any{"id": "msg", "type": "message", "role": "assistant", "model": request.Get("model").String(), "content": []any{}, "stop_reason": nil, "usage": usage}
	if !request.Get("stream").Bool() {
		message["content"], message["stop_reason"] = []any{block}, stop
		w.Header().Set("content-type", "application/json")
		_, _ = w.Write(encode(message)) // a caller that went away needs no answer
		return
	}
	w.Header().Set("content-type", "text/event-stream")
	event(w, "message_start", map[string]any{"message": message})
	start, delta := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": block["text"]}
	if stop == "tool_use" {
		start = map[string]any{"type": "tool_use", "id": block["id"], "name": block["name"], "input": map[string]any{}}
		delta = map[string]any{"type": "input_json_delta", "partial_json": string(encode(block["input"]))}
	}
	event(w, "content_block_start", map[string]any{"index": 0, "content_block": start})
	event(w, "content_block_delta", map[string]any{"index": 0, "delta": delta})
	event(w, "content_block_stop", map[string]any{"index": 0})
	event(w, "message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop}, "usage": map[string]any{"output_tokens": 1}})
	event(w, "message_stop", map[string]any{})
}

// flat is the text of a tool's result, which is a string or a list of blocks.
func flat(content gjson.Result) string {
	if !content.IsArray() {
		return content.String()
	}
	var b strings.Builder
	for _, block := range content.Array() {
		b.WriteString(block.Get("text").String())
	}
	return b.String()
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps and strings can be marshalled
	}
	return data
}
