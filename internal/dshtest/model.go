package dshtest

import (
	"fmt"
	"strings"
	"time"

	"dsh-agentlink/internal/labmodel"
)

// What the scripted host runs on.
const (
	key           = "DEEPSEEK_API_KEY" // the name of the provider's key
	provider      = "deepseek-official"
	model         = "deepseek-v4-flash"
	titleProvider = "session-title-first-prompt-llm"
)

// modelFailure is why a model request failed.
type modelFailure struct {
	Message string `json:"message"`
	Code    string `json:"code"`
	Status  int    `json:"status,omitempty"`
}

// passing says that a repetition may help.
func (f *modelFailure) passing() bool {
	return f.Code == "SERVER" || f.Code == "RATE_LIMIT" || f.Code == "EMPTY_RESPONSE"
}

// failureOf is the failure that a step scripts, or nil.
func failureOf(step labmodel.Step) *modelFailure {
	f := &modelFailure{Message: "lab", Status: step.Status}
	switch {
	case step.Status == 0:
		return nil
	case step.Status == 400:
		f.Code = "INVALID_REQUEST"
	case step.Status == 401 || step.Status == 403:
		f.Code = "AUTH"
	case step.Status == 429:
		f.Code = "RATE_LIMIT"
	case step.Status >= 500:
		f.Code = "SERVER"
	default:
		f.Code = fmt.Sprintf("HTTP_%d", step.Status)
	}
	return f
}

// empty is what the host makes of an answer without anything in it.
var empty = &modelFailure{Message: "model returned a completed response with no content", Code: "EMPTY_RESPONSE"}

// outcome is how a step came out.
type outcome struct {
	ending  ending
	failure *modelFailure // of a failed step
	silent  bool          // an aborted step in which the model had said nothing
}

// answer plays the model's answer and the tool call in it.
func (t *turn) answer(step labmodel.Step) outcome {
	if f := failureOf(step); f != nil {
		return t.fail(f)
	}
	if step.HangMs > 0 && !t.locked(t.settleTitle) {
		return outcome{ending: vanished}
	}
	if !pause(t.ctx, time.Duration(step.HangMs)*time.Millisecond) {
		return outcome{ending: t.stopped(), silent: true}
	}
	switch {
	case step.Tool != "":
		return t.call(step)
	case step.Say == "":
		return t.fail(empty)
	}
	return t.say(step)
}

// stopped tells a stop from the death of the host, when ctx ended.
func (t *turn) stopped() ending {
	if t.life.ctx.Err() != nil {
		return vanished
	}
	return aborted
}

// chunks collects what is streamed of one answer.
type chunks struct {
	t    *turn
	seqs []int64
	text strings.Builder
}

// add streams one chunk.
func (c *chunks) add(chunk any) {
	data := struct {
		Turn  int `json:"turn"`
		Step  int `json:"step"`
		Chunk any `json:"chunk"`
	}{c.t.number, c.t.step, chunk}
	c.seqs = append(c.seqs, c.t.h.emit(c.t.s, eventChunk, data))
}

// word streams a piece of text.
func (c *chunks) word(text string) {
	c.text.WriteString(text)
	c.seqs = append(c.seqs, c.t.h.emit(c.t.s, eventChunk, textDelta(c.t.number, c.t.step, text)))
}

// deltaData is the data of a text-delta chunk, the event a host makes most of.
type deltaData struct {
	Turn  int   `json:"turn"`
	Step  int   `json:"step"`
	Chunk delta `json:"chunk"`
}

type delta struct {
	Type  string `json:"type"`
	Index int    `json:"index"`
	Text  string `json:"text"`
}

func textDelta(turn, step int, text string) deltaData {
	return deltaData{turn, step, delta{Type: "text-delta", Text: text}}
}

// usage is what every scripted answer costs.
var usage = object{"inputTokens": 10, "outputTokens": 5}

// close ends the streaming of a block and the answer, and records the whole message.
func (c *chunks) close(block object, finish string) {
	c.add(object{"type": "block-end", "index": 0, "block": block})
	c.add(object{"type": "usage", "usage": usage})
	c.add(object{"type": "finish", "reason": object{"kind": finish}})
	data := c.t.at()
	data["message"] = assistantMessage(block)
	data["usage"] = usage
	c.t.h.emitMessage(c.t.s, eventAssistant, data, c.seqs, nil)
}

// cutShort records what there is of a message whose streaming was stopped.
func (c *chunks) cutShort() {
	data := c.t.at()
	data["message"] = assistantMessage(object{"type": "text", "text": c.text.String()})
	data["interrupted"] = true
	c.t.h.emitMessage(c.t.s, eventAssistant, data, c.seqs, nil)
	c.t.s.reply = c.text.String()
}

func assistantMessage(block object) object {
	return object{
		"role": "assistant", "content": []object{block}, "id": newID(),
		"source": object{"kind": "model", "provider": provider, "model": model},
	}
}

// say streams words, and ends the turn unless a message waits to steer it.
func (t *turn) say(step labmodel.Step) outcome {
	c := &chunks{t: t}
	wait := time.Duration(step.DelayMs) * time.Millisecond
	for word := range step.Words() {
		if !t.locked(func() {
			if len(c.seqs) == 0 {
				c.add(object{"type": "block-start", "index": 0, "blockType": "text"})
			}
			c.word(word)
			if wait > 0 {
				t.settleTitle()
			}
		}) {
			return outcome{ending: vanished}
		}
		// The first chunk is the beginning of the block.
		if !t.h.pace(t.ctx, len(c.seqs)-1, wait) {
			if !t.locked(c.cutShort) {
				return outcome{ending: vanished}
			}
			return outcome{ending: aborted}
		}
	}
	if !t.locked(func() {
		t.s.reply = c.text.String()
		c.close(object{"type": "text", "text": c.text.String()}, "stop")
	}) {
		return outcome{ending: vanished}
	}
	return outcome{ending: completed}
}

// call streams a tool call and runs the tool.
func (t *turn) call(step labmodel.Step) outcome {
	use := &toolCall{t: t, name: step.Tool, arguments: step.Arguments()}
	if !t.locked(func() {
		t.life.answers++
		use.id = fmt.Sprintf("call_lab-%d_%d", t.life.answers, now())
		c := &chunks{t: t}
		c.add(object{"type": "block-start", "index": 0, "blockType": "tool-call"})
		c.add(object{"type": "tool-call-delta", "index": 0, "id": use.id, "name": use.name, "argumentsDelta": use.arguments})
		c.close(object{"type": "tool-call", "id": use.id, "name": use.name, "arguments": use.arguments}, "tool-calls")
		data := t.at()
		data["callId"], data["name"], data["arguments"] = use.id, use.name, use.arguments
		use.seq = t.h.emitView(t.s, eventToolCall, data, use.view())
		t.settleTitle()
	}) {
		return outcome{ending: vanished}
	}
	return outcome{ending: use.run()}
}

// maxRetries is how often the host repeats a model request.
const maxRetries = 5

// fail plays a failing model request, with its repetitions.
func (t *turn) fail(f *modelFailure) outcome {
	retryID := newID()
	for retry := 0; ; retry++ {
		last := retry == maxRetries || !f.passing()
		if !t.locked(func() {
			if retry > 0 {
				data := t.at()
				data["retryId"], data["retry"] = retryID, retry
				t.h.emit(t.s, "llm/retry-started", data)
			}
			data := t.at()
			data["chunk"] = object{"type": "finish", "reason": object{"kind": "error", "failure": f}}
			t.h.emit(t.s, eventChunk, data)
			if !last {
				t.h.emit(t.s, "llm/retry", t.retryData(retryID, retry+1, f))
				t.settleTitle()
			}
		}) {
			return outcome{ending: vanished}
		}
		if last {
			return outcome{ending: failed, failure: f}
		}
		if !pause(t.ctx, t.h.opts.RetryDelay) {
			return outcome{ending: t.stopped()}
		}
	}
}

func (t *turn) retryData(id string, retry int, f *modelFailure) object {
	data := t.at()
	data["retryId"], data["retry"], data["maxRetries"] = id, retry, maxRetries
	data["provider"], data["mode"] = provider, "normal"
	data["policyKey"] = `["normal",5,["EMPTY_RESPONSE","RATE_LIMIT","SERVER","TIMEOUT","TRANSPORT"],500,10000,0.1]`
	data["delayMs"] = t.h.opts.RetryDelay.Milliseconds()
	data["failure"] = f
	return data
}

// contextMessage is the host's own message in front of a session's first answer.
func contextMessage(s *session) *message {
	files := "The file policy is workspace-write below " + quote(s.cwd) + "."
	approvals := "Operations that need approval may ask for it."
	sections := []object{{"name": "sandbox:policy", "text": files}, {"name": "approval:policy", "text": approvals}}
	if s.subagent() {
		sections = append(sections, object{"name": "subagent:delegation", "text": "You work for another agent."})
	}
	return newMessage(textBlocks("Current runtime context.\n\n"+files+"\n\n"+approvals), object{
		"kind": "plugin", "plugin": "@deepseek-ai/dsh-system-prompt", "form": "snapshot", "sections": sections,
	})
}

// titleRequest is the data of a session/title-llm-request event.
func titleRequest(seq int64, text string) object {
	asked := encode([]object{{"seq": seq, "text": text}})
	ask := newMessage(textBlocks("Generate the session title from this JSON array of human messages:\n"+string(asked)),
		object{"kind": "plugin", "plugin": "dsh-session-title-llm"})
	return object{
		"titleProvider": titleProvider, "messageSeqs": []int64{seq}, "route": object{"provider": provider, "model": model},
		"system": "Make a title.", "messages": []*message{ask}, "maxTokens": 64,
	}
}
