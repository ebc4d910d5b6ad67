package dsh

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// walkSessions reads the rows of session.list in one pass. ok is false for a list that is not of the plain form. A home
// of a thousand tasks lists as many sessions at every connection and before every write.
func walkSessions(text string) (sessions []Session, ok bool) {
	w := walker{text: text}
	lists := 0
	var last Session
	for begun := false; w.more('{', '}', begun); begun = true {
		if w.name() != "items" {
			w.value()
			continue
		}
		lists++
		from := w.at
		for begun := false; w.more('[', ']', begun); begun = true {
			s := walkSession(&w, last)
			if w.odd {
				return nil, false
			}
			if ValidID(s.ID) && (s.ParentSessionID == "" || ValidID(s.ParentSessionID)) {
				sessions = append(sessions, s)
				last = s
				if len(sessions) == sampled {
					sessions = slices.Grow(sessions, w.alike(from, sampled))
				}
			}
		}
	}
	return sessions, !w.odd && lists == 1
}

// Members of a row that are counted; all but the projections are in every row.
const (
	rowID = 1 << iota
	rowUpdated
	rowRunning
	rowBlank
	rowProjections
	rowWhole = rowID | rowUpdated | rowRunning | rowBlank
)

// walkSession reads a row. What is the same in the last one shares its memory.
func walkSession(w *walker, last Session) Session {
	s := Session{LastSeq: -1}
	has := 0
	must := func(member int) {
		w.odd = w.odd || has&member != 0
		has |= member
	}
	for begun := false; w.more('{', '}', begun); begun = true {
		switch w.name() {
		case "sessionId":
			must(rowID)
			s.ID = w.words(s.ID, "")
		case "updatedAt":
			must(rowUpdated)
			s.UpdatedAt = w.digits()
		case "running":
			must(rowRunning)
			s.Running = w.flag()
		case "blank":
			must(rowBlank)
			s.Blank = w.flag()
		case "parentSessionId":
			s.ParentSessionID = w.words(s.ParentSessionID, last.ParentSessionID)
		case "origin":
			s.Origin = w.words(s.Origin, last.Origin)
		case "cwd":
			s.Cwd = w.words(s.Cwd, last.Cwd)
		case "agentPreset":
			s.AgentPreset = w.words(s.AgentPreset, last.AgentPreset)
		case "projections":
			must(rowProjections)
			walkProjections(w, &s, last)
		default:
			w.value()
		}
		if w.odd {
			return Session{}
		}
	}
	w.odd = w.odd || has&rowWhole != rowWhole
	return s
}

// walkProjections takes the three of them that are wanted.
func walkProjections(w *walker, s *Session, last Session) {
	values, goal := false, false
	for begun := false; w.more('{', '}', begun); begun = true {
		switch w.name() {
		case "asOfSeq":
			w.odd = w.odd || s.LastSeq >= 0
			s.LastSeq = w.digits()
		case "values":
			w.odd = w.odd || values
			values = true
			for begun := false; w.more('{', '}', begun); begun = true {
				switch w.name() {
				case "title":
					s.Title = w.words(s.Title, last.Title)
				case "goal":
					w.odd = w.odd || goal
					goal = true
					s.Goal = decodeGoal(gjson.Parse(w.value()))
				default:
					w.value()
				}
			}
		default:
			w.value()
		}
	}
}

// words is first for a string that may have escapes in it. It copies the string, unless it is like.
func (w *walker) words(old, like string) string {
	raw := w.value()
	if w.odd = w.odd || old != "" || len(raw) <= len(`""`) || raw[0] != '"'; w.odd {
		return ""
	}
	if strings.IndexByte(raw, '\\') >= 0 {
		return strings.Clone(gjson.Parse(raw).Str)
	}
	if s := raw[1 : len(raw)-1]; s != like {
		return strings.Clone(s)
	}
	return like
}

// flag reads a boolean.
func (w *walker) flag() bool {
	raw := w.value()
	w.odd = w.odd || (raw != "true" && raw != "false")
	return raw == "true"
}
