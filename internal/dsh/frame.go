package dsh

import (
	"encoding/json"

	"github.com/tidwall/gjson"
)

// decodeFrame reads the header of a frame. What bad says is why it makes no sense, and it quotes nothing of it. The
// frame takes over data, but for chunks and projections: most frames are of these two kinds and nobody reads them, so
// their payload is neither validated nor kept.
func decodeFrame(data []byte) (f Frame, bad string) {
	if f, ok := walkFrame(data); ok {
		return f, ""
	}
	return readFrame(data)
}

// readFrame is decodeFrame without its quick way.
func readFrame(data []byte) (f Frame, bad string) {
	text := stringOf(data)
	header := func(path string) string { return stringIn(gjson.Get(text, path)) }

	if f.Kind = FrameKind(header("payload.type")); f.Kind == "" {
		return Frame{}, "payload.type is missing"
	}
	if f.RPCID = header("rpcId"); !ValidID(f.RPCID) {
		return Frame{}, "rpcId is missing or not a valid id"
	}
	f.SessionID = header("payload.sessionId")
	if f.SessionID == "" && f.Kind.ofSession() {
		return Frame{}, "payload.sessionId is missing"
	}
	if f.SessionID != "" && !ValidID(f.SessionID) {
		return Frame{}, "payload.sessionId is not a valid id"
	}

	switch f.Kind {
	case FrameEvent:
		if f.EventType = header("payload.event.type"); f.EventType == "" {
			return Frame{}, "payload.event.type is missing"
		}
		seq, ok := whole(gjson.Get(text, "payload.event.seq"))
		if !ok || seq < 0 {
			return Frame{}, "payload.event.seq is missing or not a seq"
		}
		f.Seq = seq
		if f.EventType == EventChunk {
			return f, ""
		}
	case FrameSubscribed:
		seq, ok := whole(gjson.Get(text, "payload.lastSeq"))
		if !ok || seq < -1 {
			return Frame{}, "payload.lastSeq is missing or not a seq"
		}
		f.Seq = seq
	case FrameProjection:
		return f, ""
	}

	if !validJSON(text) {
		return Frame{}, "it is not JSON"
	}
	payload := gjson.Get(text, "payload")
	f.Payload = json.RawMessage(data[payload.Index:][:len(payload.Raw):len(payload.Raw)])
	return f, ""
}

// ofSession tells whether frames of that kind are always about one session. Kinds that are not known may be about the
// host.
func (k FrameKind) ofSession() bool {
	switch k {
	case FrameEvent, FrameSubscribed, FrameQuestionRequested, FrameQuestionResolved, FrameApprovalRequested,
		FrameApprovalResolved, FrameQueue, FrameJobs, FrameProjection:
		return true
	}
	return false
}

// decode reads the payload with read, and names what is wrong with it.
func (f Frame) decode(read func(object)) error {
	var bad string
	o := root(gjson.ParseBytes(f.Payload), &bad)
	if bad == "" {
		read(o)
	}
	if bad != "" {
		bad = string(f.Kind) + ": " + bad
	}
	return refusal(eventsMux, bad)
}

// Event returns the event of a FrameEvent frame. A chunk has none, see [Frame.Payload].
func (f Frame) Event() (Event, error) {
	var e Event
	err := f.decode(func(o object) { e = readEvent(o.within("event")) })
	return e, err
}

// Questions returns the batch of a FrameQuestionRequested frame; it has at least one.
func (f Frame) Questions() ([]Question, error) {
	var questions []Question
	err := f.decode(func(o object) {
		o.list("questions", func(q object) { questions = append(questions, readQuestion(q)) })
		if len(questions) == 0 {
			o.fault("questions", "is empty")
		}
	})
	return questions, err
}

func readQuestion(o object) Question {
	q := Question{
		ID:          o.text("id"),
		Question:    o.text("question"),
		Header:      o.optText("header"),
		Detail:      o.optText("detail"),
		MultiSelect: o.optFlag("multiSelect"),
	}
	if _, ok := o.member("options"); ok {
		o.list("options", func(option object) {
			q.Options = append(q.Options, Option{Label: option.text("label"), Description: option.optText("description")})
		})
	}
	if intent, ok := o.member("intent"); ok {
		q.Intent = json.RawMessage(intent.Raw)
	}
	return q
}

// Approval returns the request of a FrameApprovalRequested frame.
func (f Frame) Approval() (Approval, error) {
	var a Approval
	err := f.decode(func(o object) {
		a = Approval{
			ApprovalID: o.id("approvalId"),
			ToolName:   o.text("toolName"),
			CallID:     o.optText("callId"),
			Reason:     o.optText("reason"),
		}
	})
	return a, err
}

// Resolution returns what a FrameQuestionResolved or FrameApprovalResolved frame settles.
func (f Frame) Resolution() (Resolution, error) {
	var r Resolution
	err := f.decode(func(o object) {
		if f.Kind == FrameQuestionResolved {
			r.RequestRPCID = o.id("questionRpcId")
		} else {
			r.ApprovalID = o.id("approvalId")
		}
		r.Outcome = o.text("outcome")
	})
	return r, err
}

// Queue returns the whole queue of a FrameQueue frame, empty when nothing waits.
func (f Frame) Queue() ([]QueueItem, error) {
	var items []QueueItem
	err := f.decode(func(o object) {
		o.list("items", func(item object) {
			items = append(items, QueueItem{ID: item.id("id"), Placement: item.text("placement")})
		})
	})
	return items, err
}

// Jobs returns the session's background jobs of a FrameJobs frame.
func (f Frame) Jobs() ([]Job, error) {
	var jobs []Job
	err := f.decode(func(o object) {
		o.list("jobs", func(job object) {
			jobs = append(jobs, Job{
				ID:         job.id("id"),
				Kind:       job.text("kind"),
				Label:      job.text("label"),
				Status:     job.text("status"),
				StartedAt:  job.millis("startedAt"),
				FinishedAt: job.optMillis("finishedAt"),
				Detail:     job.optText("detail"),
			})
		})
	})
	return jobs, err
}

// StreamError returns the code and the message of a FrameStreamError frame.
func (f Frame) StreamError() (code, message string, err error) {
	err = f.decode(func(o object) {
		failure := o.within("error")
		code, message = failure.text("code"), failure.optText("message")
	})
	return code, message, err
}
