package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"dsh-agentlink/bench/internal/plain"
	"dsh-agentlink/internal/home"
	"dsh-agentlink/internal/scenario/livehost"
)

const (
	// realSteps is how many tool calls the long turn on the real host has; each leaves five records.
	realSteps = 600
	// realSessions is how many tasks there are besides.
	realSessions = 300
)

// realHost is a DSH host that runs for the bench, and what is needed to start bridges on it.
type realHost struct {
	b    *bench
	host *livehost.Host
	home *home.Home
	cwd  string
}

// onRealHost measures the tools that look on a real DSH host, whose model is scripted: beside what that host takes for the
// calls, not beside what package dshtest does.
func onRealHost(b *bench) error {
	r, err := b.realHost()
	if errors.Is(err, livehost.ErrUnavailable) {
		fmt.Fprint(os.Stderr, "skipped: ", err, " ")
		return nil
	}
	if err != nil {
		return err
	}
	defer r.host.Close()
	task, cursor, err := r.longTask()
	if err != nil {
		return err
	}
	if err := r.otherTasks(); err != nil {
		return err
	}
	time.Sleep(settle)
	c, err := spawn(b.ctx, b.bridge, r.env(r.host.URL())...)
	if err != nil {
		return err
	}
	defer func() { _, _ = c.end() }()
	if err := c.greet(); err != nil {
		return err
	}
	for _, m := range []struct {
		what, tool string
		args       args
	}{
		{fmt.Sprintf("a real host: dsh_status, %d records", cursor), "dsh_status", args{"taskId": task}},
		{"a real host: dsh_tail, the last 20", "dsh_tail", args{"taskId": task, "sinceCursor": cursor - 20, "maxEvents": 20}},
		{"a real host: dsh_tail, the first 50", "dsh_tail", args{"taskId": task, "sinceCursor": 0, "maxEvents": 50}},
		{fmt.Sprintf("a real host: dsh_list, %d tasks", realSessions+1), "dsh_list", args{}},
		{"a real host: dsh_list of all, the first 200", "dsh_list", args{"state": "all", "limit": 200}},
	} {
		calls, err := r.callsOf(m.tool, m.args)
		if err != nil {
			return err
		}
		if err := b.look(c, r.host.URL(), m.what, m.tool, m.args, calls); err != nil {
			return err
		}
	}
	return nil
}

// realHost installs a host, where it is not yet, and starts it.
func (b *bench) realHost() (*realHost, error) {
	cache, err := livehost.CacheDir()
	if err != nil {
		return nil, err
	}
	installation, err := livehost.Install(b.ctx, cache, os.Stderr)
	if err != nil {
		return nil, err
	}
	r := &realHost{b: b, cwd: filepath.Join(b.dir, "real-work")}
	state := filepath.Join(b.dir, "real-host")
	for _, dir := range []string{r.cwd, state} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if r.home, err = home.Open(filepath.Join(b.dir, "real-home")); err != nil {
		return nil, err
	}
	if r.host, err = installation.New(state); err != nil {
		return nil, err
	}
	if err := r.host.Start(b.ctx); err != nil {
		r.host.Close()
		return nil, err
	}
	return r, nil
}

func (r *realHost) env(host string) []string {
	return []string{"DSH_HOST_URL=" + host, "DSH_BRIDGE_HOME=" + r.home.Dir()}
}

// longTask delegates a task of one long turn, and returns it when it is done, with its last cursor.
func (r *realHost) longTask() (task string, cursor int64, err error) {
	c, err := spawn(r.b.ctx, r.b.bridge, r.env(r.host.URL())...)
	if err != nil {
		return "", 0, err
	}
	defer func() { _, _ = c.end() }()
	if err := c.greet(); err != nil {
		return "", 0, err
	}
	text, err := c.tool("dsh_delegate", args{"cwd": r.cwd, "prompt": fmt.Sprintf(`LAB:{"loop":%d}`, realSteps)})
	if err != nil {
		return "", 0, err
	}
	d := delegated{TaskID: gjson.Get(text, "taskId").Str, Cursor: number(text, "cursor")}
	w, err := c.watch(d, "attention")
	if err != nil {
		return "", 0, err
	}
	return d.TaskID, number(w.texts[len(w.texts)-1], "nextCursor"), nil
}

// otherTasks makes sessions on the host, and tasks of them.
func (r *realHost) otherTasks() error {
	host := plain.New(r.host.URL())
	defer host.Close()
	for n := range realSessions {
		create, err := plain.NewCall("session.create", map[string]any{"cwd": r.cwd})
		if err != nil {
			return err
		}
		answer, err := host.Post(r.b.ctx, create)
		if err != nil {
			return err
		}
		session := gjson.Get(answer, "result.value.sessionId").Str
		if session == "" {
			return fmt.Errorf("session.create: %s", answer)
		}
		if _, err := putTask(r.home, n, session); err != nil {
			return err
		}
	}
	return nil
}

// callsOf records the calls of the host that a tool makes once everything stands, by a proxy between the two.
func (r *realHost) callsOf(tool string, a args) ([]plain.Call, error) {
	target, err := url.Parse(r.host.URL())
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var calls []plain.Call
	pass := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(target)
		p.Out.Host = target.Host // the host answers to its own name only
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if method, ok := strings.CutPrefix(req.URL.Path, "/api/"); ok && req.Method == http.MethodPost {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			req.Body = io.NopCloser(bytes.NewReader(body))
			mu.Lock()
			calls = append(calls, plain.Call{Method: method, Body: body})
			mu.Unlock()
		}
		pass.ServeHTTP(w, req)
	}))
	defer proxy.Close()
	ctx, end := context.WithCancel(r.b.ctx)
	defer end() // the stream would keep the proxy open
	c, err := spawn(ctx, r.b.bridge, r.env(proxy.URL)...)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = c.end() }()
	if err := c.greet(); err != nil {
		return nil, err
	}
	if _, err := c.tool(tool, a); err != nil {
		return nil, err
	}
	mu.Lock()
	calls = nil
	mu.Unlock()
	if _, err := c.tool(tool, a); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	return calls, nil
}
