package dshtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// SendRaw sends a text message as it is to every events.mux client.
func (h *Host) SendRaw(message []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life == nil {
		return
	}
	for c := range h.life.clients {
		c.push(message)
	}
}

// EmitFrame sends a frame with an rpcId of its own to every events.mux client. payload has to be encodable as a JSON
// object; its type is set to kind.
func (h *Host) EmitFrame(kind string, payload any) error {
	raw, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("dshtest: frame %s: %w", kind, err)
	}
	members := object{}
	if err := json.Unmarshal(raw, &members); err != nil {
		return fmt.Errorf("dshtest: frame %s: %w", kind, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frame(kind, members)
	return nil
}

// EmitEvent appends a durable event to a session and streams it, whatever the session is doing; a cold session is
// attached first. Nothing but the log learns of the event. It returns the seq.
func (h *Host) EmitEvent(sessionID, eventType string, data any) (int64, error) {
	if _, err := json.Marshal(data); err != nil {
		return 0, fmt.Errorf("dshtest: event %s: %w", eventType, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sessions[sessionID]
	if s == nil {
		return 0, noSession(sessionID)
	}
	h.attach(s)
	return h.emit(s, eventType, data), nil
}

// BigFrame appends a request/header event of about that many bytes to a session and streams it. It returns the seq.
func (h *Host) BigFrame(sessionID string, bytes int) (int64, error) {
	return h.EmitEvent(sessionID, eventHeader, requestHeader("change", object{"maxTokens": true}, bytes))
}

// ForeignNoise streams frames of a session that is nobody's, mostly chunks and projections, until ctx or the host
// ends. It returns at once. The session is in no list and its events in no history.
func (h *Host) ForeignNoise(ctx context.Context, framesPerSecond int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.life; l != nil && framesPerSecond > 0 {
		l.wait.Go(func() { h.makeNoise(ctx, l, framesPerSecond) })
	}
}

// makeNoise sends in bursts: timers are too coarse for one frame each at a high rate.
func (h *Host) makeNoise(ctx context.Context, l *life, perSecond int) {
	const tick = 5 * time.Millisecond
	id := "session-" + newID()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.ctx.Done():
			return
		case <-ticker.C:
		}
		due := int(time.Since(began).Seconds() * float64(perSecond))
		h.mu.Lock()
		for ; sent < due && h.life == l; sent++ {
			h.noise(id, sent)
		}
		h.mu.Unlock()
	}
}

// noise sends the n-th frame of a foreign session.
func (h *Host) noise(id string, n int) {
	if n%3 == 2 {
		h.frame(kindProjection, object{"sessionId": id, "key": "sessionStats", "value": object{"steps": n}, "seq": n})
		return
	}
	kind, data := eventChunk, any(textDelta(1, 1, "noise "))
	if n%50 == 0 {
		kind, data = eventStepEnd, object{"turn": 1, "step": n}
	}
	r := record{kind: kind, seq: int64(n), time: now(), data: encode(data)}
	payload := append([]byte(`{"type":"session/event","sessionId":"`+id+`","event":`), r.appendTo(nil)...)
	h.send(kindEvent, kind, newID(), append(payload, '}'))
}

// requestHeader is the data of a request/header event, with tool schemas of at least that many bytes.
func requestHeader(reason string, defaults object, bytes int) object {
	tools := []object{}
	for n := 0; bytes > 0; n++ {
		size := min(bytes, 2000)
		bytes -= size
		tools = append(tools, object{
			"name":        fmt.Sprintf("tool_%d", n),
			"description": strings.Repeat("d", size),
			"parameters":  object{"type": "object", "properties": object{}},
		})
	}
	return object{
		"header": object{
			"config":          object{"provider": provider, "model": model, "maxTokens": 256000, "reasoningEffort": "high"},
			"adapterDefaults": defaults,
			"system":          "The system prompt of a scripted host.",
			"tools":           tools,
		},
		"reason": reason,
	}
}
