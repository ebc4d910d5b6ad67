package dshtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"dsh-agentlink/internal/labmodel"
)

// texts are the prompts and answers of a session, in order, without the host's context.
func texts(h *Host, id string) []string {
	var all []string
	for _, e := range h.Events(id) {
		switch e.Type {
		case eventUser:
			if gjson.GetBytes(e.Data, "source.kind").String() != "plugin" {
				text, _, _ := strings.Cut(gjson.GetBytes(e.Data, "content.0.text").String(), " LAB:")
				all = append(all, "> "+text)
			}
		case eventAssistant:
			if text := gjson.GetBytes(e.Data, "message.content.0.text").String(); text != "" {
				all = append(all, text)
			}
		case eventTurnEnd:
			all = append(all, gjson.GetBytes(e.Data, "reason.kind").String())
		}
	}
	return all
}

func prompted(text string, steps ...labmodel.Step) string {
	return labmodel.Script{Steps: steps}.Prompt(text)
}

// Each waiting message has a turn of its own, as long as turns complete.
func TestQueuedTurns(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	tell(t, h, id, "queue", prompted("ask", askStep("q"), labmodel.Step{Say: "first"}))
	question := pendingOf(t, h)
	tell(t, h, id, "queue", prompted("a", labmodel.Step{Say: "second"}))
	tell(t, h, id, "queue", prompted("b", labmodel.Step{Status: 400}))
	tell(t, h, id, "queue", prompted("c", labmodel.Step{Say: "never"}))
	answer(t, h, question.RPCID, object{"ok": true, "value": object{"sessionId": id, "answer": object{
		"answers": []object{{"id": "q", "selected": []string{}}}}}})
	if err := h.WaitIdle(within(t), id); err != nil {
		t.Fatal(err)
	}
	want := []string{"> ask", "first", "completed", "> a", "second", "completed", "> b", "error"}
	if got := texts(h, id); !slices.Equal(got, want) {
		t.Errorf("said %q", got)
	}
	if s := h.Sessions()[0]; len(s.Queued) != 1 {
		t.Errorf("%d messages wait after the failure", len(s.Queued))
	}
}

// A message that steers enters the running turn, also when the model had said its last word.
func TestSteering(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	w := watch(t, h)
	h.HoldWork(3)
	tell(t, h, id, "queue", prompted("slow", labmodel.Step{Say: "w ", Repeat: 20, DelayMs: 1}))
	w.has(t, eventChunk, 3)
	tell(t, h, id, "queue", prompted("later", labmodel.Step{Say: "queued"}))
	tell(t, h, id, "steer", prompted("now", labmodel.Step{Say: "steered"}))
	h.ReleaseWork()
	w.has(t, eventTurnEnd, 2)
	want := []string{"> slow", strings.Repeat("w ", 20), "> now", "steered", "completed", "> later", "queued", "completed"}
	if got := texts(h, id); !slices.Equal(got, want) {
		t.Errorf("said %q", got)
	}
	tell(t, h, id, "steer", prompted("idle", labmodel.Step{Say: "woken"}))
	if err := h.WaitIdle(within(t), id); err != nil {
		t.Fatal(err)
	}
	if got := texts(h, id); !slices.Equal(got[len(want):], []string{"> idle", "woken", "completed"}) {
		t.Errorf("said %q", got[len(want):])
	}
}

// The message a prompt becomes carries the rpcId of the call.
func TestPromptIsFoundByItsRPCID(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	rpcID := tell(t, h, id, "queue", "hello")
	event, err := h.WaitEvent(within(t), id, eventUser, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := gjson.GetBytes(event.Data, "source.rpcId").String(); got != rpcID {
		t.Errorf("source.rpcId = %s, want %s", got, rpcID)
	}
}

// A long turn of many steps takes no time of its own.
func TestLoop(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	tell(t, h, id, "queue", labmodel.Script{Loop: 600}.Prompt("go"))
	if err := h.WaitIdle(within(t), id); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range h.Events(id) {
		count[e.Type]++
	}
	if count[eventToolCall] != 600 || count[eventToolResult] != 600 || count[eventStepEnd] != 601 || count[eventTurnEnd] != 1 {
		t.Errorf("events: %v", count)
	}
}

// Agents start agents, and hear of those they did not wait for.
func TestNestedAgents(t *testing.T) {
	h := started(t, Options{})
	id := newRoot(t, h)
	grandchild := labmodel.Step{Say: "deep"}
	tell(t, h, id, "queue", prompted("go", childStep(childStep(grandchild, false), false), childStep(labmodel.Step{Say: "aside"}, true)))
	// The prompt, the host's context, and the notice of the agent in the background.
	notice, err := h.WaitEvent(within(t), id, eventUser, 3)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(notice.Data), `"aside"`) {
		t.Errorf("the notice is %s", notice.Data)
	}
	first, err := h.WaitSubagent(within(t), id, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.WaitSubagent(within(t), first, 1); err != nil {
		t.Error(err)
	}
	list, _ := try(t, h, "subagent.list", object{"parentSessionId": id})
	modes := gjson.GetBytes(list, "entries.#.mode").String()
	if modes != `["one-shot","continuable"]` || !gjson.GetBytes(list, "entries.0.hasChildren").Bool() {
		t.Errorf("children: %s", list)
	}
	// Only a continuable agent takes more work, and only through its parent.
	address := object{"parentSessionId": id, "childSessionId": gjson.GetBytes(list, "entries.1.id").String(), "mode": modeContinuable}
	address["content"] = textBlocks("more")
	if _, refused := try(t, h, "subagent.prompt", address); refused != nil {
		t.Errorf("subagent.prompt: %+v", refused)
	}
	address["childSessionId"] = first
	if _, refused := try(t, h, "subagent.prompt", address); refused == nil || refused.Code != "subagent-not-found" {
		t.Errorf("subagent.prompt to a one-shot agent: %+v", refused)
	}
}

// Whatever is sent to a session and in whichever order, its log stays a log: contiguous, turns and steps inside each
// other, every message accounted for, and the stream the same as the log.
func TestLogInvariants(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := New(Options{})
		if err := h.Start(); err != nil {
			r.Fatal(err)
		}
		defer h.Close()
		id := newRoot(t, h)
		sent := map[string]bool{}
		step := rapid.SampledFrom([]labmodel.Step{
			{Say: "words of it"}, {Say: "w ", Repeat: 3, DelayMs: 1}, {Status: 400}, {Status: 500}, {HangMs: 1, Say: "late"},
			bashStep("echo a"), bashStep("sleep 0.001"), {Tool: "nope"},
			childStep(labmodel.Step{Say: "child"}, false), childStep(labmodel.Step{Say: "child"}, true),
			{Tool: "bash", Args: []byte(`{"command":"true","description":"d","run_in_background":true}`)},
		})
		for range rapid.IntRange(1, 6).Draw(r, "actions") {
			switch rapid.SampledFrom([]string{"queue", "steer", "steer", "cancel", "crash", "wait"}).Draw(r, "action") {
			case "queue":
				sent[tell(t, h, id, "queue", Script(rapid.SliceOfN(step, 1, 3).Draw(r, "steps")...))] = true
			case "steer":
				sent[tell(t, h, id, "steer", Script(step.Draw(r, "step")))] = true
			case "cancel":
				if _, refused := try(t, h, "session.cancel", object{"sessionId": id}); refused != nil && refused.Code != "session-not-found" {
					r.Fatalf("cancel: %+v", refused)
				}
			case "crash":
				if err := h.Restart(); err != nil {
					r.Fatal(err)
				}
			case "wait":
				if err := h.WaitIdle(within(t), id); err != nil {
					r.Fatal(err)
				}
			}
		}
		if err := h.WaitIdle(within(t), id); err != nil {
			r.Fatal(err)
		}
		h.Kill()
		if err := checkLog(h.Events(id), sent); err != nil {
			r.Fatalf("%v in %v", err, logged(h, id))
		}
	})
}

// checkLog checks one session's log against the rpcIds of its prompts.
func checkLog(events []Event, sent map[string]bool) error {
	var waiting inbox
	claimed := map[string]bool{} // ids of messages taken out of the inbox, until they are said
	turn, step, turns := int64(0), int64(0), int64(0)
	for i, e := range events {
		if e.Seq != int64(i) {
			return fmt.Errorf("event %d has seq %d", i, e.Seq)
		}
		switch e.Type {
		case eventTurnStart:
			// A turn that was stopped before the model said anything may be left without its end.
			if turns++; step != 0 || gjson.GetBytes(e.Data, "turn").Int() != turns {
				return fmt.Errorf("turn/start at %d: %s", i, e.Data)
			}
			turn = turns
		case eventStepStart:
			if turn == 0 || step != 0 {
				return fmt.Errorf("step/start at %d outside of a turn or inside of a step", i)
			}
			step = gjson.GetBytes(e.Data, "step").Int()
		case eventStepEnd:
			if step == 0 || gjson.GetBytes(e.Data, "step").Int() != step {
				return fmt.Errorf("step/end at %d: %s", i, e.Data)
			}
			step = 0
		case eventTurnEnd:
			if turn == 0 || step != 0 || gjson.GetBytes(e.Data, "turn").Int() != turn {
				return fmt.Errorf("turn/end at %d: %s", i, e.Data)
			}
			turn = 0
		case eventSpliced:
			var c splice
			if err := json.Unmarshal(e.Data, &c); err != nil {
				return err
			}
			q := *waiting.queue(c.Target)
			if c.Start+c.RemovedCount > len(q) {
				return fmt.Errorf("splice at %d takes more than waits: %s", i, e.Data)
			}
			for _, m := range q[c.Start : c.Start+c.RemovedCount] {
				claimed[m.ID] = true
			}
			for _, m := range c.Inserted {
				delete(sent, gjson.GetBytes(m.Source, "rpcId").String())
			}
			waiting.apply(c)
		case eventUser:
			id := gjson.GetBytes(e.Data, "id").String()
			if gjson.GetBytes(e.Data, "source.plugin").String() != "@deepseek-ai/dsh-system-prompt" && !claimed[id] {
				return fmt.Errorf("message at %d was never taken out of the inbox", i)
			}
			delete(claimed, id)
		}
	}
	if len(sent) > 0 {
		return fmt.Errorf("%d prompts left no trace", len(sent))
	}
	return nil
}
