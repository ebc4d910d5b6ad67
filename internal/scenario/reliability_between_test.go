//go:build reliability

package scenario

import (
	"bytes"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// between is what lies between a bridge and its host, whichever host that is: it cuts connections, holds calls and
// their answers back, and changes answers.
type between struct {
	url  string
	back *httputil.ReverseProxy

	mu     sync.Mutex
	conns  map[net.Conn]bool
	holds  map[string]*hold
	change func(method string, answer []byte) []byte
}

// hold keeps one call back, or its answer.
type hold struct {
	late    bool          // the host gets the call, and its answer is kept back
	reached chan struct{} // closed when there is something to keep back
	release chan struct{} // closed to let it go
}

// errHeld ends an answer that was held until its caller was gone.
var errHeld = errors.New("the caller is gone")

// between puts something between the bridges to come and the host. They have to be told of it: DSH_HOST_URL is its url.
func (e *env) between() *between {
	e.t.Helper()
	target, err := url.Parse(e.host.URL())
	if err != nil {
		e.t.Fatal(err)
	}
	w := &between{conns: map[net.Conn]bool{}, holds: map[string]*hold{}}
	w.back = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: w.answer,
		ErrorHandler:   func(rw http.ResponseWriter, _ *http.Request, _ error) { cut(rw) },
		Transport:      &http.Transport{MaxIdleConnsPerHost: -1},
		FlushInterval:  -1,
		ErrorLog:       log.New(io.Discard, "", 0), // broken connections are what it is for
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.t.Fatal(err)
	}
	w.url = "http://" + listener.Addr().String()
	server := &http.Server{Handler: w, ErrorLog: w.back.ErrorLog}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(watched{listener, w}) }) // it ends with the server
	e.t.Cleanup(func() {
		w.mu.Lock()
		for _, h := range w.holds {
			close(h.release)
		}
		clear(w.holds)
		w.mu.Unlock()
		_ = server.Close()
		w.drop()
		serving.Wait()
	})
	return w
}

// env is what a bridge has to be told.
func (w *between) env() string { return "DSH_HOST_URL=" + w.url }

// cut breaks the connection of a request without an answer.
func cut(rw http.ResponseWriter) {
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// watched is a listener whose connections are known.
type watched struct {
	net.Listener
	w *between
}

func (l watched) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.conns[conn] = true
	return tracked{conn, l.w}, nil
}

// tracked is a connection that is forgotten when it is closed.
type tracked struct {
	net.Conn
	w *between
}

func (c tracked) Close() error {
	c.w.mu.Lock()
	delete(c.w.conns, c.Conn)
	c.w.mu.Unlock()
	return c.Conn.Close()
}

// drop cuts every connection there is, calls in the middle included.
func (w *between) drop() {
	w.mu.Lock()
	conns := slices.Collect(maps.Keys(w.conns))
	w.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// hold keeps the next call of a method back; with late it is done and its answer is kept back.
func (w *between) hold(method string, late bool) *hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &hold{late: late, reached: make(chan struct{}), release: make(chan struct{})}
	w.holds[method] = h
	return h
}

func (w *between) take(method string, late bool) *hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.holds[method]
	if h == nil || h.late != late {
		return nil
	}
	delete(w.holds, method)
	close(h.reached)
	return h
}

// changes passes every answer through change from now on; nil leaves them as they are.
func (w *between) changes(change func(method string, answer []byte) []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.change = change
}

func (w *between) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if h := w.take(methodOf(r), false); h != nil {
		select {
		case <-h.release:
		case <-r.Context().Done():
			cut(rw)
			return
		}
	}
	// Whole, for an answer that overtakes the end of its call ends both.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		cut(rw)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w.back.ServeHTTP(rw, r)
}

func methodOf(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/api/") }

// answer is called with every answer of the host.
func (w *between) answer(resp *http.Response) error {
	method := methodOf(resp.Request)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	if h := w.take(method, true); h != nil {
		select {
		case <-h.release:
		case <-resp.Request.Context().Done():
			return errHeld
		}
	}
	w.mu.Lock()
	change := w.change
	w.mu.Unlock()
	if change == nil {
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	body = change(method, body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}
