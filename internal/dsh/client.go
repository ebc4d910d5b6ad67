package dsh

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"
)

// MaxAnswer is the largest answer of a unary call in bytes. A history page is the only answer that grows without a
// bound of its own; 64 MiB holds a session of some 60,000 events, and what exceeds it is asked for in smaller pages.
const MaxAnswer = 64 << 20

// DefaultRequestTimeout bounds a unary call and the opening of a stream when [Options] says nothing. Every answer of
// the wire is immediate except the history of a cold session, for which the host reads the whole log.
const DefaultRequestTimeout = 30 * time.Second

// idleTimeout is how long a connection is kept for the next call. The host closes an idle connection after 5 s, and a
// call that goes out in that moment breaks off with its outcome unknown; so this side lets go first.
const idleTimeout = 3 * time.Second

// maxIdleConns is how many connections are kept for the next calls: as many as a busy bridge has calls under way.
const maxIdleConns = 8

// Options adjusts a [Client]. The zero value is good.
type Options struct {
	// RequestTimeout bounds every unary call, its answer included, and the opening of a stream; 0 means
	// [DefaultRequestTimeout]. It does not bound an open stream.
	RequestTimeout time.Duration
	// HTTPClient makes the connections, nil for one of the client's own. Redirects are refused with any; proxies and
	// limits of connections are those of its transport.
	HTTPClient *http.Client
	// Log gets one debug record for every call (method, time, kind of failure) and a warning for a stream that
	// carries frames that make no sense. No content reaches it. Nil means no log.
	Log *slog.Logger
}

// Client speaks the first wire generation of a DSH host. It is safe for concurrent use.
type Client struct {
	origin     string // scheme://host[:port]
	http       *http.Client
	timeout    time.Duration
	log        *slog.Logger
	maxAnswer  int64
	maxFrame   int64
	pingEvery  time.Duration
	pingWithin time.Duration
}

var _ Host = (*Client)(nil)

// New makes a client of the host at base, a URL from [ParseURL]. It opens no connection.
func New(base *url.URL, opts Options) *Client {
	c := &Client{
		origin:     base.Scheme + "://" + base.Host,
		timeout:    opts.RequestTimeout,
		log:        opts.Log,
		maxAnswer:  MaxAnswer,
		maxFrame:   maxFrame,
		pingEvery:  pingEvery,
		pingWithin: pingWithin,
	}
	if c.timeout <= 0 {
		c.timeout = DefaultRequestTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.http = &http.Client{Transport: newTransport(base)}
	if opts.HTTPClient != nil {
		own := *opts.HTTPClient
		c.http = &own
	}
	// A redirect would carry a prompt to an address nobody configured; the 3xx answer itself is what is looked at.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

func newTransport(base *url.URL) *http.Transport {
	// HTTP/1 only: the stream needs it for its upgrade, the host speaks nothing else, and its rule for sending a
	// request again (only when not a byte of it was written) is the one that unary.go relies on.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		Protocols:              protocols,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConnsPerHost:    maxIdleConns,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
	if !isLoopback(base.Hostname()) {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t
}

// CloseIdle drops the connections that are kept for the next call. The client stays usable, and open streams and
// calls under way are not touched.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Describe implements [Host].
func (c *Client) Describe(ctx context.Context) (Description, error) {
	const method = "host.describe"
	value, err := c.call(ctx, method, uuid.NewString(), struct{}{})
	if err != nil {
		return Description{}, err
	}
	var bad string
	o := root(value, &bad)
	d := Description{
		Cwd:              o.text("cwd"),
		Provider:         o.optText("provider"),
		Model:            o.optText("model"),
		AttachedSessions: int(o.integer("attachedSessions")),
		Home:             o.text("home"),
	}
	return d, refusal(method, bad)
}

// Presets implements [Host].
func (c *Client) Presets(ctx context.Context) ([]Preset, error) {
	const method = "agentPreset.list"
	value, err := c.call(ctx, method, uuid.NewString(), struct{}{})
	if err != nil {
		return nil, err
	}
	var bad string
	var presets []Preset
	root(value, &bad).list("presets", func(o object) {
		p := Preset{
			ID:        o.text("id"),
			Trust:     o.text("trust"),
			IsDefault: o.flag("isDefault"),
			Name:      o.optText("name"),
		}
		if broken, ok := o.member("broken"); ok {
			p.Broken = copyRaw(broken)
		}
		presets = append(presets, p)
	})
	return presets, refusal(method, bad)
}
