package dsh

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// seeds adds the captured frames and answers of one session as the corpus.
func seeds(f *testing.F, pick func(captured) json.RawMessage) {
	for _, file := range []string{"question", "subagent", "fail", "goal", "errors"} {
		for _, line := range readCapture(f, "testdata/captures/"+file+".jsonl") {
			if text := pick(line); text != nil {
				f.Add(string(text))
			}
		}
	}
	for _, text := range []string{``, `{`, `[]`, `null`, `"x"`, `{"payload":{"payload":{}}}`, "\x00", `{"a":"\ud800"}`} {
		f.Add(text)
	}
}

// A frame that is taken has a usable header and a payload that is JSON; nothing that is read out of it panics.
func FuzzFrame(f *testing.F) {
	seeds(f, func(line captured) json.RawMessage { return line.Frame })
	f.Fuzz(func(t *testing.T, text string) {
		frame, bad := decodeFrame([]byte(text))
		if bad != "" {
			return
		}
		if frame.Kind == "" || !ValidID(frame.RPCID) || frame.SessionID != "" && !ValidID(frame.SessionID) {
			t.Fatalf("%+v", frame)
		}
		if frame.Payload != nil && !json.Valid(frame.Payload) {
			t.Fatalf("payload %q", frame.Payload)
		}
		e, err := frame.Event()
		checkEvents(t, err, e)
		questions, err := frame.Questions()
		if err == nil && len(questions) == 0 {
			t.Fatal("no question and no error")
		}
		approval, err := frame.Approval()
		if err == nil && !ValidID(approval.ApprovalID) {
			t.Fatalf("%+v", approval)
		}
		if resolution, err := frame.Resolution(); err == nil && !ValidID(resolution.ApprovalID+resolution.RequestRPCID) {
			t.Fatalf("%+v", resolution)
		}
		if queue, err := frame.Queue(); err == nil {
			for _, item := range queue {
				if !ValidID(item.ID) {
					t.Fatalf("%+v", item)
				}
			}
		}
		_, _ = frame.Jobs()
		_, _, _ = frame.StreamError()
	})
}

func checkEvents(t *testing.T, err error, events ...Event) {
	t.Helper()
	if err != nil {
		return
	}
	for _, e := range events {
		if e.Type == "" || e.Seq < 0 || !json.Valid(e.Data) {
			t.Fatalf("%+v", e)
		}
		for _, read := range readers {
			read(e)
		}
	}
}

// An answer is a value, a refusal of the host's or malformed, whatever it is, and a value can be decoded as any.
func FuzzAnswer(f *testing.F) {
	seeds(f, func(line captured) json.RawMessage { return line.Response })
	f.Fuzz(func(t *testing.T, text string) {
		rpcID := gjson.Get(text, "rpcId").Str
		value, err := openEnvelope("session.list", rpcID, text)
		if kind := KindOf(err); err != nil && kind != Refused && kind != Malformed {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("took %q", text)
		}
		sessions, bad := decodeSessions(value)
		for _, s := range sessions {
			if bad == "" && !ValidID(s.ID) {
				t.Fatalf("%+v", s)
			}
		}
		if page, bad := decodeHistory(value); bad == "" {
			checkEvents(t, nil, page.Events...)
			for i, e := range page.Events {
				if e.Seq != page.Events[0].Seq+int64(i) {
					t.Fatalf("seq %d at %d", e.Seq, i)
				}
			}
		}
		decodeSubagents(value)
	})
}

func FuzzReceipt(f *testing.F) {
	seeds(f, func(line captured) json.RawMessage { return line.Response })
	f.Fuzz(func(t *testing.T, text string) {
		receipt, bad := decodeReceipt(text)
		if bad == "" && !receipt.Accepted && receipt.Reason == "" {
			t.Fatal("neither accepted nor refused")
		}
	})
}

// No body makes a reader panic, and ids come out valid or not at all.
func FuzzContent(f *testing.F) {
	seeds(f, func(line captured) json.RawMessage {
		var frame struct{ Payload struct{ Event Event } }
		if line.Frame != nil {
			mustDecode(f, line.Frame, &frame)
		}
		return frame.Payload.Event.Data
	})
	f.Fuzz(func(t *testing.T, data string) {
		e := Event{Data: json.RawMessage(data)}
		for _, read := range readers {
			read(e)
		}
		user, goal := UserMessageOf(e), GoalChangeOf(e)
		ids := []string{user.ID, user.RPCID, goal.Goal.Ref.ID, ApprovalAskedOf(e).ApprovalID, ApprovalDecidedOf(e).ApprovalID}
		for _, item := range InboxOf(e).Inserted {
			ids = append(ids, item.ID, item.RPCID)
		}
		for _, id := range ids {
			if id != "" && !ValidID(id) {
				t.Fatalf("id %q", id)
			}
		}
	})
}

// What is taken for JSON is JSON to the rest of the world, and the other way round but for its depth.
func FuzzValidJSON(f *testing.F) {
	seeds(f, func(line captured) json.RawMessage { return line.Request })
	f.Add(strings.Repeat("[", maxNesting+1) + strings.Repeat("]", maxNesting+1))
	f.Fuzz(func(t *testing.T, text string) {
		if mine, theirs := validJSON(text), json.Valid([]byte(text)); mine != theirs && nesting(text) <= maxNesting {
			t.Fatalf("%q: %v, encoding/json says %v", text, mine, theirs)
		}
	})
}

// An address that is taken is this machine's, and no error shows what stands before an @ or behind a ?.
func FuzzParseURL(f *testing.F) {
	for _, raw := range []string{"http://127.0.0.1:3080", "https://localhost/", "http://a:s3cret@[::1]", "http://x?s3cret", "http://[::1%25x]"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := ParseURL(raw, false)
		if err == nil {
			if !isLoopback(u.Hostname()) || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
				t.Fatalf("took %q as %q", raw, u)
			}
			if again, err := ParseURL(u.String(), false); err != nil || *again != *u {
				t.Fatalf("%q is %q, and that is %v, %v", raw, u, again, err)
			}
			return
		}
		if _, err := ParseURL("http://me:"+strings.ReplaceAll("s3cret"+raw, "@", "")+"@127.0.0.1", false); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Fatalf("%v", err)
		}
	})
}
