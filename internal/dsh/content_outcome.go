package dsh

import "github.com/tidwall/gjson"

// Usage is what one request to the model took, in tokens. A figure that the provider did not give is 0.
type Usage struct {
	Input, Output         int64
	CacheRead, CacheWrite int64
}

// UsageOf reads the usage of an assistant/message; false when it has none.
func UsageOf(e Event) (Usage, bool) {
	u := body(e).Get("usage")
	count := func(name string) int64 { return max(0, int64(intIn(u.Get(name)))) }
	return Usage{Input: count("inputTokens"), Output: count("outputTokens"), CacheRead: count("cacheReadTokens"),
		CacheWrite: count("cacheWriteTokens")}, u.Get("inputTokens").Type == gjson.Number || u.Get("outputTokens").Type == gjson.Number
}

// Todo is one entry of an agent's list of what is to be done.
type Todo struct {
	Content string
	Status  string // "pending", "in_progress" or "completed"
}

// TodosOf reads todo/write, which replaces the list.
func TodosOf(e Event) []Todo {
	var list []Todo
	for item := range elements(body(e).Get("todos")) {
		list = append(list, Todo{Content: stringIn(item.Get("content")), Status: stringIn(item.Get("status"))})
	}
	return list
}

// ToolErrorOf reads the host's code of a tool/result that failed ("FS_NOT_FOUND"); empty when it gives none.
func ToolErrorOf(e Event) string { return stringIn(body(e).Get("error.code")) }
