package dshtest

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
)

// maxBody bounds a call.
const maxBody = 64 << 20

// handler answers HTTP for one life of the host.
type handler struct {
	host *Host
	life *life
}

// request is one unary call on its way through a method.
type request struct {
	method  string
	rpcID   string
	payload fields
}

// ServeHTTP checks what a real host checks, in its order: who asks, what for, and in which form.
func (s *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.host.enter(s.life) {
		cut(w)
		return
	}
	defer s.life.wait.Done()
	if !loopback(r.Host) || !sameOrigin(r) {
		refuse(w, http.StatusForbidden, "forbidden")
		return
	}
	method, api := strings.CutPrefix(r.URL.Path, "/api/")
	switch {
	case s.host.answersAs404(), !api && r.URL.Path != "/":
		refuse(w, http.StatusNotFound, "not found")
	case !api:
		w.Header().Set("content-type", "text/html; charset=utf-8")
		io.WriteString(w, "<!doctype html><title>dshtest</title>\n")
	case method == "events.mux" && r.Method == http.MethodGet:
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			refuse(w, http.StatusUpgradeRequired, "upgrade required")
			return
		}
		s.host.mux(s.life, w, r)
	case r.Method != http.MethodPost || methods[method] == nil && method != "respond":
		refuse(w, http.StatusNotFound, "not found")
	default:
		s.call(w, r, method)
	}
}

// call serves one POST.
func (s *handler) call(w http.ResponseWriter, r *http.Request, method string) {
	if kind, _, _ := strings.Cut(r.Header.Get("content-type"), ";"); strings.TrimSpace(kind) != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "content type must be application/json")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "body too large")
		return
	}
	if !json.Valid(body) {
		refuse(w, http.StatusBadRequest, "body is not JSON")
		return
	}
	s.host.record(method, body)
	fault, ok := s.host.meet(r.Context(), method)
	switch {
	case !ok:
		cut(w)
		return
	case fault.status != 0:
		refuse(w, fault.status, "failed on demand")
		return
	}
	var answer []byte
	if method == "respond" {
		answer, ok = s.host.respond(s.life, body)
	} else {
		answer, ok = s.host.dispatch(s.life, method, body)
	}
	if !ok || fault.broken {
		cut(w)
		return
	}
	w.Header().Set("content-type", "application/json")
	w.Write(answer)
}

// dispatch does one unary call and encodes its answer. It reports false when the host died meanwhile.
func (h *Host) dispatch(l *life, method string, body []byte) ([]byte, bool) {
	req, failure := parseRequest(method, body)
	var value any
	if failure == nil {
		h.mu.Lock()
		if h.life != l {
			h.mu.Unlock()
			return nil, false
		}
		value, failure = methods[method](h, req)
		h.mu.Unlock()
	}
	// Long answers are encoded without the lock.
	if late, ok := value.(func() json.RawMessage); ok {
		value = late()
	}
	b := append([]byte(`{"type":"server-response","rpcId":`), encode(req.rpcID)...)
	if failure != nil {
		b = append(append(b, `,"result":{"ok":false,"error":`...), encode(failure)...)
	} else if raw, ok := value.(json.RawMessage); ok {
		b = append(append(b, `,"result":{"ok":true,"value":`...), raw...)
	} else {
		b = append(append(b, `,"result":{"ok":true,"value":`...), encode(value)...)
	}
	return append(b, "}}"...), true
}

// parseRequest checks the envelope of a call.
func parseRequest(method string, body []byte) (request, *failure) {
	req := request{method: method, rpcID: "invalid-request"}
	f := parseFields(body, nil)
	if f.object != nil {
		f.constant("type", "client-request")
		if id := f.text("rpcId", required); id != "" {
			req.rpcID = id
		}
		name := f.text("method", required)
		f.present("payload")
		if len(f.issues) == 0 && name != method {
			return req, badRequest("method "+quote(name)+" does not match path "+quote(method), []any{})
		}
	}
	if len(f.issues) > 0 {
		return req, badRequest("invalid client-request message", f.issues)
	}
	req.payload = parseFields(f.object["payload"], nil)
	return req, req.invalid()
}

// invalid is the refusal of a payload in which something was found wrong so far.
func (r request) invalid() *failure {
	if len(r.payload.issues) == 0 {
		return nil
	}
	return badRequest("invalid payload for "+r.method, r.payload.issues)
}

// refuse answers with a status and a plain text, as the carrier does.
func refuse(w http.ResponseWriter, status int, text string) {
	if status < 200 || status > 599 {
		status = http.StatusInternalServerError // FailNext was given something that is no status
	}
	w.Header().Set("content-type", "text/plain;charset=UTF-8")
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// cut breaks the connection without an answer.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		// Only a connection that is gone already, or HTTP/2, which is not served here, cannot be taken over.
		return
	}
	conn.Close()
}

// loopback says whether a Host header names this machine.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// sameOrigin says whether a browser's page of another origin is not behind the request.
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	return origin == "" || origin == "http://"+r.Host
}
