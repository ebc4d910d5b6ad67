package dsh

import (
	"context"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// historyPayload addresses a page of session.history or, with the parent's id, of subagent.history.
type historyPayload struct {
	SessionID       string `json:"sessionId,omitempty"`
	ParentSessionID string `json:"parentSessionId,omitempty"`
	ChildSessionID  string `json:"childSessionId,omitempty"`
	Mode            string `json:"mode,omitempty"`
	BeforeSeq       int64  `json:"beforeSeq,omitempty"`
	MaxMessages     int    `json:"maxMessages,omitempty"`
}

// History implements [Host]. A page whose seqs do not ascend by exactly one is malformed.
func (c *Client) History(ctx context.Context, req HistoryRequest) (HistoryPage, error) {
	method := "session.history"
	payload := historyPayload{SessionID: req.SessionID, BeforeSeq: req.BeforeSeq, MaxMessages: req.MaxMessages}
	if req.ParentSessionID != "" {
		method = "subagent.history"
		payload.SessionID = ""
		payload.ParentSessionID, payload.ChildSessionID = req.ParentSessionID, req.SessionID
		payload.Mode = req.SubagentMode
	}
	value, err := c.call(ctx, method, uuid.NewString(), payload)
	if err != nil {
		return HistoryPage{}, err
	}
	page, bad := decodeHistory(value)
	return page, refusal(method, bad)
}

func decodeHistory(value gjson.Result) (page HistoryPage, bad string) {
	if page, ok := walkHistory(value.Raw); ok {
		return page, ""
	}
	readPage(root(value, &bad), &page, &bad)
	return page, bad
}

// readPage reads a page with care, and names what is wrong with it.
func readPage(o object, page *HistoryPage, bad *string) {
	page.HasMore = o.flag("hasMore")
	o.list("events", func(entry object) {
		event := entry.within("event")
		e := readEvent(event)
		if n := len(page.Events); *bad == "" && n > 0 && e.Seq != page.Events[n-1].Seq+1 {
			event.fault("seq", "does not follow the one before it")
		}
		page.Events = append(page.Events, e)
	})
}

// readEvent reads an event of a history page or of a frame. The view that goes along with one is derived and ignored.
func readEvent(o object) Event {
	e := Event{Type: o.text("type"), Seq: o.integer("seq"), Time: o.millis("time"), Data: o.raw("data")}
	switch {
	case e.Type == "":
		o.fault("type", "is empty")
	case e.Seq < 0:
		o.fault("seq", "is negative")
	}
	return e
}
