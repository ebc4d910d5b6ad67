package scenario

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
)

// relay stands between the bridge and the host. It counts the answers that come by, and breaks what passes on demand,
// so that a real host can be cut off as well as a scripted one.
type relay struct {
	url string

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	down    bool
	streams int  // event streams that were asked for
	answers int  // to questions and approvals, seen from the bridge
	lose    loss // of the next answer
}

// loss says what gets lost of an answer.
type loss int

const (
	nothing loss = iota
	wholeAnswer
	itsReceipt
)

const (
	streamPath  = "/api/events.mux"
	respondPath = "/api/respond"
)

// relay starts a relay in front of the scenario's host; bridges reach it through viaRelay.
func (e *env) relay() *relay {
	e.t.Helper()
	host, err := url.Parse(e.host.URL())
	if err != nil {
		e.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.t.Fatal(err)
	}
	r := &relay{url: "http://" + listener.Addr().String(), conns: map[net.Conn]struct{}{}}
	quiet := log.New(io.Discard, "", 0) // broken connections are its business
	passOn := &httputil.ReverseProxy{
		Rewrite:        func(p *httputil.ProxyRequest) { p.SetURL(host) },
		ModifyResponse: r.receipt,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		// A kept connection could be one to a host that has died since.
		Transport: &http.Transport{DisableKeepAlives: true},
		ErrorLog:  quiet,
	}
	server := &http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.loses(req.URL.Path) {
			panic(http.ErrAbortHandler)
		}
		// Otherwise the server closes the request as soon as the answer begins, though the proxy still reads for its end.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			panic(err)
		}
		passOn.ServeHTTP(w, req)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(gate{listener, r}) // it returns when the server is closed
	}()
	e.t.Cleanup(func() {
		_ = server.Close()
		r.cut() // the event streams, which are the server's no longer
		<-served
	})
	return r
}

// viaRelay starts a process of the bridge behind the relay.
func (e *env) viaRelay(r *relay, set ...string) *bridge {
	e.t.Helper()
	return e.bridge(append([]string{"DSH_HOST_URL=" + r.url}, set...)...)
}

// loses notes a request and reports whether it is to be lost.
func (r *relay) loses(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch path {
	case streamPath:
		r.streams++
	case respondPath:
		r.answers++
		if r.lose == wholeAnswer {
			r.lose = nothing
			return true
		}
	}
	return false
}

// receipt loses the receipt of an answer that the host has got.
func (r *relay) receipt(resp *http.Response) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if resp.Request.URL.Path != respondPath || r.lose != itsReceipt {
		return nil
	}
	r.lose = nothing
	return errors.New("the receipt is lost")
}

// loseNext loses something of the next answer.
func (r *relay) loseNext(what loss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose = what
}

// sent is how many answers have left the bridge.
func (r *relay) sent() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answers
}

// setDown breaks every connection and refuses new ones, until it is taken back.
func (r *relay) setDown(down bool) {
	r.mu.Lock()
	r.down = down
	r.mu.Unlock()
	if down {
		r.cut()
	}
}

// cut breaks every connection there is.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.conns {
		_ = conn.Close()
	}
	clear(r.conns)
}

// reconnect breaks every connection, and returns when the bridge behind the relay is coming back.
func (e *env) reconnect(r *relay) {
	e.t.Helper()
	opened := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.streams
	}
	before := opened()
	r.cut()
	e.eventually(func() string {
		if opened() == before {
			return "the bridge does not connect again"
		}
		return ""
	})
}

// gate is the relay's listener. It keeps the connections, since a server lets go of those that were upgraded.
type gate struct {
	net.Listener
	relay *relay
}

func (g gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g.relay.mu.Lock()
		if !g.relay.down {
			g.relay.conns[conn] = struct{}{}
			g.relay.mu.Unlock()
			return conn, nil
		}
		g.relay.mu.Unlock()
		_ = conn.Close()
	}
}
